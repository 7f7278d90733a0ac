#include "neff_loader/flow.h"

#include <algorithm>
#include <map>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "neff_loader/status.h"

namespace neff {
namespace {

using contract::isa::Opcode;

// Calls multiply what they contain; rings of that many blocks would not fit anyway.
constexpr size_t kMaxFlow = size_t{1} << 20;
constexpr uint32_t kEntry = 0;  // region of the entry program
constexpr uint32_t kNone = ~0u;

bool ends_flow(const Instruction& in) {
  return in.opcode == Opcode::kHalt || in.opcode == Opcode::kBranch || in.opcode == Opcode::kReturn;
}

// Target of a branch, or -1.
int64_t branch_target(const ProgramStep& step) {
  const Instruction& in = step.instruction;
  if (in.opcode == Opcode::kBranch) return int64_t{step.pc} + in.operands.branch.target;
  if (in.opcode == Opcode::kCompareBranch) {
    return int64_t{step.pc} + in.operands.compare_branch.target;
  }
  return -1;
}

// The entry program and the functions that CALL names are regions; other functions only name
// records of the region that they are in.
class FlowFinder {
 public:
  FlowFinder(const EngineProgram& p, const std::vector<QueueSet>& queues,
             const std::vector<Variable>& variables)
      : program_(p), queues_(queues), variables_(variables) {}

  base::Result<std::vector<FlowStep>> run() {
    if (base::Status s = find_regions(); !s.ok()) return s.error();
    if (base::Status s = check_borders(); !s.ok()) return s.error();
    if (base::Status s = check_depth(kEntry, 0); !s.ok()) return s.error();
    mark_repeated();
    if (base::Status s = walk(kEntry, 0, false); !s.ok()) return s.error();
    if (base::Status s = check_reached(); !s.ok()) return s.error();
    return std::move(out_);
  }

 private:
  struct Region {
    const Function* function = nullptr;
    std::vector<uint32_t> steps;  // that matter here: triggers, collectives, calls, switches
    uint32_t height = 0;          // levels of calls below it, once known
    bool known = false;
    uint32_t arguments = 0;    // that it needs
    uint32_t argument_pc = 0;  // who needs the last one
  };

  base::Status fail(const char* rule, uint32_t pc, const std::string& what,
                    base::Fault fault = base::Fault::kProgram) const {
    return violation(rule, program_.instr_file + " record " + std::to_string(pc), what,
                     status::kInvalid, fault);
  }

  bool has_symbol(uint32_t index) const { return index < program_.symbols.size(); }

  base::Status find_regions() {
    std::map<std::string_view, const Function*> functions;
    for (const Function& f : program_.functions) functions.emplace(f.name, &f);
    regions_.resize(1);
    std::map<const Function*, uint32_t> region_of;
    for (const ProgramStep& step : program_.steps) {
      if (step.instruction.opcode != Opcode::kCall) continue;
      const uint32_t name = step.instruction.operands.call.name;
      const auto f = has_symbol(name) ? functions.find(program_.symbol(name)) : functions.end();
      if (f == functions.end()) {
        return fail("B-04", step.pc, "CALL of a function that the file does not have");
      }
      const auto index = static_cast<uint32_t>(regions_.size());
      const auto [region, fresh] = region_of.emplace(f->second, index);
      if (fresh) {
        regions_.emplace_back();
        regions_.back().function = f->second;
        by_entry_[f->second->entry] = index;
      }
      callee_[step.pc] = region->second;
    }
    of_step_.reserve(program_.steps.size());
    for (uint32_t i = 0; i < program_.steps.size(); ++i) {
      of_step_.push_back(region_at(program_.steps[i].pc));
      count_arguments(program_.steps[i], &regions_[of_step_.back()]);
      switch (program_.steps[i].instruction.opcode) {
        case Opcode::kCall:
        case Opcode::kSwitchQueueInstance:
        case Opcode::kPseudoDmaTrigger:
        case Opcode::kPseudoTriggerCollective2:
          regions_[of_step_.back()].steps.push_back(i);
          break;
        default:
          break;
      }
    }
    return {};
  }

  static void count_arguments(const ProgramStep& step, Region* region) {
    for (const contract::isa::SideOperand* side : contract::dge::sides_of(step.instruction)) {
      if (side == nullptr || !contract::isa::is_argument(*side)) continue;
      const uint32_t needed = side->entry - contract::isa::kFirstArgument + 1u;
      if (needed <= region->arguments) continue;
      region->arguments = needed;
      region->argument_pc = step.pc;
    }
  }

