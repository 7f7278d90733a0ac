// Programs of engines on their way through the loader to the records that an engine runs: a NEFF
// with two programs around fixed tensors, queues, tables of tensors and groups of ranks.
//
// The input is a Head and either the text of a program, or pieces: instructions made from a number,
// of which some bytes are changed, in the entry program or in one of two functions of one of two
// engines. Invariants: what loads has a text that assembles to the same file; what can be
// translated has only instructions of engines, begins where its map says, and its branches and
// calls lead where those of the file do.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "arch/contract/isa_file.h"
#include "neff_loader/asm.h"
#include "neff_loader/flow.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"
#include "runtime/load/control.h"
#include "runtime/load/translate.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/instruction_maker.h"

namespace fuzz {
namespace {

namespace isa = contract::isa;
using contract::Gen;
using isa::Opcode;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxPieces = 64;
constexpr size_t kMaxEdits = 3;
constexpr uint8_t kText = 0;
constexpr uint32_t kArguments = 6;  // variable

struct Head {
  uint8_t mode;
  uint8_t gen;
  uint8_t engine;
  uint8_t seed;
};

// Symbol InstructionMaker::kQueue is that of a queue for which descriptors are generated.
constexpr char kStrings[] = "\0q\0i\0d\0f\0g\0";
constexpr uint32_t kFirstFunction = 4;
constexpr size_t kFunctions = 2;

constexpr char kDefinition[] = R"( "dma_queue": {
  "q": {"type": "in", "semaphore": 1, "queue_instances": ["i"]},
  "d": {"type": "dynamic", "num_queues": 16}},
 "var": {"S": {"type": "state-buffer", "var_id": 0},
         "x": {"type": "input", "var_id": 1, "size": 4096},
         "y": {"type": "output", "var_id": 2, "size": 4096},
         "a": {"type": "virtual", "var_id": 3, "size": 4096, "backing_variable_off": 0},
         "b": {"type": "virtual", "var_id": 4, "size": 4096, "backing_variable_off": 4096},
         "t": {"type": "dge-table", "var_id": 5, "size": 48, "list": [1, 2, 3]},
         "u": {"type": "dge-table", "var_id": 6, "size": 16, "list": [1]}},
 "x_cc": {"replica_groups": [[[0, 1]]], "participants": 2, "streams": 4}})";
constexpr std::string_view kOpening = "{\"dma\": [\n";
constexpr char kTransfers[] = R"({"dma": [
 {"id": 0, "queue": "q", "desc": [{"from": "x", "from_off": 0, "from_sizes": [64],
  "from_steps": [1], "to": "S", "to_off": 0, "to_sizes": [16, 4], "to_steps": [1, 262144]}]},
 {"id": 2, "queue": "q", "instance_name": "i", "desc": [{"from": "b", "from_off": 0,
  "from_sizes": [64], "from_steps": [1], "to": "y", "to_off": 0, "to_sizes": [64],
  "to_steps": [1]}]}]})";

// Of the function f, where there is one.
constexpr char kTransferOfF[] = R"({"dma": [
 {"id": 1, "queue": "q", "function_start": "f", "desc": [{"from": "x", "from_off": 0,
  "from_sizes": [64], "from_steps": [1], "to": "a", "to_off": 0, "to_sizes": [64],
  "to_steps": [1]}]},
)";

constexpr std::array kGens = {Gen::kV2, Gen::kV3, Gen::kV4};
constexpr const char* kArchs[] = {"trn1", "trn2", "trn3"};

struct File {
  isa::Engine engine;
  Bytes bytes;
  bool has_f;  // a function of this name
};

// The loader's view of a program is that of the text, if it has one.
void check_text(const Bytes& file) {
  const auto text = neff::disassemble(file);
  if (!text) return;
  const auto again = neff::assemble(*text);
  if (!again) found(again.error().message().c_str());
  const auto third = neff::disassemble(*again);
  if (!third || *third != *text) found("another text of the same program");
}

Bytes neff_of(const std::vector<File>& files, Gen gen) {
  std::string definition =
      std::string("{\"x_arch\": \"") + kArchs[static_cast<int>(gen) - 2] + "\",";
  std::vector<neff::Member> members = {
      {"kelf-0.json", neff::text_bytes(R"({"graphs": [{"definition": "sg00/def.json"}]})")}};
  for (const File& file : files) {
    const std::string name = neff::to_string(file.engine);
    definition +=
        " \"" + name + "\": \"" + name + ".json\", \"" + name + "_instr\": \"" + name + ".bin\",";
    std::string transfers = kTransfers;
    if (file.has_f) transfers.replace(0, kOpening.size(), kTransferOfF);
    members.push_back({"sg00/" + name + ".json", neff::text_bytes(transfers)});
    members.push_back({"sg00/" + name + ".bin", file.bytes});
  }
  members.push_back({"sg00/def.json", neff::text_bytes(definition + kDefinition)});
  neff::PackOptions options;
  options.gzip = false;
  options.uuid.emplace();
  auto packed = neff::pack(std::move(members), options);
  return packed ? std::move(*packed) : Bytes();
}

