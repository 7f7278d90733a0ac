// Programs that no loader has seen, on the five engines of a NeuronCore of each generation.
//
// The input is a Head, a table of tensors where the Head says so, and pieces of programs. A piece
// is one record as it is, or an instruction made from a number, of which some bytes are changed.
// Invariants: every engine ends, waits, or has more to do than an input may; an error has a code of
// the contract and one notification that says it; the same input leaves the same twice, also with a
// checker that looks on; after a reset good programs run.
#include <algorithm>
#include <iterator>
#include <memory>

#include "tests/fuzz/engine_bench.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/instruction_maker.h"

namespace fuzz {
namespace {

namespace isa = contract::isa;
using contract::EngineStatus;
using contract::Gen;

constexpr size_t kMaxPieces = 48;
constexpr size_t kMaxEdits = 7;
constexpr size_t kTableBytes = 64;

struct Head {
  uint8_t gen;
  uint8_t options;  // the bits below
  uint8_t seed;
  uint8_t mode;  // 0: records as they are; else made ones
};
enum : uint8_t {
  kStochastic = 1,
  kTrace = 2,
  kPreset = 4,
  kShortRing = 8,
  kGarbageTable = 16,
  kTwice = 32,
  kChecked = 64,   // the second time
  kEndless = 128,  // no HALT behind the programs
};

// Half of the numbers are those of instructions.
isa::Opcode opcode_of(uint8_t number) {
  constexpr size_t kKnown = std::size(isa::kOpTable);
  return static_cast<isa::Opcode>(number < 2 * kKnown ? isa::kOpTable[number % kKnown].opcode
                                                      : number);
}

void append_record(Input& input, std::vector<uint8_t>* program) {
  const std::vector<uint8_t> record = input.bytes(isa::kRecordBytes);
  program->insert(program->end(), record.begin(), record.end());
}

// u8 opcode, u8 seed, u8 edits, edits * (u8 where, u8 value).
void append_made(Input& input, const Head& head, isa::Engine engine, Gen gen,
                 std::vector<uint8_t>* program) {
  const isa::Opcode opcode = opcode_of(input.u8());
  const uint64_t seed = uint64_t{head.seed} << 8 | input.u8();
  std::vector<uint8_t> records = InstructionMaker(gen, engine, seed).make(opcode);
  const size_t edits = input.u8() % (kMaxEdits + 1);
  for (size_t i = 0; i < edits && !records.empty(); ++i) {
    const size_t where = input.u8() % records.size();
    records[where] = input.u8();
  }
  program->insert(program->end(), records.begin(), records.end());
}

void check(const EngineBench::Outcome& out, const NotedPages& pages) {
  for (uint32_t e = 0; e < EngineBench::kEngines; ++e) {
    const EngineBench::Outcome::Engine& o = out.engines[e];
    switch (static_cast<EngineStatus>(o.status)) {
      case EngineStatus::kIdle:
      case EngineStatus::kHalted:
        break;
      case EngineStatus::kRunning:
        if (out.at_rest && !o.stuck) found("an engine that neither works nor waits");
        break;
      case EngineStatus::kError:
        if (o.code == 0 || o.code > static_cast<uint32_t>(contract::EngineError::kBadQueue)) {
          found("an error without a code of the contract");
        }
        if (out.at_rest && !pages.disturbed() && !pages.posted(e, o.code, o.error_pc, o.info)) {
          found("an error without its notification");
        }
        break;
      default:
        found("an unknown status");
    }
  }
}

void run(Input& input) {
  const Head head = input.take<Head>();
  const Gen gen = std::array{Gen::kV2, Gen::kV3, Gen::kV4}[head.gen % 3];
  EngineBench::Options options;
  options.stochastic = (head.options & kStochastic) != 0;
  options.trace = (head.options & kTrace) != 0;
  options.preset = (head.options & kPreset) != 0;
  options.ring = (head.options & kShortRing) != 0 ? 64 : 4096;
  if ((head.options & kGarbageTable) != 0) options.table = input.bytes(kTableBytes);

  EngineBench::Programs programs;
  for (size_t i = 0; i < kMaxPieces && !input.empty(); ++i) {
    const uint32_t e = input.u8() % EngineBench::kEngines;
    if (head.mode == 0) {
      append_record(input, &programs[e]);
    } else {
      append_made(input, head, static_cast<isa::Engine>(e), gen, &programs[e]);
    }
  }
  for (std::vector<uint8_t>& program : programs) {
    if (program.empty() || (head.options & kEndless) != 0) continue;
    program.resize(program.size() + isa::kRecordBytes);
    program[program.size() - isa::kRecordBytes] = static_cast<uint8_t>(isa::Opcode::kHalt);
  }

  EngineBench bench(gen, options, nullptr);
  const EngineBench::Outcome out = bench.run(programs);
  check(out, bench.pages());
  bench.check_reset();
  if ((head.options & (kTwice | kChecked)) == 0) return;
  hw::check::Checker checker;
  EngineBench again(gen, options, (head.options & kChecked) != 0 ? &checker : nullptr);
  if (!(again.run(programs) == out)) found("the same programs leave something else");
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::run(input);
  return 0;
}