  uint32_t region_at(int64_t pc) const {
    auto after = by_entry_.upper_bound(pc);
    if (after == by_entry_.begin()) return kEntry;
    --after;
    const Function& f = *regions_[after->second].function;
    return pc - f.entry < f.length ? after->second : kEntry;
  }

  base::Status check_borders() const {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const ProgramStep& step = program_.steps[i];
      const Opcode op = step.instruction.opcode;
      const uint32_t region = of_step_[i];
      if (op == Opcode::kReturn && region == kEntry) {
        return fail("B-04", step.pc, "RETURN outside of a function that is called");
      }
      if (op == Opcode::kHalt && region != kEntry) {
        return fail("B-04", step.pc, "HALT inside a function that is called");
      }
      const int64_t target = branch_target(step);
      if (target >= 0 && region_at(target) != region) {
        return fail("B-04", step.pc, "a branch crosses the border of a function that is called");
      }
      const bool falls = !ends_flow(step.instruction);
      if (falls && i + 1 < program_.steps.size() && of_step_[i + 1] != region) {
        return fail("B-04", step.pc,
                    "control flow enters or leaves a function without a CALL or RETURN");
      }
    }
    return {};
  }

  base::Status check_depth(uint32_t index, uint32_t depth) {
    Region& region = regions_[index];
    if (region.known) return {};
    if (depth > contract::isa::kCallLevels) {
      return fail("B-04", region.function->entry,
                  "calls nest deeper than " + std::to_string(contract::isa::kCallLevels) +
                      " levels, or a function calls itself");
    }
    for (const uint32_t i : region.steps) {
      if (program_.steps[i].instruction.opcode != Opcode::kCall) continue;
      const uint32_t callee = callee_.at(program_.steps[i].pc);
      if (base::Status s = check_depth(callee, depth + 1); !s.ok()) return s;
      region.height = std::max(region.height, regions_[callee].height + 1);
    }
    region.known = true;
    if (depth + region.height <= contract::isa::kCallLevels) return {};
    return fail("B-04", region.function == nullptr ? 0 : region.function->entry,
                "calls nest deeper than " + std::to_string(contract::isa::kCallLevels) + " levels");
  }

