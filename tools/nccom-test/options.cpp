#include "options.h"

#include <algorithm>
#include <numeric>

#include "checks.h"
#include "switches.h"

namespace nccom {
namespace {

constexpr const char* kProgram = "nccom-test";
constexpr uint64_t kMostSizes = 100000;  // in one table

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
      } else if (draft_.operation.empty()) {
        draft_.operation = argument;
      } else {
        unknown_.push_back(argument);
      }
    }
    if (!stopped_) finish();
    if (!stopped_) {
      result_.proceed = true;
      result_.streams.push_back(draft_.options);
    }
    return std::move(result_);
  }

  // Arguments that each stream of --streams-json adds; empty without that file.
  const std::vector<std::vector<std::string>>& streams() const { return draft_.streams; }

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
    if (s->apply == nullptr) return error(*s, "not supported by this version");
    collect(*s, &values);
    if (stopped_) return;
    Given given(*s, std::move(values));
    s->apply(given, &draft_);
    if (!given.refusal().empty()) return error(*s, given.refusal());
    if (!draft_.answer.empty()) stop(0, draft_.answer);
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

  void choose_operation() {
    const auto operation = operation_of(draft_.operation);
    if (!operation) {
      return error("argument operation: " + invalid_choice(draft_.operation, operation_names()));
    }
    draft_.options.operation = *operation;
  }

  void finish() {
    Options& o = draft_.options;
    std::string missing;
    // The streams name their operations; the command line is parsed again for each of them.
    if (!draft_.streams.empty() && draft_.operation.empty()) return;
    if (draft_.operation.empty() && o.matrix) draft_.operation = long_name(o.operation);
    if (draft_.operation.empty()) missing = "operation";
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
    Options& o = draft_.options;
    if (draft_.dimension != 0 && o.ranks % draft_.dimension != 0) {
      return error("argument --data-parallel-dimension: " + std::to_string(o.ranks) +
                   " ranks do not divide into groups of " + std::to_string(draft_.dimension));
    }
    if (!draft_.groups_file.empty()) {
      auto groups = read_groups(draft_.groups_file, o.ranks);
      if (!groups) return error("argument --custom-replica-groups: " + groups.error().message());
      o.groups = std::move(*groups);
      return;
    }
    const uint32_t size = draft_.dimension != 0 ? draft_.dimension : o.ranks;
    for (uint32_t first = 0; first < o.ranks; first += size) {
      o.groups.emplace_back(size);
      std::iota(o.groups.back().begin(), o.groups.back().end(), first);
    }
  }

  // Without a file a permute goes once round every group, and its rank 2k sends to rank 2k + 1.
  void choose_pairs() {
    Options& o = draft_.options;
    if (!draft_.pairs_file.empty()) {
      if (o.operation != Operation::kPermute && o.operation != Operation::kPermuteReduce) {
        return error("argument --custom-src-target-pairs: only for permute and permute_reduce");
      }
      auto pairs = read_pairs(draft_.pairs_file, o.ranks);
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
    Options& o = draft_.options;
    const std::string name = "argument --variable-size-op-metadata: ";
    if (variable_size(o.operation) && o.parts.size() != 1) {
      return error("argument --coalesced-cc-size-ratio: not for operations of variable size");
    }
    if (draft_.metadata_file.empty()) return;
    if (!variable_size(o.operation)) {
      return error(name + "only for all_gatherv, alltoallv and reduce_scatterv");
    }
    auto metadata = read_metadata(draft_.metadata_file);
    if (!metadata) return error(name + metadata.error().message());
    o.metadata = std::move(*metadata);
    const base::Status status = check_metadata(o);
    if (!status) error(name + status.error().message());
  }

  // What only own operations and options have.
  void choose_own() {
    Options& o = draft_.options;
    if (o.root >= o.group_ranks()) {
      return error("argument --x-root: " + std::to_string(o.root) + " of groups of " +
                   std::to_string(o.group_ranks()) + " ranks");
    }
    if (o.operation == Operation::kBarrier && o.in_place) {
      return error("argument --x-in-place: a barrier has no buffers");
    }
    if (draft_.channels != 0 && !ring_permute(o.operation)) {
      return error("argument --x-channels: only for permute_implicit and permute_reduce_implicit");
    }
    if (ring_permute(o.operation)) {
      if (o.parts.size() != 1) {
        return error("argument --coalesced-cc-size-ratio: not for implicit permutes");
      }
      o.parts.assign(std::max(draft_.channels, 1u), 1);
    }
    // Every operation must find its input as it was made.
    if (o.in_place) o.unique_buffers = true;
  }

  const std::vector<std::string>& arguments_;
  size_t at_ = 0;
  bool only_positional_ = false;
  bool stopped_ = false;
  std::vector<std::string> unknown_;
  Draft draft_;
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
