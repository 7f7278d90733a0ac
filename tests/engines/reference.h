// What every compute instruction does to SBUF, PSUM and the engines' state, written from the
// specification and the instruction table alone. Source of truth: spec/engine-isa.md 3, 5, 7 and
// 10, data/isa/instructions.json. One element at a time; nothing is fast.
//
// An instruction reads all of its inputs before it writes. Arithmetic is float32 with one rounding
// per operation and a last one to the destination's type, so nearly all results are one bit
// pattern. Where they are not (functions, power, the sign of a zero that is not specified), the
// reference knows the range of legal ones.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "arch/contract/address_map.h"
#include "tests/engines/numbers.h"

namespace engine_reference {

using Registers = std::array<uint32_t, isa::kRegisters>;

// Byte of every element in its partition, in stream order.
std::vector<uint32_t> places_of(const isa::TensorOperand& tensor, const Registers& registers);

struct Expected {
  isa::Memory memory;
  uint8_t lane;
  uint8_t partition;
  isa::DataType dtype;
  uint32_t index;  // in the lane's stream
  uint32_t byte;   // in the partition
  uint64_t bits;   // one of the legal values
  Range range;     // all of them, if `ranged`
  bool ranged;

  bool admits(uint64_t got) const {
    return got == bits || (ranged && engine_reference::admits(dtype, range, got));
  }
};

class Reference {
 public:
  explicit Reference(contract::Gen gen);

  static uint32_t sbuf_bytes(contract::Gen gen);  // of a partition
  uint32_t partition_bytes(isa::Memory memory) const {
    return memory == isa::Memory::kSbuf ? sbuf_bytes(gen_) : contract::tpb::kPsumPartitionBytes;
  }
  uint8_t* at(isa::Memory memory, uint32_t partition, uint32_t byte) {
    return memories_[static_cast<size_t>(memory)].data() +
           static_cast<size_t>(partition) * partition_bytes(memory) + byte;
  }

  // A legal instruction. The elements it wrote, in order, are in written() until the next one.
  void execute(isa::Engine engine, const isa::Instruction& instruction, const Registers& registers);
  const std::vector<Expected>& written() const { return written_; }

 private:
  struct View {
    const isa::TensorOperand& tensor;
    std::vector<uint32_t> places;
    size_t size() const { return places.size(); }
  };
  struct ScalarView {
    const isa::ScalarOperand& scalar;
    View tile;
  };
  using Matrix = std::vector<std::vector<float>>;  // of row k
  static constexpr uint32_t kPsumHalfwords = contract::tpb::kPsumPartitionBytes / 2;
  using Accumulators = std::array<Range, isa::kPartitions>;

  View view(const isa::TensorOperand& tensor) const;
  ScalarView view(const isa::ScalarOperand& scalar) const;
  uint64_t element(const View& view, unsigned lane, size_t index);
  Range number(const View& view, unsigned lane, size_t index);
  uint32_t word(const View& view, unsigned lane, size_t index);
  Range number(const ScalarView& scalar, unsigned lane);
  uint32_t word(const ScalarView& scalar, unsigned lane);

  void put(const View& dst, unsigned lane, size_t index, const Range& value);
  void put_bits(const View& dst, unsigned lane, size_t index, uint64_t bits);
  void copy(const View& dst, const View& src, unsigned lane, size_t index);
  void fold(isa::TensorOp op, isa::ReduceCmd command, const Range& initial, unsigned lane,
            const std::vector<Range>& values);
  // reference_products.cpp
  Matrix matrix(const isa::TensorOperand& tensor, unsigned rows, unsigned slices);
  // reference_mx.cpp: rows 128 j + k of 4 x 128: number j of partition k, times its scale.
  Matrix mx_matrix(const isa::TensorOperand& tensor, const isa::TensorOperand& scale,
                   unsigned rows);
  void product(const isa::TensorOperand& tensor, isa::Accumulate accumulate, const Matrix& weights,
               const Matrix& moving, unsigned columns);
  void transpose(const isa::Matmul& t);
  void open_banks(const View& dst, unsigned lane);
  void run(const isa::Ldweights& t);
  void run(const isa::Matmul& t);

  void run(const isa::TensorTensor& t);
  void run(const isa::TensorCopy& t);
  void run(const isa::TensorReduce& t);
  void run(const isa::TensorScalar& t);
  void run(const isa::Memset& t);
  void run(const isa::Iota& t);
  void run(const isa::TensorScalarReduce& t);
  void run(const isa::ScalarTensorTensor& t);
  void run(const isa::TensorTensorScan& t);
  void run(const isa::Reciprocal& t);
  void run(const isa::ReadAccumulator& t);
  void run(const isa::AffineSelect& t);
  // reference_search.cpp
  void run(const isa::Max8& t);
  void run(const isa::FindIndex8& t);
  void run(const isa::MatchReplace8& t);
  void run(const isa::NGather& t);
  void run(const isa::LocalGather& t);
  void run(const isa::SequenceBounds& t);
  void run(const isa::Topk& t);
  void run(const isa::NonzeroWithCount& t);
  void run(const isa::PartitionReduce& t);
  void run(const isa::BnStats& t);
  void run(const isa::BnAggregate& t);
  std::vector<float> numbers(const View& v, unsigned lane);
  static Range near(double value);
  // reference_mx.cpp
  void run(const isa::LdweightsMx& t);
  void run(const isa::MatmulMx& t);
  void run(const isa::QuantizeMx& t);
  void run(const isa::Activate& t);
  void run(const isa::Activate2& t);
  void run(const isa::TensorScalarCumulative& t);
  void run(const isa::Exponential& t);
  // reference_select.cpp
  void run(const isa::CopyPredicated& t);
  void run(const isa::SelectReduce& t);
  void run(const isa::RangeSelect& t);
  void run(const isa::StreamShuffle& t);
  void run(const isa::Transpose& t);

  contract::Gen gen_;
  std::vector<uint8_t> memories_[2];
  Accumulators accumulators_[isa::kEngines];
  std::map<std::pair<unsigned, unsigned>, Matrix> weights_;  // of tiles, by first row and column
  std::map<std::pair<unsigned, unsigned>, std::vector<std::vector<uint64_t>>> weight_bits_;
  std::vector<bool> by_product_;           // halfwords of PSUM that a product has written
  isa::Engine engine_ = isa::Engine::kSp;  // of the instruction at work
  const Registers* registers_ = nullptr;
  std::vector<Expected> written_;
};

}  // namespace engine_reference