// As the runtime has them, with one pair of stores for what it starts.
nrt::EngineReplacements replacements_of(const neff::Subgraph& subgraph) {
  nrt::EngineReplacements lists;
  nrt::StorePair stores;
  stores.address[0] = 0x1000;
  stores.address[1] = 0x2000;
  stores.value[0] = stores.value[1] = 1;
  stores.count = 2;
  const isa::Instruction write = nrt::to_instruction(stores);
  nrt::ControlPlace place;
  place.peer_increment = 0x3000;
  place.rank = 1;
  for (const neff::EngineProgram& program : subgraph.programs) {
    std::vector<nrt::Replacement>& list = lists[static_cast<size_t>(program.engine)];
    for (const neff::ProgramStep& step : program.steps) {
      const Opcode opcode = step.instruction.opcode;
      nrt::Replacement replacement;
      replacement.pc = step.pc;
      if (contract::dge::generates(opcode)) {
        replacement.queue = 5;
      } else if (opcode == Opcode::kPseudoDmaTrigger) {
        replacement.instructions.assign(step.pc % 3, write);
      } else if (opcode == Opcode::kPseudoTriggerCollective2) {
        replacement.instructions = {write};
        replacement.defer_complete = true;
      } else if (opcode == Opcode::kGetCurProcessingRankId) {
        const auto& query = step.instruction.operands.get_cur_processing_rank_id;
        place.rank_tables.push_back({query.group_id, query.channel_id, 3, 4});
        continue;
      } else {
        continue;
      }
      list.push_back(std::move(replacement));
    }
  }
  if (!nrt::add_controls(subgraph, place, &lists).ok()) found("controls are refused");
  for (std::vector<nrt::Replacement>& list : lists) {
    std::sort(list.begin(), list.end(),
              [](const nrt::Replacement& a, const nrt::Replacement& b) { return a.pc < b.pc; });
  }
  return lists;
}

struct Decoded {
  std::vector<isa::Instruction> at;  // by record
  std::vector<bool> begins;
};

Decoded decoded(const nrt::Translated& t) {
  Decoded out;
  const size_t n = t.records.size();
  out.at.resize(n);
  out.begins.resize(n);
  for (size_t pc = 0; pc < n;) {
    const isa::DecodeError error =
        isa::decode(t.records[pc].bytes, (n - pc) * isa::kRecordBytes, &out.at[pc]);
    if (error != isa::DecodeError::kNone) found("a record that does not decode");
    if (isa::find_op(out.at[pc].opcode)->pseudo) found("a pseudo instruction for an engine");
    out.begins[pc] = true;
    pc += out.at[pc].records();
  }
  return out;
}

int64_t target_of(const isa::Instruction& in) {
  switch (in.opcode) {
    case Opcode::kBranch:
      return in.operands.branch.target;
    case Opcode::kCompareBranch:
      return in.operands.compare_branch.target;
    case Opcode::kBranchLink:
      return in.operands.branch_link.target;
    default:
      return INT64_MIN;
  }
}

int64_t target_of(const neff::EngineProgram& program, const neff::ProgramStep& step) {
  if (step.instruction.opcode == Opcode::kCall) {
    const std::string& name = program.symbol(step.instruction.operands.call.name);
    for (const neff::Function& f : program.functions) {
      if (f.name == name) return f.entry;
    }
  }
  const int64_t offset = target_of(step.instruction);
  return offset == INT64_MIN ? offset : step.pc + offset;
}

void check_translated(const neff::EngineProgram& program, const nrt::Translated& t) {
  const Decoded code = decoded(t);
  for (const uint32_t pc : t.end_pcs) {
    if (code.at.at(pc).opcode != Opcode::kNotify) found("no NOTIFY where a program ends");
  }
  if (code.at.at(t.start_pc).opcode != Opcode::kNotify) found("no NOTIFY where it starts");
  for (const neff::ProgramStep& step : program.steps) {
    const uint32_t here = t.pc_map.at(step.pc);
    const uint32_t next = t.pc_map.at(step.pc + step.instruction.records());
    if (here > next || next > t.records.size()) found("a map that goes backwards");
    for (uint32_t pc = here; pc < next; ++pc) {
      if (t.source_pc(pc) != step.pc) found("a record that stands for another one");
    }
    const int64_t target = target_of(program, step);
    if (target == INT64_MIN) continue;
    const int64_t wanted = t.pc_map.at(static_cast<size_t>(target));
    if (next != here + 1 || !code.begins.at(here)) found("a branch of several records");
    if (here + target_of(code.at[here]) != wanted) found("a branch that leads elsewhere");
    if (static_cast<size_t>(wanted) >= code.begins.size() ||
        !code.begins[static_cast<size_t>(wanted)]) {
      found("a branch into an instruction");
    }
  }
}

