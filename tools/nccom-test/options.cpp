#include "options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>

#include "checks.h"
#include "switches.h"

namespace nccom {
namespace {

constexpr const char* kProgram = "nccom-test";
constexpr uint64_t kMostSizes = 100000;  // in one table
constexpr size_t kLongestStat = 16;      // "p99.9" and more digits than anyone needs
constexpr uint32_t kMaxChannels = 4;     // of a ring permute (collectives.md 1.5)

bool is_stat(const std::string& text) {
  if (text == "avg") return true;
  if (text.size() < 2 || text[0] != 'p') return false;
  return std::all_of(text.begin() + 1, text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; }) &&
         std::count(text.begin(), text.end(), '.') <= 1 && text != "p.";
}

std::string invalid_choice(const std::string& value, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return "invalid choice: '" + value + "' (choose from " + text + ")";
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  Parsed run() {
    for (at_ = 0; at_ < arguments_.size() && !stopped_; ++at_) {
      const std::string& argument = arguments_[at_];
      if (argument.size() > 1 && argument[0] == '-' && !only_positional_) {
        if (argument == "--") {
          only_positional_ = true;
        } else {
          option(argument);
        }
      } else if (operation_.empty()) {
        operation_ = argument;
      } else {
        unknown_.push_back(argument);
      }
    }
    if (!stopped_) finish();
    if (!stopped_) {
      result_.proceed = true;
      result_.streams.push_back(options_);
    }
    return std::move(result_);
  }

  // Arguments that each stream of --streams-json adds; empty without that file.
  const std::vector<std::vector<std::string>>& streams() const { return streams_; }

 private:
  void stop(int code, std::string text) {
    if (stopped_) return;
    stopped_ = true;
    result_.exit_code = code;
    result_.text = std::move(text);
  }

  void error(const std::string& text) { stop(2, usage() + kProgram + ": error: " + text + "\n"); }
  void error(const Switch& s, const std::string& text) {
    error("argument " + label(s) + ": " + text);
  }

  // Exact name, "-r2" form, or an unambiguous beginning of a long name.
  const Switch* find(const std::string& name, std::string* glued) {
    std::vector<const Switch*> matches;
    for (const Switch& s : switches()) {
      if (name == s.full || (*s.brief != '\0' && name == s.brief)) return &s;
      if (name.size() > 2 && name[0] == '-' && name[1] != '-' && name.substr(0, 2) == s.brief &&
          s.arity != Arity::kNone) {
        *glued = name.substr(2);
        return &s;
      }
      if (name.size() > 2 && name.compare(0, 2, "--") == 0 &&
          std::string(s.full).compare(0, name.size(), name) == 0) {
        matches.push_back(&s);
      }
    }
    if (matches.size() == 1) return matches[0];
    if (matches.size() > 1) {
      std::string text = "ambiguous option: " + name + " could match ";
      for (size_t i = 0; i < matches.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::string(matches[i]->full);
      error(text);
    }
    return nullptr;
  }

  void option(const std::string& argument) {
    const size_t equals = argument.find('=');
    const bool has_value = argument.compare(0, 2, "--") == 0 && equals != std::string::npos;
    std::string glued;
    const Switch* s = find(has_value ? argument.substr(0, equals) : argument, &glued);
    if (stopped_) return;
    if (s == nullptr) {
      unknown_.push_back(argument);
      return;
    }
    std::vector<std::string> values;
    if (has_value) values.push_back(argument.substr(equals + 1));
    if (!glued.empty()) values.push_back(glued);
    if (*s->help == '\0') return error(*s, "not supported by this version");
    collect(*s, &values);
    if (!stopped_) apply(*s, values);
  }

  bool next_is_value() const {
    if (at_ + 1 >= arguments_.size()) return false;
    const std::string& next = arguments_[at_ + 1];
    return next.empty() || next[0] != '-' || next == "-";
  }

  // The operation may stand behind a list of values.
  static bool belongs(const Switch& s, const std::string& word) {
    if (std::string(s.full) == "--stats") return is_stat(word);
    return !operation_of(word);
  }

  void collect(const Switch& s, std::vector<std::string>* values) {
    switch (s.arity) {
      case Arity::kNone:
        if (!values->empty()) error(s, "ignored explicit argument '" + values->front() + "'");
        return;
      case Arity::kOne:
        if (!values->empty()) return;
        if (!next_is_value()) return error(s, "expected one argument");
        values->push_back(arguments_[++at_]);
        return;
      case Arity::kOptional:
        // The operation may stand behind a bare -c.
        if (values->empty() && next_is_value() &&
            (arguments_[at_ + 1] == "random" || arguments_[at_ + 1] == "all_ones")) {
          values->push_back(arguments_[++at_]);
        }
        return;
      case Arity::kMany:
        while (next_is_value() && belongs(s, arguments_[at_ + 1])) {
          values->push_back(arguments_[++at_]);
        }
        if (values->empty()) error(s, "expected at least one argument");
        return;
    }
  }

  uint64_t number(const Switch& s, const std::string& text, uint64_t least, uint64_t most) {
    constexpr size_t kDigits = 18;
    if (text.empty() || text.size() > kDigits ||
        !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); })) {
      error(s, "invalid int value: '" + text + "'");
      return least;
    }
    const uint64_t value = std::stoull(text);
    if (value < least || value > most) {
      error(s,
            "must be " + std::to_string(least) + " to " + std::to_string(most) + ", not " + text);
    }
    return value;
  }

  uint32_t count(const Switch& s, const std::string& text, uint64_t least) {
    constexpr uint64_t kMost = 1000000;
    return static_cast<uint32_t>(number(s, text, least, kMost));
  }

  uint64_t size(const Switch& s, const std::string& text) {
    const base::Result<uint64_t> value = parse_size(text);
    if (!value) error(s, value.error().what);
    return value ? *value : 0;
  }

  void apply(const Switch& s, const std::vector<std::string>& values) {
    const std::string name = s.full;
    const std::string value = values.empty() ? std::string() : values.front();
    Options& o = options_;
    if (set_plain(name, value, &o)) return;
    if (name == "--help") {
      stop(0, help());
    } else if (name == "--version") {
      stop(0, "nccom-test 0.1.0\n");
    } else if (name == "--nworkers") {
      o.ranks = count(s, value, 1);
    } else if (name == "--nnodes") {
      o.nodes = count(s, value, 1);
    } else if (name == "--minbytes") {
      o.min_bytes = size(s, value);
    } else if (name == "--maxbytes") {
      o.max_bytes = size(s, value);
    } else if (name == "--stepbytes" || name == "--stepfactor") {
      step(s, name, value);
    } else if (name == "--iters") {
      o.iterations = count(s, value, 1);
    } else if (name == "--warmup_iters") {
      o.warmup = count(s, value, 0);
    } else if (name == "--neff_iters" || name == "--neff_warmup_iters") {
      o.repeat_neff = true;
      (name == "--neff_iters" ? o.neff_iterations : o.neff_warmup) =
          count(s, value, name == "--neff_iters" ? 1 : 0);
    } else if (name == "--datatype") {
      datatype(s, value);
    } else if (name == "--check") {
      check(s, value);
    } else if (name == "--seed") {
      o.seed_given = true;
      o.seed = number(s, value, 0, UINT64_MAX);
    } else {
      apply_output(s, name, values);
    }
  }

  void apply_output(const Switch& s, const std::string& name,
                    const std::vector<std::string>& values) {
    const std::string value = values.empty() ? std::string() : values.front();
    Options& o = options_;
    if (name == "--stats") {
      stats(s, values);
    } else if (name == "--non-interactive") {
      o.interactive = false;
    } else if (name == "--debug") {
      o.debug = true;
      o.interactive = false;
    } else if (name == "--data-parallel-dimension") {
      dimension_ = count(s, value, 1);
    } else if (name == "--x-rank-start") {
      o.rank_start = count(s, value, 0);
    } else if (name == "--x-local-ranks") {
      o.local_ranks = count(s, value, 1);
    } else {
      apply_job(s, name, values);
    }
  }

  void apply_job(const Switch& s, const std::string& name, const std::vector<std::string>& values) {
    const std::string value = values.empty() ? std::string() : values.front();
    Options& o = options_;
    if (name == "--unique-buff" || name == "--unique-tensor") {
      o.unique_buffers = true;
    } else if (name == "--coalesced-cc-size-ratio") {
      take(s, parse_ratio(value), &o.parts);
    } else if (name == "--input-shape" || name == "--output-shape") {
      shape(s, value, name == "--input-shape" ? &o.input_shape : &o.output_shape);
    } else if (name == "--cc-dim") {
      o.cc_dim = static_cast<uint32_t>(number(s, value, 0, 1));
    } else if (name == "--hosts") {
      o.hosts = values;
    } else if (name == "--hosts-file") {
      take(s, read_hosts(value), &o.hosts);
    } else if (name == "--slurm-vcpus-per-node") {
      o.slurm_cpus = count(s, value, 1);
    } else if (name == "--slurm-setup-script") {
      o.slurm_script = value;
      if (value == "default") error(s, "'default' is not supported: there is nothing to install");
    } else if (name == "--slurm-job-id") {
      o.slurm_job = value == "alloc" ? "" : value;
    } else if (name == "--data-collector-port") {
      o.collector_port = static_cast<uint16_t>(number(s, value, 1, UINT16_MAX));
    } else if (name == "--custom-replica-groups") {
      groups_file_ = value;
    } else if (name == "--custom-src-target-pairs") {
      pairs_file_ = value;
    } else if (name == "--variable-size-op-metadata" || name == "--alltoallv-metadata") {
      metadata_file_ = value;
    } else if (name == "--streams-json") {
      take(s, read_streams(value), &streams_);
    } else if (name == "--x-ops-per-iter") {
      o.ops_per_iter = count(s, value, 1);
    } else if (name == "--x-priority") {
      constexpr uint64_t kLeastUrgent = 3;
      o.priority = static_cast<uint32_t>(number(s, value, 0, kLeastUrgent));
    } else if (name == "--x-operation") {
      operation_ = value;
    } else if (name == "--x-reduction") {
      reduction(s, value);
    } else if (name == "--x-root") {
      o.root = count(s, value, 0);
    } else if (name == "--x-channels") {
      channels_ = static_cast<uint32_t>(number(s, value, 1, kMaxChannels));
    } else if (name == "--x-in-place") {
      o.in_place = true;
    } else if (name == "--x-skew") {
      o.skew = count(s, value, 0);
    }
  }

  template <typename T>
  void take(const Switch& s, base::Result<T> value, T* to) {
    if (!value) return error(s, value.error().message());
    *to = std::move(*value);
  }

  void shape(const Switch& s, const std::string& value, std::optional<SbufShape>* to) {
    SbufShape shape;
    take(s, parse_shape(value), &shape);
    *to = shape;
  }

  void step(const Switch& s, const std::string& name, const std::string& value) {
    if (!step_.empty() && step_ != name) {
      return error(s,
                   "not allowed with argument " +
                       std::string(step_ == "--stepbytes" ? "-i/--stepbytes" : "-f/--stepfactor"));
    }
    step_ = name;
    if (name == "--stepbytes") {
      options_.step_bytes = size(s, value);
      if (options_.step_bytes == 0) error(s, "must be at least 1");
    } else {
      options_.step_factor = number(s, value, 2, 1u << 15);  // times any size: 64 bits
    }
  }

  void datatype(const Switch& s, const std::string& value) {
    const auto type = type_of(value);
    if (!type) return error(s, invalid_choice(value, type_names()));
    options_.dtype = *type;
  }

  void reduction(const Switch& s, const std::string& value) {
    const auto reduction = reduction_of(value);
    if (!reduction) return error(s, invalid_choice(value, reduction_names()));
    options_.reduction = *reduction;
  }

  void check(const Switch& s, const std::string& value) {
    if (value.empty() || value == "random") {
      options_.check = Check::kRandom;
    } else if (value == "all_ones") {
      options_.check = Check::kAllOnes;
    } else {
      error(s, invalid_choice(value, {"random", "all_ones"}));
    }
  }

  void stats(const Switch& s, const std::vector<std::string>& values) {
    options_.stats.clear();
    for (const std::string& value : values) {
      Stat stat;
      stat.text = value;
      if (!is_stat(value) || value.size() > kLongestStat)
        return error(s, "invalid choice: '" + value + "' (choose from avg, pNN)");
      if (value != "avg") stat.percentile = std::stod(value.substr(1));
      if (stat.percentile > 100) return error(s, "percentile '" + value + "' is over 100");
      options_.stats.push_back(stat);
    }
  }

  void choose_operation() {
    const auto operation = operation_of(operation_);
    if (!operation) {
      return error("argument operation: " + invalid_choice(operation_, operation_names()));
    }
    options_.operation = *operation;
  }

  void finish() {
    Options& o = options_;
    std::string missing;
    // The streams name their operations; the command line is parsed again for each of them.
    if (!streams_.empty() && operation_.empty()) return;
    if (operation_.empty() && o.matrix) operation_ = long_name(o.operation);
    if (operation_.empty()) missing = "operation";
    if (o.ranks == 0) missing += (missing.empty() ? "" : ", ") + std::string("-r/--nworkers");
    if (!missing.empty()) return error("the following arguments are required: " + missing);
    choose_operation();
    if (!unknown_.empty()) {
      std::string text = "unrecognized arguments:";
      for (const std::string& argument : unknown_) text += " " + argument;
      return error(text);
    }
    if (o.min_bytes > o.max_bytes) {
      return error("argument -e/--maxbytes: " + std::to_string(o.max_bytes) +
                   " is less than -b/--minbytes " + std::to_string(o.min_bytes));
    }
    const uint64_t steps =
        o.step_factor != 0 || o.step_bytes == 0 ? 0 : (o.max_bytes - o.min_bytes) / o.step_bytes;
    if (steps >= kMostSizes) {
      return error("argument -i/--stepbytes: " + std::to_string(steps + 1) + " sizes; at most " +
                   std::to_string(kMostSizes));
    }
    if (o.repeat_neff && o.neff_iterations == 0) o.neff_iterations = 1;
    choose_groups();
    choose_pairs();
    choose_own();
    choose_metadata();
    if (base::Status status = check_options(o); !status) return error(status.error().what);
    if (o.ranks % o.nodes != 0) {
      return error("argument -N/--nnodes: " + std::to_string(o.ranks) +
                   " ranks do not divide into " + std::to_string(o.nodes) + " instances");
    }
    if (o.local_ranks == 0) o.local_ranks = o.ranks;
    if (o.rank_start + o.local_ranks > o.ranks) {
      return error("argument --x-local-ranks: ranks " + std::to_string(o.rank_start) + " to " +
                   std::to_string(o.rank_start + o.local_ranks - 1) + " of " +
                   std::to_string(o.ranks));
    }
  }

  void choose_groups() {
    Options& o = options_;
    if (dimension_ != 0 && o.ranks % dimension_ != 0) {
      return error("argument --data-parallel-dimension: " + std::to_string(o.ranks) +
                   " ranks do not divide into groups of " + std::to_string(dimension_));
    }
    if (!groups_file_.empty()) {
      auto groups = read_groups(groups_file_, o.ranks);
      if (!groups) return error("argument --custom-replica-groups: " + groups.error().message());
      o.groups = std::move(*groups);
      return;
    }
    const uint32_t size = dimension_ != 0 ? dimension_ : o.ranks;
    for (uint32_t first = 0; first < o.ranks; first += size) {
      o.groups.emplace_back(size);
      std::iota(o.groups.back().begin(), o.groups.back().end(), first);
    }
  }

  // Without a file a permute goes once round every group, and its rank 2k sends to rank 2k + 1.
  void choose_pairs() {
    Options& o = options_;
    if (!pairs_file_.empty()) {
      if (o.operation != Operation::kPermute && o.operation != Operation::kPermuteReduce) {
        return error("argument --custom-src-target-pairs: only for permute and permute_reduce");
      }
      auto pairs = read_pairs(pairs_file_, o.ranks);
      if (!pairs) return error("argument --custom-src-target-pairs: " + pairs.error().message());
      o.pairs = std::move(*pairs);
    } else if (o.operation == Operation::kPermute || o.operation == Operation::kPermuteReduce) {
      for (const std::vector<uint32_t>& group : o.groups) {
        for (size_t i = 0; i < group.size(); ++i) {
          o.pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
        }
      }
    } else if (o.operation == Operation::kSendRecv) {
      if (o.group_ranks() % 2 != 0) return error("sendrecv needs an even number of ranks");
      for (const std::vector<uint32_t>& group : o.groups) {
        for (size_t i = 0; i < group.size(); i += 2) o.pairs.emplace_back(group[i], group[i + 1]);
      }
    }
  }

  void choose_metadata() {
    Options& o = options_;
    const std::string name = "argument --variable-size-op-metadata: ";
    if (variable_size(o.operation) && o.parts.size() != 1) {
      return error("argument --coalesced-cc-size-ratio: not for operations of variable size");
    }
    if (metadata_file_.empty()) return;
    if (!variable_size(o.operation)) {
      return error(name + "only for all_gatherv, alltoallv and reduce_scatterv");
    }
    auto metadata = read_metadata(metadata_file_);
    if (!metadata) return error(name + metadata.error().message());
    o.metadata = std::move(*metadata);
    const base::Status status = check_metadata(o);
    if (!status) error(name + status.error().message());
  }

  // What only own operations and options have.
  void choose_own() {
    Options& o = options_;
    if (o.root >= o.group_ranks()) {
      return error("argument --x-root: " + std::to_string(o.root) + " of groups of " +
                   std::to_string(o.group_ranks()) + " ranks");
    }
    if (o.operation == Operation::kBarrier && o.in_place) {
      return error("argument --x-in-place: a barrier has no buffers");
    }
    if (channels_ != 0 && !ring_permute(o.operation)) {
      return error("argument --x-channels: only for permute_implicit and permute_reduce_implicit");
    }
    if (ring_permute(o.operation)) {
      if (o.parts.size() != 1) {
        return error("argument --coalesced-cc-size-ratio: not for implicit permutes");
      }
      o.parts.assign(std::max(channels_, 1u), 1);
    }
    // Every operation must find its input as it was made.
    if (o.in_place) o.unique_buffers = true;
  }

  const std::vector<std::string>& arguments_;
  size_t at_ = 0;
  bool only_positional_ = false;
  bool stopped_ = false;
  uint32_t dimension_ = 0;
  uint32_t channels_ = 0;
  std::string operation_;
  std::string step_;
  std::string groups_file_;
  std::string pairs_file_;
  std::string metadata_file_;
  std::vector<std::vector<std::string>> streams_;
  std::vector<std::string> unknown_;
  Options options_;
  Parsed result_;
};

}  // namespace

Parsed parse(const std::vector<std::string>& arguments) {
  Parser parser(arguments);
  Parsed job = parser.run();
  if (!job.proceed || parser.streams().empty()) return job;
  Parsed all;
  for (const std::vector<std::string>& more : parser.streams()) {
    std::vector<std::string> line = arguments;
    line.insert(line.end(), more.begin(), more.end());
    Parsed stream = Parser(line).run();
    if (!stream.proceed) return stream;
    all.streams.push_back(stream.streams.front());
  }
  const base::Status agreed = check_streams(all.streams);
  if (!agreed)
    return Parsed{false, 2, usage() + kProgram + ": error: " + agreed.error().what + "\n", {}};
  all.proceed = true;
  return all;
}

}  // namespace nccom
