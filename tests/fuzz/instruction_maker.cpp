#include "tests/fuzz/instruction_maker.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/dge.h"
#include "arch/contract/isa.h"
#include "arch/contract/isa_rules.h"

namespace fuzz {

namespace isa = contract::isa;
using contract::Gen;
using isa::DataType;
using isa::Engine;
using isa::Opcode;
using isa::OperandType;

namespace {

constexpr int kAttempts = 24;

const isa::OpOperands* operands_of(uint8_t opcode) {
  for (const isa::OpOperands& o : isa::kOpOperands) {
    if (o.opcode == opcode) return &o;
  }
  return nullptr;
}

bool transposes(Opcode opcode) {
  return opcode == Opcode::kDmaTranspose || opcode == Opcode::kDmaGatherTranspose;
}

// Instructions of the Tensor engine go by the weights that are in the array.
bool is_product(Opcode opcode) {
  return opcode == Opcode::kMatmul || opcode == Opcode::kMatmulMx;
}

void store(uint64_t value, unsigned bytes, uint8_t* at) {
  for (unsigned i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

InstructionMaker::InstructionMaker(Gen gen, Engine engine, uint64_t seed)
    : gen_(gen), engine_(engine), random_(seed), generator_(gen, engine, seed) {}

std::vector<uint8_t> InstructionMaker::make(Opcode opcode) {
  opcode_ = opcode;
  std::vector<uint8_t> records;
  if (generator_.makes(opcode, engine_, gen_) && random_.chance(75)) {
    if (is_product(opcode)) {
      append(generator_.next(opcode == Opcode::kMatmul ? Opcode::kLdweights : Opcode::kLdweightsMx),
             &records);
    }
    append(generator_.next(opcode), &records);
    return records;
  }
  const isa::OpInfo* op = isa::find_op(opcode);
  if (op == nullptr) {
    records.assign(isa::kRecordBytes, 0);
    records[0] = static_cast<uint8_t>(opcode);
    return records;
  }
  for (int i = 0; i < kAttempts; ++i) {
    records = from_table(*op);
    isa::Instruction in;
    if (isa::decode(records.data(), records.size(), &in) != isa::DecodeError::kNone) continue;
    if (!op->runs_on(engine_) || isa::executes(in, engine_, gen_)) break;
  }
  return records;
}

void InstructionMaker::append(const isa::Instruction& in, std::vector<uint8_t>* to) {
  uint8_t records[(1 + isa::kMaxExtensions) * isa::kRecordBytes];
  const uint32_t count = isa::encode(in, records, sizeof records);
  if (count == 0) return;
  set_header(records);
  to->insert(to->end(), records, records + count * isa::kRecordBytes);
}

// Semaphores are few, and values small, so that engines meet.
void InstructionMaker::set_header(uint8_t* records) {
  const auto update = [&] {
    isa::Update u{};
    if (!random_.chance(20)) return u;
    u.op = static_cast<isa::UpdateOp>(1 + random_.below(7));
    u.id = static_cast<uint8_t>(random_.below(4));
    if (isa::detail::takes_value(u.op)) u.value = random_.below(3);
    return u;
  };
  const isa::Update read = update();
  const isa::Update complete = update();
  records[1] = random_.chance(5) ? isa::kFlagTrace : 0;
  if (random_.chance(8)) {
    const uint32_t cond = 1 + random_.below(8);
    const bool event = cond >= static_cast<uint32_t>(isa::WaitCond::kEventSet);
    records[3] = static_cast<uint8_t>(cond | (!event && random_.chance(20) ? 0x80u : 0));
    records[4] = static_cast<uint8_t>(random_.below(4));
    store(event ? 0 : random_.below(3), 4, records + 12);
  }
  records[5] = static_cast<uint8_t>(read.op);
  records[6] = read.id;
  records[7] = static_cast<uint8_t>(complete.op);
  records[8] = complete.id;
  store(read.value, 4, records + 16);
  store(complete.value, 4, records + 20);
  store(random_.below(100), 8, records + 24);
}

std::vector<uint8_t> InstructionMaker::from_table(const isa::OpInfo& op) {
  std::vector<uint8_t> records((1u + op.extensions) * isa::kRecordBytes);
  set_header(records.data());
  records[0] = op.opcode;
  records[2] = op.extensions;
  for (uint8_t i = 1; i <= op.extensions; ++i) {
    records[i * isa::kRecordBytes] = static_cast<uint8_t>(Opcode::kPseudoExtension);
    records[i * isa::kRecordBytes + 1] = i;
  }
  const isa::OpOperands* operands = operands_of(op.opcode);
  if (operands == nullptr) return records;
  const Shape s = shape(static_cast<Opcode>(op.opcode));
  for (size_t i = 0; i < operands->count; ++i) {
    const isa::OperandInfo& o = operands->operands[i];
    fill(o, s, &records[o.record * isa::kRecordBytes + o.offset]);
  }
  return records;
}

InstructionMaker::Shape InstructionMaker::shape(Opcode opcode) {
  static constexpr uint8_t kPartitions[] = {1, 1, 1, 4, 16, 16, 32, 64, 128};
  static constexpr uint32_t kElements[] = {1, 1, 2, 6, 8, 12, 16, 24, 32, 64};
  Shape s;
  s.partitions = random_.of(kPartitions);
  s.elements = random_.of(kElements);
  static constexpr DataType kCommon[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kUint32,
                                         DataType::kInt32,   DataType::kUint16,   DataType::kUint8};
  s.type = random_.chance(75) ? random_.of(kCommon) : static_cast<DataType>(1 + random_.below(20));
  if (transposes(opcode)) {
    s.partitions = 16;
    s.type = DataType::kBfloat16;
  }
  return s;
}

uint64_t InstructionMaker::number(const Shape& s, uint64_t most) {
  const uint64_t wanted[] = {
      0, 0, 0, 1, 2, 4, s.partitions, s.elements, kQueue, 16, 32, 1u << 8, random_.bits()};
  return most == ~uint64_t{0} ? random_.of(wanted) : random_.of(wanted) % (most + 1);
}

isa::TensorOperand InstructionMaker::tensor(const Shape& s) {
  isa::TensorOperand t{};
  t.dtype = random_.chance(85) ? s.type : DataType::kUint32;
  t.memory = random_.chance(20) ? isa::Memory::kPsum : isa::Memory::kSbuf;
  if (s.partitions <= 64 && random_.chance(25)) {
    t.start_partition =
        static_cast<uint8_t>(s.partitions <= 32 ? 32 * random_.below(4) : 64 * random_.below(2));
  }
  t.offset_register = isa::kNoRegister;
  if (random_.chance(15)) t.offset_register = static_cast<uint8_t>(random_.below(isa::kRegisters));
  t.byte_offset = 4 * random_.below(random_.chance(10) ? 65536 : 64);
  const uint32_t inner = random_.chance(30) && s.elements % 2 == 0 ? 2 : 1;
  t.dims[0] = {static_cast<int16_t>(random_.chance(80) ? 1 : random_.between(-2, 4)),
               static_cast<uint16_t>(s.elements / inner)};
  if (inner == 2) t.dims[1] = {static_cast<int16_t>(random_.between(0, 64)), 2};
  return t;
}

isa::ScalarOperand InstructionMaker::scalar(const Shape& s) {
  isa::ScalarOperand o{};
  o.kind = static_cast<isa::ScalarOperand::Kind>(random_.below(3));
  if (o.kind == isa::ScalarOperand::kImmediate) {
    o.bits = random_.chance(50) ? 0 : static_cast<uint32_t>(random_.bits());
  } else if (o.kind == isa::ScalarOperand::kRegister) {
    o.bits = random_.below(isa::kRegisters);
  } else {
    o.tile = tensor({s.partitions, 1, s.type});
  }
  return o;
}

// Rows of columns; of a transpose the other way round on its way out.
isa::SideOperand InstructionMaker::side(const Shape& s, bool destination) {
  static constexpr uint16_t kEntries[] = {0, 0, 1, 1, 2, isa::kSbufEntry, isa::kFirstArgument};
  isa::SideOperand o{};
  const bool turned = transposes(opcode_) && destination;
  const auto bytes = static_cast<int32_t>(isa::data_type_bytes(s.type));
  o.dtype = s.type;
  o.entry = turned ? isa::kSbufEntry : random_.of(kEntries);
  o.offset_register = isa::kNoRegister;
  if (random_.chance(15)) {
    o.offset_register = static_cast<uint8_t>(random_.below(isa::kRegisters));
    o.scale =
        random_.chance(80) ? static_cast<uint32_t>(bytes) : static_cast<uint32_t>(random_.bits());
  }
  o.offset = random_.chance(10) ? random_.bits() : static_cast<uint32_t>(bytes) * random_.below(16);
  const bool cell = opcode_ == Opcode::kTensorLoad || opcode_ == Opcode::kTensorStore;
  const uint32_t columns = cell ? 1u : turned ? s.partitions : s.elements;
  const uint32_t rows = cell ? 1u : turned ? s.elements : s.partitions;
  const auto pitch = static_cast<int32_t>(contract::tpb::kPartitionStride);
  o.step[0] = bytes;
  o.count[0] = columns;
  o.step[1] = o.entry == isa::kSbufEntry ? pitch : bytes * static_cast<int32_t>(columns);
  o.count[1] = rows;
  if (random_.chance(10)) o.step[random_.below(2)] = static_cast<int32_t>(random_.bits());
  return o;
}

void InstructionMaker::fill(const isa::OperandInfo& o, const Shape& s, uint8_t* at) {
  switch (o.type) {
    case OperandType::kU8:
    case OperandType::kU16:
    case OperandType::kU32:
      return store(number(s, o.max), o.bytes, at);
    case OperandType::kU64:
      return store(number(s, ~uint64_t{0}), o.bytes, at);
    case OperandType::kI32:
    case OperandType::kTarget:
      return store(static_cast<uint64_t>(int64_t{random_.between(-6, 6)}), o.bytes, at);
    case OperandType::kSymbol:
      return store(random_.chance(60) ? kQueue : random_.below(6), o.bytes, at);
    case OperandType::kReg:
      return store(random_.below(random_.chance(80) ? 8 : isa::kRegisters), o.bytes, at);
    case OperandType::kPartitions:
      return store(s.partitions, o.bytes, at);
    case OperandType::kEnum:
      return store(
          o.enumeration->names[random_.below(static_cast<uint32_t>(o.enumeration->count))].value,
          o.bytes, at);
    case OperandType::kValue:
      return random_.chance(30)
                 ? isa::pack(isa::Value{random_.below(8), true}, at)
                 : isa::pack(isa::Value{static_cast<uint32_t>(number(s, ~0u)), false}, at);
    case OperandType::kTensor:
      return isa::pack(tensor(s), at);
    case OperandType::kScalar:
      return isa::pack(scalar(s), at);
    case OperandType::kAffine: {
      isa::AffineOperand a{};
      a.offset = random_.between(-20, 20);
      a.multiplier = random_.between(-3, 3);
      a.step[0] = random_.between(-3, 3);
      a.count[0] = static_cast<uint16_t>(s.elements);
      return isa::pack(a, at);
    }
    case OperandType::kPattern:
      return isa::pack(isa::Pattern{{1, 0}, {s.elements, 0}}, at);
    case OperandType::kSide:
      return isa::pack(side(s, std::strcmp(o.name, "dst") == 0), at);
  }
}

}  // namespace fuzz
