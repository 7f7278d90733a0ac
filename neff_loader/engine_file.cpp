// Engine instruction files in our encoding (spec/neff.md 5.4, 5.5).
#include <algorithm>
#include <cstring>

#include "arch/contract/address_map.h"
#include "arch/contract/isa_file.h"
#include "neff_loader/parse.h"

namespace neff {
namespace {

namespace isa = contract::isa;
using isa::Opcode;

constexpr uint64_t kMaxRecords = 1u << 24;  // 1 GiB of instructions

std::string at_record(const std::string& file, uint32_t pc) {
  return file + " record " + std::to_string(pc);
}

void parse_symbols(const Context& c, const Member& member, base::ConstByteSpan table,
                   EngineProgram* p) {
  if (!table.empty() && table[table.size() - 1] != 0) {
    return c.report.fail("B-01", member.name, "string table does not end in NUL");
  }
  size_t at = 0;
  while (at < table.size()) {
    const char* text = reinterpret_cast<const char*>(table.data()) + at;
    p->symbols.emplace_back(text);
    at += p->symbols.back().size() + 1;
  }
  if (p->symbols.empty()) p->symbols.emplace_back();
  if (!p->symbols[0].empty())
    c.report.fail("B-01", member.name, "symbol 0 is not the empty string");
}

void parse_functions(const Context& c, const Member& member, const isa::EngineFileHeader& h,
                     EngineProgram* p) {
  uint64_t free_from = 0;
  for (uint64_t i = 0; i < h.function_count; ++i) {
    const uint8_t* entry = member.data.data() + h.functions_offset + i * isa::kFunctionEntryBytes;
    const auto name = base::load<uint32_t>(entry);
    Function f;
    f.entry = base::load<uint32_t>(entry + 4);
    f.length = base::load<uint32_t>(entry + 8);
    f.args_var_id = base::load<uint32_t>(entry + 12);
    if (name == 0 || name >= p->symbols.size()) {
      return c.report.fail("B-04", member.name, "function " + std::to_string(i) + " has no name");
    }
    f.name = p->symbols[name];
    if (f.length == 0 || f.entry < free_from || f.entry > h.record_count ||
        f.length > h.record_count - f.entry) {
      return c.report.fail("B-04", member.name,
                           "function '" + f.name + "' is empty, overlaps or leaves the program");
    }
    free_from = static_cast<uint64_t>(f.entry) + f.length;
    p->functions.push_back(std::move(f));
  }
}

void fail_decode(const Context& c, const std::string& where, isa::DecodeError error,
                 const Instruction& in) {
  const auto code = static_cast<unsigned>(in.opcode);
  if (error == isa::DecodeError::kUnknownOpcode) {
    return c.report.fail("B-02", where,
                         "Unsupported hardware operator code " + std::to_string(code) +
                             " found in neff. Upgrade the runtime and the collectives library");
  }
  const isa::OpInfo* op = isa::find_op(in.opcode);
  const std::string what = std::string(op == nullptr ? "?" : op->name) + ": " + to_string(error);
  const bool unsupported = error == isa::DecodeError::kUnsupported;
  c.report.fail(violation(unsupported ? "B-02" : "B-03", where, what, status::kInvalid,
                          unsupported ? base::Fault::kUnsupported : base::Fault::kProgram));
}

// Static extent of a tensor operand inside a partition.
bool operand_inside(const isa::TensorOperand& t, unsigned core_version) {
  if (t.offset_register != isa::kNoRegister) return true;  // known at run time only
  int64_t low = t.byte_offset;
  int64_t high = low;
  const auto bytes = static_cast<int64_t>(data_type_bytes(t.dtype));
  for (const isa::PatternDim& d : t.dims) {
    if (d.count == 0) break;
    const int64_t reach = static_cast<int64_t>(d.step) * (d.count - 1) * bytes;
    (reach < 0 ? low : high) += reach;
  }
  const uint64_t limit =
      t.memory == isa::Memory::kPsum ? kPsumPartitionBytes : sbuf_partition_bytes(core_version);
  return low >= 0 && static_cast<uint64_t>(high + bytes) <= limit;
}

bool writes_to_blocks(const isa::Write& write, unsigned core_version) {
  const contract::Window region =
      contract::AddressMap{static_cast<contract::Gen>(core_version)}.extension();
  const auto inside = [&](uint64_t address, uint32_t size) {
    return address >= region.device && address - region.device <= region.size - size;
  };
  return inside(write.dst0, write.size0) && (write.size1 == 0 || inside(write.dst1, write.size1));
}

// Rules that need the engine or the architecture (B-03).
void check_placement(const Context& c, const std::string& where, const Instruction& in,
                     Engine engine, unsigned core_version) {
  const isa::OpInfo& op = *isa::find_op(in.opcode);
  if (!op.runs_on(engine)) {
    c.report.fail("B-03", where,
                  std::string(op.name) + " does not run on engine " + to_string(engine));
  }
  // Blocks that others attach stand where the platform file says, whatever the load.
  if (in.opcode == Opcode::kWrite && !writes_to_blocks(in.operands.write, core_version)) {
    c.report.fail(
        "B-03", where,
        "WRITE holds a device address, which a file may not (R-25), but in the region for "
        "attached blocks");
  }
  // What an engine has for CALL: only names can be followed and moved at load.
  if (in.opcode == Opcode::kBranchLink) {
    c.report.fail("B-04", where, "BRANCH_LINK in a file, which calls functions by CALL");
  }
  for (const isa::TensorUse& use : isa::tensors_of(in)) {
    if (!operand_inside(*use.tensor, core_version)) {
      c.report.fail("B-03", where, std::string(op.name) + ": an operand leaves its partition");
    }
    if (engine == Engine::kPool && use.tensor->memory == isa::Memory::kPsum) {
      c.report.fail("B-03", where, std::string(op.name) + ": engine pool does not reach PSUM");
    }
  }
}

std::optional<int32_t> branch_target(const Instruction& in) {
  if (in.opcode == Opcode::kBranch) return in.operands.branch.target;
  if (in.opcode == Opcode::kCompareBranch) return in.operands.compare_branch.target;
  return std::nullopt;
}

// Branches land on instructions, and the program does not run past its end.
void check_flow(const Context& c, const Member& member, const EngineProgram& p) {
  for (const ProgramStep& step : p.steps) {
    const std::optional<int32_t> offset = branch_target(step.instruction);
    if (!offset) continue;
    const int64_t target = static_cast<int64_t>(step.pc) + *offset;
    const auto it = std::lower_bound(p.steps.begin(), p.steps.end(), target,
                                     [](const ProgramStep& s, int64_t pc) { return s.pc < pc; });
    if (it == p.steps.end() || it->pc != target) {
      return c.report.fail(
          "B-04", at_record(member.name, step.pc),
          "branch to record " + std::to_string(target) + ", which is no instruction");
    }
  }
  for (const Function& f : p.functions) {
    for (const uint64_t edge : {uint64_t{f.entry}, uint64_t{f.entry} + f.length}) {
      const auto it = std::lower_bound(p.steps.begin(), p.steps.end(), edge,
                                       [](const ProgramStep& s, uint64_t pc) { return s.pc < pc; });
      if (it == p.steps.end() ? edge != p.records.size() / isa::kRecordBytes : it->pc != edge) {
        return c.report.fail("B-04", member.name, "function '" + f.name + "' cuts an instruction");
      }
    }
  }
  const bool ends = !p.steps.empty() && (p.steps.back().instruction.opcode == Opcode::kHalt ||
                                         p.steps.back().instruction.opcode == Opcode::kBranch ||
                                         p.steps.back().instruction.opcode == Opcode::kReturn);
  if (!ends) c.report.fail("B-03", member.name, "program runs past its end: no HALT");
}

void parse_records(const Context& c, const Member& member, unsigned core_version,
                   EngineProgram* p) {
  uint32_t pc = 0;
  const auto count = static_cast<uint32_t>(p->records.size() / isa::kRecordBytes);
  while (pc < count) {
    ProgramStep step{pc, {}};
    const size_t at = static_cast<size_t>(pc) * isa::kRecordBytes;
    const isa::DecodeError error =
        isa::decode(p->records.data() + at, p->records.size() - at, &step.instruction);
    const std::string where = at_record(member.name, pc);
    if (error != isa::DecodeError::kNone) return fail_decode(c, where, error, step.instruction);
    check_placement(c, where, step.instruction, p->engine, core_version);
    if (!c.report.ok()) return;
    pc += step.instruction.records();
    p->steps.push_back(step);
  }
  check_flow(c, member, *p);
}

}  // namespace

void parse_engine_file(const Context& c, const Member& member, const Subgraph& sg,
                       EngineProgram* p) {
  isa::EngineFileHeader h;
  const isa::FileError error = isa::parse(member.data.data(), member.data.size(), &h);
  if (error != isa::FileError::kNone) return c.report.fail("B-01", member.name, to_string(error));
  if (h.engine != static_cast<uint8_t>(p->engine)) {
    return c.report.fail("B-01", member.name,
                         std::string("file is for engine ") +
                             to_string(static_cast<Engine>(h.engine)) + ", def.json names it as " +
                             to_string(p->engine));
  }
  if (sg.core_version != 0 && h.arch != sg.core_version) {
    return c.report.fail("B-01", member.name,
                         "file is for NeuronCore v" + std::to_string(h.arch) +
                             ", the subgraph for v" + std::to_string(sg.core_version));
  }
  if (h.record_count > kMaxRecords) {
    return c.report.fail("R-01", member.name, "more than 2^24 records", status::kResource);
  }
  const base::ConstByteSpan file = member.data;
  if (h.strings_bytes != 0) {
    parse_symbols(c, member, file.sub(h.strings_offset, h.strings_bytes), p);
  } else {
    p->symbols.emplace_back();
  }
  if (c.report.ok()) parse_functions(c, member, h, p);
  if (!c.report.ok()) return;
  p->self_cleaning = (h.flags & isa::kFileSelfCleaning) != 0;
  if (h.record_count != 0) {
    p->records = file.sub(h.records_offset, size_t{h.record_count} * isa::kRecordBytes);
  }
  parse_records(c, member, h.arch, p);
}

std::string_view EngineProgram::function_at(uint32_t pc) const {
  const auto after = std::upper_bound(functions.begin(), functions.end(), pc,
                                      [](uint32_t at, const Function& f) { return at < f.entry; });
  if (after == functions.begin()) return "";
  const Function& f = *(after - 1);
  return pc - f.entry < f.length ? std::string_view(f.name) : "";
}

const DmaBlock* EngineProgram::find_block(std::string_view function, std::string_view key,
                                          int64_t id) const {
  for (const DmaBlock& b : blocks) {
    if (b.id == id && b.key == key && b.function == function) return &b;
  }
  return nullptr;
}

uint32_t EngineProgram::argument_table(const ProgramStep& call) const {
  const isa::Call& operands = call.instruction.operands.call;
  if (operands.args_table_var_id != 0) return operands.args_table_var_id;
  const auto f = std::find_if(functions.begin(), functions.end(), [&](const Function& known) {
    return known.name == symbol(operands.name);
  });
  return f == functions.end() ? 0 : f->args_var_id;
}

const DmaBlock* EngineProgram::triggered_block(const ProgramStep& step) const {
  if (step.instruction.opcode != Opcode::kPseudoDmaTrigger) return nullptr;
  const auto found = std::find_if(flow.begin(), flow.end(),
                                  [&](const FlowStep& f) { return steps[f.step].pc == step.pc; });
  return found == flow.end() ? nullptr : &blocks[found->block];
}

}  // namespace neff
