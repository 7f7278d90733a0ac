// Any bytes as the records of one instruction: what decodes, encodes to the same bytes, has a text
// that assembles to the same bytes, and stands every question that the loader and an engine ask of
// it. The input is a Head and records as they are, or what an instruction made from a number
// becomes by a few changes.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "arch/contract/isa_file.h"
#include "arch/contract/isa_rules.h"
#include "neff_loader/asm.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/instruction_maker.h"

namespace fuzz {
namespace {

namespace isa = contract::isa;
using contract::Gen;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxEdits = 7;
constexpr size_t kMaxRecords = 1 + isa::kMaxExtensions;

struct Head {
  uint8_t gen;
  uint8_t engine;
  uint8_t opcode;
  uint8_t seed;
  uint8_t edits;  // 255: records as they are
};

constexpr std::array kGens = {Gen::kV2, Gen::kV3, Gen::kV4};

// As many as symbols that instructions of the maker name.
constexpr char kStrings[] = "\0q\0i\0f\0a b\0\"x\\\0e\0";

Bytes file_of(const Bytes& records, isa::Engine engine) {
  isa::EngineFileHeader header;
  header.engine = static_cast<uint8_t>(engine);
  header.arch = 4;
  header.record_count = static_cast<uint32_t>(records.size() / isa::kRecordBytes);
  header.strings_offset = isa::kFileHeaderBytes + records.size();
  header.strings_bytes = sizeof kStrings - 1;
  Bytes file(isa::kFileHeaderBytes);
  isa::store(header, file.data());
  file.insert(file.end(), records.begin(), records.end());
  file.insert(file.end(), kStrings, kStrings + header.strings_bytes);
  return file;
}

// Sums so that nothing is optimised away.
uint64_t ask(const isa::Instruction& in, isa::Engine engine, Gen gen) {
  uint64_t sum = isa::executes(in, engine, gen) ? 1 : 0;
  const isa::TensorUses uses = isa::tensors_of(in);
  if (uses.count > isa::TensorUses::kMost) found("more tensors than an instruction can have");
  for (unsigned i = 0; i < uses.count; ++i) {
    const isa::TensorOperand& t = *uses.uses[i].tensor;
    sum += isa::element_count(t) * isa::data_type_bytes(t.dtype) * uses.uses[i].partitions;
    if (t.start_partition + uses.uses[i].partitions > isa::kPartitions) {
      found("an operand with more partitions than there are");
    }
    sum += isa::indexable(in, engine, i, 32) ? 1 : 0;
  }
  if (isa::foreign_type(in, engine, gen) >= static_cast<int>(uses.count)) {
    found("a foreign type of no tensor");
  }
  if (contract::dge::generates(in.opcode)) {
    const contract::dge::Transfer t = contract::dge::transfer_of(in);
    sum += contract::dge::most_descriptors(t);
    if (isa::element_count(*t.src) != isa::element_count(*t.dst)) {
      found("a transfer with sides of different sizes");
    }
  }
  return sum;
}

void check_text(const Bytes& records, isa::Engine engine) {
  const Bytes file = file_of(records, engine);
  const auto text = neff::disassemble(file);
  if (!text) return;  // a symbol that it does not have
  const auto again = neff::assemble(*text);
  if (!again) found(again.error().message().c_str());
  if (*again != file) found("another instruction from its text");
}

void check(const Bytes& bytes, isa::Engine engine, Gen gen) {
  isa::Instruction in;
  (void)neff::disassemble_instruction(bytes);  // any bytes give some text
  const isa::DecodeError error = isa::decode(bytes.data(), bytes.size(), &in);
  if (bytes.size() >= isa::kRecordBytes && static_cast<uint8_t>(in.opcode) != bytes[0]) {
    found("another opcode than the record has");
  }
  if (error != isa::DecodeError::kNone) return;
  const Bytes records(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(in.records() * isa::kRecordBytes));
  Bytes again(records.size());
  if (isa::encode(in, again.data(), again.size()) != in.records() || again != records) {
    found("another encoding than what was decoded");
  }
  if (isa::encode(in, again.data(), again.size() - 1) != 0) found("an encoding without room");
  volatile uint64_t sum = ask(in, engine, gen);
  (void)sum;
  check_text(records, engine);
}

void run(Input& input) {
  const Head head = input.take<Head>();
  const Gen gen = kGens[head.gen % kGens.size()];
  const auto engine = static_cast<isa::Engine>(head.engine % isa::kEngines);
  if (head.edits == 255) {
    return check(input.bytes(std::min(input.left(), kMaxRecords * isa::kRecordBytes)), engine, gen);
  }
  constexpr size_t kKnown = std::size(isa::kOpTable);
  const auto opcode = static_cast<isa::Opcode>(isa::kOpTable[head.opcode % kKnown].opcode);
  Bytes records = InstructionMaker(gen, engine, head.seed).make(opcode);
  check(records, engine, gen);
  for (size_t i = 0; i < head.edits % (kMaxEdits + 1) && !records.empty(); ++i) {
    const size_t where = input.u16() % records.size();
    records[where] = input.u8();
  }
  check(records, engine, gen);
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::run(input);
  return 0;
}