  // Records that may run another number of times than their region does: loop bodies, what branches
  // skip, what stands behind a HALT or RETURN. As changes of depth; regions do not overlap.
  void mark_repeated() {
    const size_t records = program_.records.size() / contract::isa::kRecordBytes;
    std::vector<std::vector<int64_t>> ends(2);  // of the entry program, of functions
    for (auto& e : ends) e.assign(records + 1, 0);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const ProgramStep& step = program_.steps[i];
      const Function* function = regions_[of_step_[i]].function;
      const int64_t end = function == nullptr ? static_cast<int64_t>(records)
                                              : int64_t{function->entry} + function->length;
      std::vector<int64_t>& e = ends[function == nullptr ? 0 : 1];
      const auto mark = [&](int64_t from, int64_t to) {
        ++e[static_cast<size_t>(std::min(from, end))];
        --e[static_cast<size_t>(std::min(to, end))];
      };
      const int64_t pc = step.pc;
      const Opcode op = step.instruction.opcode;
      if (op == Opcode::kHalt || op == Opcode::kReturn) mark(pc + 1, end);
      const int64_t target = branch_target(step);
      if (target >= 0 && target <= pc) mark(target, pc + 1);
      if (target > pc) mark(pc + 1, target);
    }
    for (auto& e : ends) {
      for (size_t i = 1; i < e.size(); ++i) e[i] += e[i - 1];
    }
    repeated_.reserve(program_.steps.size());
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      repeated_.push_back(ends[of_step_[i] == kEntry ? 0 : 1][program_.steps[i].pc] > 0);
    }
  }

  // `arguments`: entries of the table that is the region's now.
  base::Status walk(uint32_t index, uint32_t arguments, bool repeated) {
    const Region& region = regions_[index];
    if (region.arguments > arguments) {
      return fail("E-20", region.argument_pc,
                  "argument " + std::to_string(region.arguments - 1) + " of " +
                      std::to_string(arguments) + " is named");
    }
    for (const uint32_t i : region.steps) {
      if (++visited_ > kMaxFlow) {
        return violation("R-01", program_.instr_file, "calls make more than 2^20 triggers",
                         status::kResource);
      }
      const bool again = repeated || repeated_[i];
      if (base::Status s = visit(i, program_.steps[i], arguments, again); !s.ok()) return s;
    }
    return {};
  }

  base::Status visit(uint32_t i, const ProgramStep& step, uint32_t arguments, bool repeated) {
    switch (step.instruction.opcode) {
      case Opcode::kCall:
        return call(step, arguments, repeated);
      case Opcode::kSwitchQueueInstance:
        return switch_instance(step, repeated);
      case Opcode::kPseudoDmaTrigger:
        return add_trigger(i, step, repeated);
      default:
        out_.push_back({i, kNone, repeated});
        return {};
    }
  }

  base::Status call(const ProgramStep& step, uint32_t arguments, bool repeated) {
    if (const uint32_t id = program_.argument_table(step); id != 0) {
      const auto table = std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) {
        return v.var_id == id && v.type == VariableType::kDgeTable;
      });
      if (table == variables_.end()) {
        return fail("B-04", step.pc,
                    "CALL with variable " + std::to_string(id) +
                        ", which is no dge-table, as its arguments");
      }
      arguments = static_cast<uint32_t>(table->table_var_ids.size());
    }
    return walk(callee_.at(step.pc), arguments, repeated);
  }

  // Nothing is made at load for what only a function starts that no execution reaches.
  base::Status check_reached() const {
    for (const Region& region : regions_) {
      if (region.known) continue;
      for (const uint32_t i : region.steps) {
        const Opcode op = program_.steps[i].instruction.opcode;
        if (op == Opcode::kCall || op == Opcode::kSwitchQueueInstance) continue;
        return fail("B-04", program_.steps[i].pc,
                    "function '" + region.function->name + "' is called by none that is called");
      }
    }
    return {};
  }

  base::Status add_trigger(uint32_t i, const ProgramStep& step, bool repeated) {
    const contract::isa::PseudoDmaTrigger& t = step.instruction.operands.pseudo_dma_trigger;
    if (t.queue == 0 || !has_symbol(t.queue) || !has_symbol(t.instance)) {
      return fail("B-04", step.pc, "trigger names a symbol that the file does not have");
    }
    const std::string_view function = program_.function_at(step.pc);
    const std::string& key = program_.symbol(t.instance != 0 ? t.instance : t.queue);
    const DmaBlock* block = nullptr;
    const auto active = active_.find(key);
    if (active != active_.end()) block = program_.find_block(function, active->second, t.block_id);
    if (block == nullptr) block = program_.find_block(function, key, t.block_id);
    if (block == nullptr) {
      return fail("E-20", step.pc,
                  "no descriptors for queue " + key + " block_id " + std::to_string(t.block_id) +
                      " in " +
                      (program_.json_file.empty() ? "any engine JSON" : program_.json_file));
    }
    out_.push_back({i, static_cast<uint32_t>(block - program_.blocks.data()), repeated});
    return {};
  }

  base::Status switch_instance(const ProgramStep& step, bool repeated) {
    const contract::isa::SwitchQueueInstance& s = step.instruction.operands.switch_queue_instance;
    const auto set = std::find_if(queues_.begin(), queues_.end(), [&](const QueueSet& q) {
      return has_symbol(s.queue) && q.name == program_.symbol(s.queue);
    });
    if (set == queues_.end() || !has_symbol(s.instance)) {
      return fail("B-04", step.pc, "SWITCH_QUEUE_INSTANCE names no queue set");
    }
    if (repeated) {
      return fail("B-04", step.pc, "SWITCH_QUEUE_INSTANCE inside a loop or branch is not supported",
                  base::Fault::kUnsupported);
    }
    const std::string& instance = program_.symbol(s.instance);
    if (instance.empty()) {
      active_.erase(set->name);
      return {};
    }
    if (std::find(set->instances.begin(), set->instances.end(), instance) == set->instances.end()) {
      return fail("B-04", step.pc,
                  "queue set " + set->name + " has no instance '" + instance + "'");
    }
    active_[set->name] = instance;
    return {};
  }

  const EngineProgram& program_;
  const std::vector<QueueSet>& queues_;
  const std::vector<Variable>& variables_;
  std::vector<Region> regions_;
  std::map<int64_t, uint32_t> by_entry_;       // first record -> region
  std::map<uint32_t, uint32_t> callee_;        // record of a CALL -> region
  std::vector<uint32_t> of_step_;              // region
  std::vector<bool> repeated_;                 // by step
  std::map<std::string, std::string> active_;  // queue set -> instance
  size_t visited_ = 0;
  std::vector<FlowStep> out_;
};

}  // namespace

base::Result<std::vector<FlowStep>> find_flow(const EngineProgram& program,
                                              const std::vector<QueueSet>& queues,
                                              const std::vector<Variable>& variables) {
  return FlowFinder(program, queues, variables).run();
}

}  // namespace neff
