// Rules that tie several operands of one instruction together. Source of truth:
// spec/engine-isa.md 3 (partitions, element counts, PSUM inputs), spec/neff.md 5.4 R-17 (WRITE).
#pragma once

#include "contract/isa_types.h"

namespace contract {
namespace isa {

// spec/engine-isa.md 3 rule 2: the legal start partitions for `count` active partitions.
constexpr bool legal_partitions(unsigned start, unsigned count) {
  if (count == 0 || count > kPartitions) return false;
  if (count > 64) return start == 0;
  if (count > 32) return start % 64 == 0 && start < kPartitions;
  return start % 32 == 0 && start < kPartitions;
}

constexpr DecodeError check_operands(const Write& w) {
  const bool sizes =
      (w.size0 == 4 && (w.size1 == 0 || w.size1 == 4)) || (w.size0 == 8 && w.size1 == 0);
  if (!sizes || w.dst0 % w.size0 != 0) return DecodeError::kFieldRange;
  if (w.size1 == 0) {
    const bool unused_zero = w.dst1 == 0 && (w.size0 == 8 || w.data1 == 0);
    return unused_zero ? DecodeError::kNone : DecodeError::kFieldRange;
  }
  return w.dst1 % w.size1 == 0 ? DecodeError::kNone : DecodeError::kFieldRange;
}

constexpr DecodeError check_operands(const EventSemaphoreRangeClear& c) {
  return c.first <= c.last ? DecodeError::kNone : DecodeError::kFieldRange;
}

constexpr DecodeError check_operands(const TensorTensor& t) {
  const uint64_t n = element_count(t.dst);
  const bool ok = legal_partitions(t.dst.start_partition, t.partitions) &&
                  legal_partitions(t.src0.start_partition, t.partitions) &&
                  legal_partitions(t.src1.start_partition, t.partitions) &&
                  element_count(t.src0) == n && element_count(t.src1) == n &&
                  !(t.src0.memory == Memory::kPsum && t.src1.memory == Memory::kPsum);
  return ok ? DecodeError::kNone : DecodeError::kFieldRange;
}

constexpr DecodeError check_operands(const TensorCopy& t) {
  const bool ok = legal_partitions(t.dst.start_partition, t.partitions) &&
                  legal_partitions(t.src.start_partition, t.partitions) &&
                  element_count(t.src) == element_count(t.dst);
  return ok ? DecodeError::kNone : DecodeError::kFieldRange;
}

// Operands of some kinds are zero in the others.
constexpr DecodeError check_operands(const PseudoTriggerCollective2& c) {
  const CollectiveType t = c.ctype;
  const bool variable_size = t == CollectiveType::kAllGatherV ||
                             t == CollectiveType::kReduceScatterV ||
                             t == CollectiveType::kAllToAllV;
  const bool rooted = t == CollectiveType::kBroadcast || t == CollectiveType::kReduce;
  const bool two_sources = t == CollectiveType::kPermuteReduce ||
                           t == CollectiveType::kPermuteReduceImplicit ||
                           t == CollectiveType::kSendRecvCce;
  const bool metadata = c.metadata_var_id != 0 || c.recv_counts_known != 0 || c.has_rdispls != 0;
  const bool ok = (variable_size || !metadata) && (rooted || c.root == 0) &&
                  (two_sources || (c.src1_var_id == 0 && c.src1_var_offset == 0));
  return ok ? DecodeError::kNone : DecodeError::kFieldRange;
}

}  // namespace isa
}  // namespace contract
