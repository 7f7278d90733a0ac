// Text to engine files, driven by the operand descriptions of the instruction table. Two passes:
// statements and labels, then records.
#include <algorithm>
#include <map>

#include "arch/contract/isa_file.h"
#include "neff_loader/asm.h"
#include "neff_loader/asm_operands.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"
#include "neff_loader/status.h"

namespace neff {
namespace {

namespace isa = contract::isa;
using text::Statement;
using text::Token;

bool all_digits(const std::string& s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Splits one line at blanks outside quotes; '#' and ';' begin a comment.
bool tokenize(std::string_view line, std::vector<std::string>* out) {
  std::string current;
  bool in_quotes = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_quotes) {
      current += c;
      if (c == '\\' && i + 1 < line.size()) current += line[++i];
      if (c == '"') in_quotes = false;
      continue;
    }
    if (c == '#' || c == ';') break;
    if (c == ' ' || c == '\t' || c == '\r') {
      if (!current.empty()) out->push_back(std::move(current));
      current.clear();
      continue;
    }
    current += c;
    in_quotes = c == '"';
  }
  if (!current.empty()) out->push_back(std::move(current));
  return !in_quotes;
}

class Assembler {
 public:
  explicit Assembler(const AsmOptions& options) : options_(options) {}

  base::Result<std::vector<uint8_t>> run(std::string_view text) {
    int line = 0;
    while (!text.empty() && !error_) {
      const size_t end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end), ++line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (open_function_) fail(line, ".function without .endfunction");
    settle_target(line);
    for (const Function& f : functions_) intern(f.name);
    for (const Statement& s : statements_) {
      if (!error_) encode_statement(s);
    }
    if (error_) return *error_;
    return build_file();
  }

 private:
  void fail(int line, std::string what) {
    if (!error_) {
      error_ = base::Error{base::Fault::kProgram, status::kInvalid, "line " + std::to_string(line),
                           std::move(what)};
    }
  }

  uint32_t intern(const std::string& name) {
    const auto [it, fresh] = symbol_index_.emplace(name, static_cast<uint32_t>(symbols_.size()));
    if (fresh) symbols_.push_back(name);
    return it->second;
  }

  void read_line(std::string_view line, int number) {
    std::vector<std::string> words;
    if (!tokenize(line, &words)) return fail(number, "text after an opening quote does not end");
    size_t first = 0;
    if (!words.empty() && all_digits(words[0])) ++first;  // record index, for readers only
    while (first < words.size() && words[first].back() == ':') {
      add_label(words[first++], number);
    }
    if (first == words.size()) return;
    if (words[first][0] == '.') {
      return directive({words.begin() + static_cast<ptrdiff_t>(first), words.end()}, number);
    }
    std::vector<Token> tokens;
    const bool has_op = text::op_named(words[first]) != nullptr;
    for (size_t i = first + (has_op ? 1 : 0); i < words.size(); ++i)
      tokens.push_back({words[i], number});
    if (has_op) return add_statement(*text::op_named(words[first]), std::move(tokens), number);
    const bool operand = words[first][0] == '$' || words[first][0] == '@' ||
                         words[first].find('=') != std::string::npos;
    if (!operand) return fail(number, "unknown instruction '" + words[first] + "'");
    if (statements_.empty()) return fail(number, "operands without an instruction");
    append(tokens);
  }

  void append(const std::vector<Token>& tokens) {
    std::vector<Token>& all = statements_.back().tokens;
    all.insert(all.end(), tokens.begin(), tokens.end());
  }

  void add_label(const std::string& word, int line) {
    const std::string name = word.substr(0, word.size() - 1);
    if (!text::plain_symbol(name)) return fail(line, "'" + name + "' is no label name");
    if (!labels_.emplace(name, pc_).second) fail(line, "label '" + name + "' is defined twice");
  }

  void add_statement(const isa::OpInfo& op, std::vector<Token> tokens, int line) {
    if (static_cast<isa::Opcode>(op.opcode) == isa::Opcode::kPseudoExtension) {
      const bool expected = !statements_.empty() && statements_.back().extension_open;
      if (!expected) return fail(line, "PSEUDO_EXTENSION without an instruction that has one");
      statements_.back().extension_open = false;
      return append(tokens);
    }
    if (!op.supported) return fail(line, std::string(op.name) + " is known but not supported");
    const isa::OpOperands* operands = text::operands_of(op.opcode);
    const bool extension = operands != nullptr && operands->extension_line;
    statements_.push_back({&op, std::move(tokens), line, pc_, extension});
    pc_ += 1u + op.extensions;
  }

  void directive(const std::vector<std::string>& words, int line) {
    const std::string& name = words[0];
    if (name == ".engine" && words.size() == 2) return set_engine(words[1], line);
    if (name == ".arch" && words.size() == 2) return set_arch(words[1], line);
    if (name == ".self_cleaning" && words.size() == 1) {
      self_cleaning_ = true;
    } else if (name == ".symbol" && words.size() == 2) {
      std::string symbol;
      if (!text::unquote(words[1], &symbol)) return fail(line, "malformed symbol " + words[1]);
      // One entry each, so that any table can be written; names mean their first entry.
      symbol_index_.emplace(symbol, static_cast<uint32_t>(symbols_.size()));
      symbols_.push_back(symbol);
    } else if (name == ".function" && (words.size() == 2 || words.size() == 3)) {
      begin_function(words, line);
    } else if (name == ".endfunction" && words.size() == 1) {
      if (!open_function_) return fail(line, ".endfunction without .function");
      functions_.back().length = pc_ - functions_.back().entry;
      if (functions_.back().length == 0) fail(line, "function without an instruction");
      open_function_ = false;
    } else {
      fail(line, "unknown or malformed directive " + name);
    }
  }

