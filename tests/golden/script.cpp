#include "tests/golden/script.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace golden {
namespace {

constexpr uint32_t kMaxDepth = 16;          // use lines inside each other
constexpr char kEverywhere[] = "REVISION";  // known in every file

using Value = std::optional<uint64_t>;

[[noreturn]] void bad(const std::string& what) {
  throw std::runtime_error(what);
}

uint64_t number(const std::string& text, int base) {
  size_t used = 0;
  uint64_t value = 0;
  try {
    value = std::stoull(text, &used, base);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || text[0] == '-') bad("'" + text + "' is no number");
  return value;
}

Value factor(const std::string& text, const Names& names) {
  const auto name = names.find(text);
  return name != names.end() ? name->second : number(text, 16);
}

template <typename Part, typename Join>
Value joined(const std::string& text, char separator, const Part& part, const Join& join) {
  Value sum;
  bool any = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t stop = std::min(text.find(separator, at), text.size());
    const Value one = part(text.substr(at, stop - at));
    any = any || !one;
    if (one) sum = sum ? join(*sum, *one) : *one;
    at = stop + 1;
  }
  return any ? Value{} : sum;
}

// Sums of products of names and hexadecimal numbers; lo(..) and hi(..) take one half; * is any.
Value evaluate(const std::string& text, const Names& names) {
  if (text == "*") return {};
  if (text.size() > 4 && text.back() == ')' &&
      (text.rfind("lo(", 0) == 0 || text.rfind("hi(", 0) == 0)) {
    const Value whole = evaluate(text.substr(3, text.size() - 4), names);
    if (!whole) return {};
    return text[0] == 'l' ? *whole & 0xFFFF'FFFF : *whole >> 32;
  }
  return joined(
      text, '+',
      [&](const std::string& term) {
        return joined(
            term, '*', [&](const std::string& f) { return factor(f, names); },
            [](uint64_t a, uint64_t b) { return a * b; });
      },
      [](uint64_t a, uint64_t b) { return a + b; });
}

uint64_t known(const std::string& text, const Names& names) {
  const Value value = evaluate(text, names);
  if (!value) bad("'" + text + "' must have a value here");
  return *value;
}

uint32_t word(uint64_t value) {
  if (value >> 32 != 0) bad("a value of more than 32 bits");
  return static_cast<uint32_t>(value);
}

Expected expected(const std::string& text, const Names& names) {
  Expected out;
  const size_t slash = text.find('/');
  const Value value = evaluate(text.substr(0, slash), names);
  out.any = !value;
  if (value) out.value = word(*value);
  if (slash != std::string::npos) out.mask = word(known(text.substr(slash + 1), names));
  return out;
}

// A decimal number with us, ms or s.
base::Ps time(const std::string& text) {
  const size_t unit = std::min(text.find_first_not_of("0123456789"), text.size());
  const uint64_t count = number(text.substr(0, unit), 10);
  const std::string name = text.substr(unit);
  if (name == "us") return base::us(count);
  if (name == "ms") return base::ms(count);
  if (name == "s") return count * base::kPsPerS;
  bad("'" + text + "' is no time in us, ms or s");
}

// The words of one line, taken one after the other.
class Words {
 public:
  Words(const std::vector<std::string>& words, const Names& names) : words_(words), names_(names) {}
  const std::string& next() {
    if (at_ >= words_.size()) bad("the line is too short");
    return words_[at_++];
  }
  bool more() const { return at_ < words_.size(); }
  uint64_t number() { return known(next(), names_); }
  Expected value() { return expected(next(), names_); }

 private:
  const std::vector<std::string>& words_;
  const Names& names_;
  size_t at_ = 0;
};

void register_step(Step& step, Words& words) {
  step.address = words.number();
  step.value = words.value();
  if (step.op != Op::kPoll) return;
  step.period = time(words.next());
  step.limit = time(words.next());
}

void config_step(Step& step, Words& words) {
  step.op = words.next() == "read" ? Op::kConfigRead : Op::kConfigWrite;
  step.address = words.number();
  step.size = static_cast<unsigned>(words.number());
  step.value = words.value();
}