void load(const std::vector<File>& files, Gen gen, bool barrier) {
  for (const File& file : files) check_text(file.bytes);
  const auto neff = neff::load(neff_of(files, gen));
  if (!neff) {
    if (neff.error().what.empty()) found("a refusal without a word");
    return;
  }
  for (const neff::Subgraph& subgraph : neff->subgraphs) {
    const nrt::EngineReplacements lists = replacements_of(subgraph);
    nrt::Prologue prologue;
    prologue.barrier = prologue.leader = barrier;
    prologue.trigger.count = 1;
    prologue.trigger.address[0] = 0x4000;
    const nrt::TensorTables tables{{5, {0x5000, 3}}, {kArguments, {0x6000, 1}}};
    for (const neff::EngineProgram& program : subgraph.programs) {
      const auto flow = neff::find_flow(program, subgraph.queues, subgraph.variables);
      if (!flow) found("a flow that is refused after it was not");
      const auto translated =
          nrt::translate(program, lists[static_cast<size_t>(program.engine)], prologue, tables);
      // A CALL that no execution reaches may name a table that is none.
      if (translated) check_translated(program, *translated);
    }
  }
}

// The entry program and the functions of one engine.
struct Sections {
  std::array<Bytes, 1 + kFunctions> code;
};

Bytes file_of(const Sections& sections, isa::Engine engine, Gen gen) {
  Bytes records;
  Bytes table;
  const auto append = [](const Bytes& more, Bytes* to) {
    to->insert(to->end(), more.begin(), more.end());
  };
  const auto end_with = [&](Opcode opcode) {
    records.resize(records.size() + isa::kRecordBytes);
    records[records.size() - isa::kRecordBytes] = static_cast<uint8_t>(opcode);
  };
  append(sections.code[0], &records);
  end_with(Opcode::kHalt);
  for (uint32_t f = 0; f < kFunctions; ++f) {
    const Bytes& code = sections.code[1 + f];
    if (code.empty()) continue;
    const auto entry = static_cast<uint32_t>(records.size() / isa::kRecordBytes);
    append(code, &records);
    end_with(Opcode::kReturn);
    const auto length = static_cast<uint32_t>(records.size() / isa::kRecordBytes) - entry;
    Bytes row(isa::kFunctionEntryBytes);
    const uint32_t fields[] = {kFirstFunction + f, entry, length, f == 0 ? kArguments : 0};
    std::memcpy(row.data(), fields, sizeof fields);
    append(row, &table);
  }
  isa::EngineFileHeader header;
  header.engine = static_cast<uint8_t>(engine);
  header.arch = static_cast<uint8_t>(gen);
  header.record_count = static_cast<uint32_t>(records.size() / isa::kRecordBytes);
  header.functions_offset = isa::kFileHeaderBytes + records.size();
  header.function_count = table.size() / isa::kFunctionEntryBytes;
  header.strings_offset = header.functions_offset + table.size();
  header.strings_bytes = sizeof kStrings - 1;
  Bytes file(isa::kFileHeaderBytes);
  isa::store(header, file.data());
  append(records, &file);
  append(table, &file);
  file.insert(file.end(), kStrings, kStrings + header.strings_bytes);
  return file;
}

// u8 place, u8 opcode's number, u8 seed, u8 edits, edits * (u8 where, u8 value).
void append_piece(Input& input, const Head& head, Gen gen, const isa::Engine (&engines)[2],
                  std::array<Sections, 2>* programs) {
  const uint8_t place = input.u8();
  const size_t which = place / (1 + kFunctions) % 2;
  const auto opcode =
      static_cast<Opcode>(isa::kOpTable[input.u8() % std::size(isa::kOpTable)].opcode);
  const uint64_t seed = uint64_t{head.seed} << 8 | input.u8();
  Bytes records = InstructionMaker(gen, engines[which], seed).make(opcode);
  const size_t edits = input.u8() % (kMaxEdits + 1);
  for (size_t i = 0; i < edits && !records.empty(); ++i) {
    const size_t where = input.u8() % records.size();
    records[where] = input.u8();
  }
  Bytes& code = (*programs)[which].code[place % (1 + kFunctions)];
  code.insert(code.end(), records.begin(), records.end());
}

void run(Input& input) {
  const Head head = input.take<Head>();
  const Gen gen = kGens[head.gen % kGens.size()];
  const auto engine = static_cast<isa::Engine>(head.engine % isa::kEngines);
  if (head.mode == kText) {
    const Bytes text = input.bytes(input.left());
    neff::AsmOptions options;
    options.engine = engine;
    options.core_version = static_cast<uint8_t>(gen);
    const auto file =
        neff::assemble({reinterpret_cast<const char*>(text.data()), text.size()}, options);
    const std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
    const bool has_f = view.find(".function f\n") != std::string_view::npos;
    if (file) load({{engine, *file, has_f}}, gen, false);
    return;
  }
  const isa::Engine engines[] = {engine,
                                 static_cast<isa::Engine>((head.engine + 1) % isa::kEngines)};
  std::array<Sections, 2> programs;
  for (size_t i = 0; i < kMaxPieces && !input.empty(); ++i) {
    append_piece(input, head, gen, engines, &programs);
  }
  std::vector<File> files;
  for (size_t i = 0; i < programs.size(); ++i) {
    files.push_back(
        {engines[i], file_of(programs[i], engines[i], gen), !programs[i].code[1].empty()});
  }
  load(files, gen, (head.mode & 2) != 0);
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::run(input);
  return 0;
}