  void begin_function(const std::vector<std::string>& words, int line) {
    constexpr std::string_view kArgs = "args_table_var_id=";
    if (open_function_) return fail(line, ".function inside a function");
    Function f;
    f.entry = pc_;
    if (!text::unquote(words[1], &f.name) || f.name.empty()) return fail(line, "malformed name");
    if (words.size() == 3) {
      uint64_t id = 0;
      if (words[2].compare(0, kArgs.size(), kArgs) != 0 ||
          !text::parse_unsigned(std::string_view(words[2]).substr(kArgs.size()), 0xFFFFFFFF, &id)) {
        return fail(line, "expected args_table_var_id=N");
      }
      f.args_var_id = static_cast<uint32_t>(id);
    }
    functions_.push_back(std::move(f));
    open_function_ = true;
  }

  void set_engine(const std::string& name, int line) {
    for (unsigned e = 0; e < kEngines; ++e) {
      const auto engine = static_cast<Engine>(e);
      if (name != to_string(engine)) continue;
      if (options_.engine && *options_.engine != engine) {
        return fail(line,
                    "program is for engine " + name + ", expected " + to_string(*options_.engine));
      }
      options_.engine = engine;
      return;
    }
    fail(line, "unknown engine '" + name + "': pe, act, pool, dve, sp");
  }

  void set_arch(const std::string& name, int line) {
    unsigned version = 0;
    if (const auto arch = parse_arch(name)) version = core_version(*arch);
    if (name == "v2" || name == "v3" || name == "v4")
      version = static_cast<unsigned>(name[1] - '0');
    if (version < 2)
      return fail(line, "unknown architecture '" + name + "': trn1, inf2, trn2, trn3, v2, v3, v4");
    if (options_.core_version && *options_.core_version != version) {
      return fail(line, "program is for NeuronCore v" + std::to_string(version) + ", expected v" +
                            std::to_string(*options_.core_version));
    }
    options_.core_version = static_cast<uint8_t>(version);
  }

  void settle_target(int line) {
    if (!options_.engine) fail(line, "the program does not say its engine (.engine)");
    if (!options_.core_version) fail(line, "the program does not say its architecture (.arch)");
  }

  void encode_statement(const Statement& s) {
    if (s.extension_open)
      return fail(s.line, std::string(s.op->name) + " without its PSEUDO_EXTENSION");
    const size_t at = records_.size();
    records_.resize(at + (1u + s.op->extensions) * isa::kRecordBytes);
    const text::Resolver resolver{[this](const std::string& n) { return intern(n); },
                                  [this, &s](const std::string& label, int32_t* offset) {
                                    const auto it = labels_.find(label);
                                    if (it == labels_.end()) return false;
                                    *offset = static_cast<int32_t>(it->second - s.pc);
                                    return true;
                                  }};
    base::Status status = text::encode_statement(s, resolver, records_.data() + at);
    if (!status) return fail(s.line, status.error().what);
    Instruction check;
    const isa::DecodeError error = isa::decode(records_.data() + at, records_.size() - at, &check);
    if (error != isa::DecodeError::kNone) {
      return fail(s.line, std::string(s.op->name) + ": " + to_string(error));
    }
    if (!s.op->runs_on(*options_.engine)) {
      fail(s.line,
           std::string(s.op->name) + " does not run on engine " + to_string(*options_.engine));
    }
  }

  std::vector<uint8_t> build_file() const {
    isa::EngineFileHeader h;
    h.engine = static_cast<uint8_t>(*options_.engine);
    h.arch = *options_.core_version;
    h.flags = self_cleaning_ ? isa::kFileSelfCleaning : 0;
    std::vector<uint8_t> rows(functions_.size() * isa::kFunctionEntryBytes);
    uint8_t* row = rows.data();
    for (const Function& f : functions_) {
      base::store(row, symbol_index_.at(f.name));
      base::store(row + 4, f.entry);
      base::store(row + 8, f.length);
      base::store(row + 12, f.args_var_id);
      row += isa::kFunctionEntryBytes;
    }
    return engine_file(h, records_, rows, symbols_);
  }

  AsmOptions options_;
  bool self_cleaning_ = false;
  bool open_function_ = false;
  uint32_t pc_ = 0;
  std::vector<Statement> statements_;
  std::vector<Function> functions_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::string> symbols_{""};
  std::map<std::string, uint32_t> symbol_index_{{"", 0}};
  std::vector<uint8_t> records_;
  std::optional<base::Error> error_;
};

}  // namespace

base::Result<std::vector<uint8_t>> assemble(std::string_view text, const AsmOptions& options) {
  return Assembler(options).run(text);
}

}  // namespace neff