void memory_step(Step& step, Words& words) {
  const std::string what = words.next();
  step.address = words.number();
  if (what == "write" || what == "expect") {
    step.op = what == "write" ? Op::kMemWrite : Op::kMemExpect;
    while (words.more()) {
      if (step.words == step.data.size()) bad("more than eight words");
      step.data[step.words++] = word(words.number());
    }
  } else if (what == "poll") {
    step.op = Op::kMemPoll;
    step.value = words.value();
    step.period = time(words.next());
    step.limit = time(words.next());
  } else if (what == "fill" || what == "check") {
    step.op = what == "fill" ? Op::kMemFill : Op::kMemCheck;
    step.length = words.number();
    step.data[0] = word(words.number());
  } else {
    bad("unknown memory step '" + what + "'");
  }
}

// A DMA descriptor in host memory: two words and an address.
void descriptor_step(Step& step, Words& words) {
  step.op = Op::kMemWrite;
  step.address = words.number();
  step.data[0] = word(words.number());
  step.data[1] = word(words.number());
  const uint64_t address = words.number();
  step.data[2] = static_cast<uint32_t>(address);
  step.data[3] = static_cast<uint32_t>(address >> 32);
  step.words = 4;
}

bool register_op(const std::string& op, Step& step) {
  static const std::map<std::string, std::pair<Op, bool>> kOps = {
      {"W", {Op::kWrite, true}},          {"R", {Op::kRead, true}},
      {"RNO", {Op::kReadReady, true}},    {"P", {Op::kPoll, true}},
      {"write", {Op::kWrite, false}},     {"expect", {Op::kRead, false}},
      {"ready", {Op::kReadReady, false}}, {"poll", {Op::kPoll, false}},
  };
  const auto found = kOps.find(op);
  if (found == kOps.end()) return false;
  step.op = found->second.first;
  step.driver = found->second.second;
  return true;
}

void fill(Step& step, const std::string& op, Words& words) {
  if (register_op(op, step)) {
    register_step(step, words);
  } else if (op == "config") {
    config_step(step, words);
  } else if (op == "host" || op == "hbm") {
    step.hbm = op == "hbm";
    memory_step(step, words);
  } else if (op == "desc") {
    descriptor_step(step, words);
  } else if (op == "wait") {
    step.op = Op::kWait;
    step.period = time(words.next());
  } else if (op == "count") {
    step.op = Op::kCount;
  } else if (op == "totals") {
    step.op = Op::kTotals;
    step.writes = number(words.next(), 10);
    step.reads = number(words.next(), 10);
  } else {
    bad("unknown line '" + op + "'");
  }
}

}  // namespace

std::string Script::where(const Step& step) const {
  std::string text = places[step.place].file + ":" + std::to_string(step.line);
  for (uint32_t at = step.place; at != 0; at = places[at].from) {
    const Place& place = places[at];
    text += at == step.place ? " (from " : ", ";
    text += places[place.from].file + ":" + std::to_string(place.line);
  }
  return step.place == 0 ? text : text + ")";
}

// One file being read.
struct ScriptReader::Frame {
  const std::vector<Line>& lines;
  Names names;
  bool driver;  // false below a `play` line: nothing here is an access of a driver
  Script& script;
  uint32_t place;
};

Script ScriptReader::read(const std::string& file, For reader, const Names& names) {
  for_ = reader;
  device_ = 0;
  depth_ = 0;
  Script script;
  Names all = names;
  all.emplace(kEverywhere, std::nullopt);
  append({file, 0, 0}, std::move(all), true, script);
  return script;
}

