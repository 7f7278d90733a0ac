#include "tests/engines/bench.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "neff_loader/asm.h"

namespace engine_reference {

using contract::EngineStatus;
using isa::Memory;

namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "%" PRIx64, value);
  return text;
}

std::string described(isa::DataType type, uint64_t bits) {
  return "0x" + hex(bits) + " (" +
         (is_integer(type) ? std::to_string(to_integer(type, bits))
                           : ::testing::PrintToString(to_float(type, bits))) +
         ")";
}

std::string described(const Expected& e) {
  if (!e.ranged) return described(e.dtype, e.bits);
  return "from " + described(e.dtype, from_float(e.dtype, e.range.low)) + " to " +
         described(e.dtype, from_float(e.dtype, e.range.high)) + (e.range.nan ? " or NaN" : "");
}

std::string position(Memory memory, uint32_t partition, uint32_t byte) {
  return std::string(memory == Memory::kSbuf ? "SBUF" : "PSUM") + " partition " +
         std::to_string(partition) + " byte " + std::to_string(byte);
}

}  // namespace

std::string text_of(const isa::Instruction& in) {
  uint8_t records[16 * isa::kRecordBytes];
  const uint32_t count = isa::encode(in, records, sizeof(records));
  return neff::disassemble_instruction({records, count * isa::kRecordBytes});
}

Bench::Bench(contract::Gen gen) : bench_(gen), reference_(gen) {
  for (uint32_t p = 0; p < isa::kPartitions; ++p) {
    places_[0][p] = bench_.fabric.sbuf(0).at(p * contract::tpb::kPartitionStride,
                                             reference_.partition_bytes(Memory::kSbuf));
    places_[1][p] = bench_.fabric.psum(0).at(p * contract::tpb::kPsumStride,
                                             reference_.partition_bytes(Memory::kPsum));
  }
}

void Bench::write(Memory memory, uint32_t partition, uint32_t byte, const void* from, size_t size) {
  std::memcpy(reference_.at(memory, partition, byte), from, size);
  std::memcpy(machine(memory, partition, byte), from, size);
}

void Bench::set_registers(isa::Engine engine, const Registers& registers) {
  for (uint32_t r = 0; r < isa::kRegisters; ++r) {
    bench_.put(static_cast<contract::Engine>(engine),
               contract::engine::kRegister + r * contract::engine::kRegisterStride, registers[r]);
  }
}

bool Bench::run(isa::Engine engine, const isa::Instruction& in, const Registers& registers,
                std::string* message) {
  for (const isa::TensorUse& use : isa::tensors_of(in)) {
    if (use.access == isa::Access::kWrite) continue;
    const unsigned size = isa::data_type_bytes(use.tensor->dtype);
    for (const uint32_t byte : places_of(*use.tensor, registers)) {
      for (uint32_t p = use.tensor->start_partition;
           p < use.tensor->start_partition + use.partitions; ++p) {
        std::memcpy(machine(use.tensor->memory, p, byte),
                    reference_.at(use.tensor->memory, p, byte), size);
      }
    }
  }
  const auto e = static_cast<contract::Engine>(engine);
  bench_.put(e, contract::engine::kPc, 0);
  bench_.load(e, {in, hw_test::op(isa::Opcode::kHalt)});
  bench_.start(e);
  bench_.queue.run_all();
  if (bench_.status(e) != EngineStatus::kHalted) {
    *message = text_of(in) + "\n  stops with error " +
               std::to_string(bench_.get(e, contract::engine::kErrorCode)) + ", info " +
               std::to_string(bench_.get(e, contract::engine::kErrorInfo));
    bench_.put(e, contract::engine::kControl, 4);
    return false;
  }
  reference_.execute(engine, in, registers);
  return check(in, message);
}

// The last write of an element counts.
bool Bench::check(const isa::Instruction& in, std::string* message) {
  const std::vector<Expected>& written = reference_.written();
  for (auto e = written.rbegin(); e != written.rend(); ++e) {
    uint8_t* legal = reference_.at(e->memory, e->partition, e->byte);
    const uint64_t got = load_bits(e->dtype, machine(e->memory, e->partition, e->byte));
    if (got == load_bits(e->dtype, legal)) continue;
    if (!e->admits(got)) {
      *message = text_of(in) + "\n  lane " + std::to_string(e->lane) + ", element " +
                 std::to_string(e->index) + ", " + position(e->memory, e->partition, e->byte) +
                 ": expected " + described(*e) + ", got " + described(e->dtype, got);
      return false;
    }
    store_bits(e->dtype, got, legal);
  }
  return true;
}

bool Bench::equal(Memory memory, uint32_t first_partition, uint32_t partitions, uint32_t byte,
                  uint32_t size, std::string* message) {
  for (uint32_t p = first_partition; p < first_partition + partitions; ++p) {
    const uint8_t* got = machine(memory, p, byte);
    const uint8_t* expected = reference_.at(memory, p, byte);
    if (std::memcmp(got, expected, size) == 0) continue;
    uint32_t i = 0;
    while (got[i] == expected[i]) ++i;
    *message = position(memory, p, byte + i) + " should be untouched, 0x" + hex(expected[i]) +
               ", and is 0x" + hex(got[i]);
    return false;
  }
  return true;
}

bool Bench::all_equal(std::string* message) {
  return equal(Memory::kSbuf, 0, isa::kPartitions, 0, reference_.partition_bytes(Memory::kSbuf),
               message) &&
         equal(Memory::kPsum, 0, isa::kPartitions, 0, reference_.partition_bytes(Memory::kPsum),
               message);
}

}  // namespace engine_reference