const std::vector<ScriptReader::Line>& ScriptReader::lines_of(const std::string& file) {
  const auto cached = cache_.find(file);
  if (cached != cache_.end()) return cached->second;
  std::ifstream in(directory_ + "/" + file);
  if (!in) bad("cannot read " + directory_ + "/" + file);
  std::vector<Line>& lines = cache_[file];
  std::string text;
  for (uint32_t n = 1; std::getline(in, text); ++n) {
    Line line{n, {}};
    std::istringstream words(text);
    for (std::string one; words >> one && one[0] != '#';) line.words.push_back(one);
    if (!line.words.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

void ScriptReader::append(Script::Place place, Names names, bool driver, Script& script) {
  if (++depth_ > kMaxDepth) bad(place.file + ": use lines are nested too deeply");
  const std::vector<Line>& lines = lines_of(place.file);
  const auto index = static_cast<uint32_t>(script.places.size());
  script.places.push_back(std::move(place));
  Frame frame{lines, std::move(names), driver, script, index};
  run(frame, 0, lines.size());
  --depth_;
}

void ScriptReader::run(Frame& frame, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Line& line = frame.lines[i];
    try {
      const std::string& op = line.words[0];
      if (op == "repeat") {
        i = repeat(frame, i, end);
      } else if (op == "use" || op == "play") {
        insert(frame, line);
      } else if (!declare(frame, line)) {
        Step step;
        register_op(op, step);
        // What only a player does may need addresses that only it knows.
        if (for_ == For::kComparison && !(step.driver && frame.driver)) continue;
        step.device = device_;
        step.place = frame.place;
        step.line = line.number;
        Words words(line.words, frame.names);
        words.next();
        fill(step, op, words);
        if (words.more()) bad("the line is too long");
        step.driver = step.driver && frame.driver;
        frame.script.steps.push_back(step);
      }
    } catch (const std::runtime_error& e) {
      // The innermost line is the useful one; the outer ones only pass it on.
      const std::string what = e.what();
      if (what.find(".trace:") != std::string::npos) throw;
      bad(frame.script.places[frame.place].file + ":" + std::to_string(line.number) + ": " + what);
    }
  }
}

// `repeat COUNT NAME` ... `end`: NAME counts from 0. Returns the index of the end line.
size_t ScriptReader::repeat(Frame& frame, size_t at, size_t end) {
  const std::vector<std::string>& words = frame.lines[at].words;
  if (words.size() != 3) bad("repeat needs a count and a name");
  const uint64_t count = number(words[1], 10);
  size_t close = at + 1;
  for (int open = 1; close < end; ++close) {
    const std::string& op = frame.lines[close].words[0];
    open += op == "repeat" ? 1 : op == "end" ? -1 : 0;
    if (open == 0) break;
  }
  if (close == end) bad("repeat without end");
  for (uint64_t i = 0; i < count; ++i) {
    frame.names[words[2]] = i;
    run(frame, at + 1, close);
  }
  return close;
}

void ScriptReader::insert(Frame& frame, const Line& line) {
  if (line.words.size() < 2) bad("which file?");
  const bool played = line.words[0] == "play";
  if (played && for_ == For::kComparison) return;
  Names inner{{kEverywhere, frame.names[kEverywhere]}};
  for (size_t k = 2; k < line.words.size(); ++k) {
    const std::string& text = line.words[k];
    const size_t eq = text.find('=');
    if (eq == std::string::npos) bad("'" + text + "' is not NAME=VALUE");
    inner[text.substr(0, eq)] = evaluate(text.substr(eq + 1), frame.names);
  }
  append({line.words[1], frame.place, line.number}, std::move(inner), frame.driver && !played,
         frame.script);
}

// Lines that say something about those behind them.
bool ScriptReader::declare(Frame& frame, const Line& line) {
  const std::string& op = line.words[0];
  const size_t count = line.words.size();
  if (op == "base" || op == "memory") {
    if (count != 3) bad(op + " needs a name and a value");
    const Value value = evaluate(line.words[2], frame.names);
    frame.names[line.words[1]] = op == "memory" && for_ == For::kComparison ? Value{} : value;
    return true;
  }
  if (op == "device") {
    if (count != 2) bad("device needs a number");
    device_ = word(number(line.words[1], 10));
    frame.script.devices = std::max(frame.script.devices, device_ + 1);
    return true;
  }
  if (op == "cable") {
    const bool left = count == 4 && line.words[1] == "left";
    if (!left && (count != 4 || line.words[1] != "right")) bad("cable left|right DEVICE DEVICE");
    const uint32_t a = word(number(line.words[2], 10));
    const uint32_t b = word(number(line.words[3], 10));
    frame.script.cables.push_back({left, a, b});
    frame.script.devices = std::max({frame.script.devices, a + 1, b + 1});
    return true;
  }
  return false;
}

}  // namespace golden
