// One collective on the reference machine: places the ranks of a group, lowers all of them, runs,
// compares results bit for bit. Elements are small numbers, so that sums are exact in every order.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule/select.h"
#include "tests/collectives/reference_machine.h"
#include "tests/collectives/schedule/groups.h"

namespace ccl {

using Algorithmic =
    std::function<base::Result<Schedule>(const OpRequest&, const Group&, const ScheduleOptions&)>;

struct Case {
  Group group;
  Algorithmic algorithm;  // empty: plan() selects
  std::string algo;       // NCCOM_CC_ALGO of plan()
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kInt32;
  ReduceOp op = ReduceOp::kAdd;
  uint64_t elements = 0;  // of the input
  SbufRows input_rows;    // tensors in SBUF
  SbufRows output_rows;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  uint32_t root = 0;
  uint32_t cc_count = 1;
  uint32_t stream = 0;  // above 0: the CC-core of that number, and a queue and memory of its own
  bool in_place = false;
  bool broadcast = true;
  ScheduleOptions schedule;
  uint32_t executions = 1;
  uint32_t seed = 1;
  bool right = true;  // false: a schedule that lowering refuses
};

class Bench {
 public:
  // `shared`: the machine of several operations that run at once.
  explicit Bench(const Case& c, ReferenceMachine* shared = nullptr)
      : c_(c),
        own_machine_(shared == nullptr
                         ? std::make_unique<ReferenceMachine>(c.group.topology.gen, c.seed)
                         : nullptr),
        machine_(shared == nullptr ? *own_machine_ : *shared) {
    const uint64_t size = contract::dtype_size(c.dtype);
    request_.kind = c.kind;
    request_.dtype = c.dtype;
    request_.op = c.op;
    request_.root = c.root;
    request_.pairs = c.pairs;
    request_.input_rows = c.input_rows;
    request_.output_rows = c.output_rows;
    request_.input_bytes = c.elements * size;
    request_.output_bytes = c.kind == OpKind::kAllGather       ? request_.input_bytes * ranks()
                            : c.kind == OpKind::kReduceScatter ? request_.input_bytes / ranks()
                                                               : request_.input_bytes;
    options_.overrides = std::make_shared<const Overrides>(load_overrides(c.algo).value());
    options_.broadcast = c.broadcast;
    options_.schedule = c.schedule;
    options_.schedule.in_place = c.in_place;
    for (uint32_t slot = 0; slot < kMaxCcCores; ++slot) options_.triggers[slot] = 0x5000 + slot;
  }

  // Declares memory, plans and loads all ranks, runs, checks.
  void run() {
    ASSERT_NO_FATAL_FAILURE(load());
    ASSERT_TRUE(machine_.run()) << machine_.error << "\n" << text;
    EXPECT_TRUE(machine_.all_semaphores_zero()) << text;
    EXPECT_EQ(machine_.notifications.size(), 2u * ranks() * c_.executions);
    check();
  }

  void load() {
    ASSERT_NO_FATAL_FAILURE(prepare());
    for (uint32_t r = 0; r < ranks(); ++r) fill(r);
    for (uint32_t r = 0; r < ranks(); ++r) {
      const auto lowered = lower_rank(r);
      ASSERT_TRUE(lowered) << lowered.error().message();
      algorithm = lowered->algorithm;
      records = std::max(records, lowered->programs[0].size());
      if (r < 4) text += lowered->describe();
      machine_.load(members_[r], *lowered, c_.executions, options_.triggers);
    }
  }

  // Results and completions.
  void check() {
    total_ = reduces(c_.kind) && c_.kind != OpKind::kPermuteReduce ? total() : Bytes();
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const bool undefined = c_.kind == OpKind::kReduce && rank != c_.root;
      // In place, later executions work on the result of earlier ones: only the first is checked.
      if ((!c_.in_place || c_.executions == 1) && !undefined) {
        const Bytes is = output(rank);
        const Bytes wanted = expected(rank);
        const auto differ = std::mismatch(is.begin(), is.end(), wanted.begin(), wanted.end());
        EXPECT_EQ(differ.first, is.end())
            << "rank " << rank << ", byte " << differ.first - is.begin() << "\n"
            << text;
      }
      const Bytes& words = machine_.memory(members_[rank].chip, members_[rank].weights);
      EXPECT_EQ(words[kCompletions], c_.executions) << "completions of rank " << rank;
    }
  }

  // Makes the schedule, learns what it needs, places the ranks.
  void prepare() {
    if (c_.algorithm) {
      schedule_ = std::make_unique<base::Result<Schedule>>(
          c_.algorithm(request_, c_.group, options_.schedule));
      ASSERT_TRUE(*schedule_) << schedule_->error().message();
      if (c_.right) {
        const base::Status verified = verify(**schedule_);
        ASSERT_TRUE(verified) << verified.error().message();
      }
      const uint32_t engines = contract::kDmaPerNc * c_.group.topology.lnc;
      needs_ = needs_of((*schedule_)->shape, engines, c_.cc_count);
    } else {
      const auto n = needs(request_, c_.group, c_.in_place, c_.cc_count, options_);
      ASSERT_TRUE(n) << n.error().message();
      needs_ = *n;
    }
    for (uint32_t r = 0; r < ranks(); ++r) members_.push_back(place(r));
  }

  base::Result<Lowered> lower_rank(uint32_t r) const {
    const Completion completion{members_[r].weights + kCompletions, 1};
    if (!c_.algorithm) return plan(request_, c_.group, members_, r, completion, options_);
    return lower(**schedule_, members_, r, completion, options_);
  }

  uint32_t ranks() const { return c_.group.ranks(); }
  ReferenceMachine& machine() { return machine_; }
  OpRequest& request() { return request_; }
  PlanOptions& options() { return options_; }
  std::vector<RankResources>& members() { return members_; }
  Algorithm algorithm = Algorithm::kRing;
  size_t records = 0;  // of the longest first program
  std::string text;

 private:
  using Bytes = std::vector<uint8_t>;
  static constexpr uint64_t kSecondHalf = 0x2'0000;  // of a partition

  // Input element i of rank r: different for every rank and index.
  void set(uint32_t rank, uint64_t i, uint8_t* to) const {
    const uint64_t value = (i * 7 + rank * 13 + i / 251) % 23 + rank + 1;
    if (is_float(c_.dtype)) {
      encode_float(c_.dtype, static_cast<double>(value % 8) / 4 - 0.5, to);
    } else {
      const uint64_t wide = value * 0x0123'4567'89AB'CDEFull;
      std::memcpy(to, &wide, contract::dtype_size(c_.dtype));
    }
  }

  RankResources place(uint32_t rank) const {
    const Position& p = c_.group.members[rank];
    RankResources r;
    r.gen = c_.group.topology.gen;
    r.global_rank = p.rank;
    r.chip = p.chip;
    r.nc = p.nc;
    r.lnc = c_.group.topology.lnc;
    r.cc_count = c_.cc_count;
    for (uint32_t i = 0; i < c_.cc_count; ++i) {
      r.cc[i] = {p.nc * r.map().topsps_per_nc() + c_.stream + i, rank % 3 * 7 + i, 180 - i};
    }
    r.queue -= c_.stream;
    r.signals = needs_.signals;
    const uint64_t base = r.map().hbm_base(r.map().hbm_of_nc(p.nc)) + (p.nc + 1) * 0x4000'0000ull +
                          c_.stream * 0x200'0000ull;
    r.weights = base;
    r.src = base + 0x10'0000;
    r.second = base + 0x2000'0000;
    r.dst = base + 0x1000'0000;
    if (!c_.input_rows.contiguous()) {
      r.src = r.map().nc(p.nc).device;
      r.dst = r.src + kSecondHalf;
    }
    if (c_.in_place) {
      const uint64_t first = r.src;
      r.dst = first;
      if (c_.kind == OpKind::kReduceScatter) {
        r.dst += c_.input_rows.at(rank * request_.output_bytes);
      } else if (c_.kind == OpKind::kAllGather) {
        r.src += c_.output_rows.at(rank * request_.input_bytes);
      }
    }
    r.channel_buffer = base + 0x3000'0000;
    r.channel_bytes = needs_.channel_bytes;
    return r;
  }

  void fill(uint32_t rank) {
    const RankResources& r = members_[rank];
    machine_.add_memory(r.chip, r.weights, constants());
    const uint64_t size = contract::dtype_size(c_.dtype);
    Bytes input(request_.input_bytes);
    Bytes second(request_.input_bytes);
    for (uint64_t i = 0; i < c_.elements; ++i) set(rank, i, input.data() + i * size);
    for (uint64_t i = 0; i < c_.elements; ++i) set(rank + 5, i + 3, second.data() + i * size);
    inputs_.push_back(input);
    seconds_.push_back(second);
    machine_.add_memory(r.chip, r.second, second);
    if (c_.in_place && c_.kind == OpKind::kAllGather) {
      Bytes all(request_.output_bytes, 0xEE);
      std::copy(input.begin(), input.end(),
                all.begin() + static_cast<std::ptrdiff_t>(rank * request_.input_bytes));
      put(r.chip, r.dst, c_.output_rows, all);
    } else {
      put(r.chip, r.src, c_.input_rows, input);
      if (!c_.in_place) {
        put(r.chip, r.dst, c_.output_rows, Bytes(request_.output_bytes, 0xEE));
      }
    }
    machine_.add_memory(r.chip, r.channel_buffer, Bytes(needs_.channel_bytes, 0xDD));
  }

  // A tensor in SBUF is a piece of memory per partition: a column of rows fills the partitions
  // before the next one begins. Nothing else of SBUF exists.
  void put(uint32_t chip, uint64_t base, const SbufRows& rows, const Bytes& bytes) {
    if (rows.contiguous()) return machine_.add_memory(chip, base, bytes);
    for (uint32_t p = 0; p < rows.partitions; ++p) {
      Bytes own;
      for (uint64_t at = p * rows.bytes; at < bytes.size(); at += rows.partitions * rows.bytes) {
        const Bytes row = part(bytes, at, rows.bytes);
        own.insert(own.end(), row.begin(), row.end());
      }
      machine_.add_memory(chip, base + p * rows.step * contract::tpb::kPartitionStride, own);
    }
  }

  Bytes get(uint32_t chip, uint64_t base, const SbufRows& rows, uint64_t bytes) {
    if (rows.contiguous()) return machine_.memory(chip, base);
    Bytes all;
    for (uint64_t column = 0; all.size() < bytes; ++column) {
      for (uint32_t p = 0; p < rows.partitions; ++p) {
        const uint64_t at = base + p * rows.step * contract::tpb::kPartitionStride;
        const Bytes row = part(machine_.memory(chip, at), column * rows.bytes, rows.bytes);
        all.insert(all.end(), row.begin(), row.end());
      }
    }
    return all;
  }

  Bytes output(uint32_t rank) {
    const RankResources& r = members_[rank];
    if (!c_.in_place || c_.kind != OpKind::kReduceScatter) {
      return get(r.chip, r.dst, c_.output_rows, request_.output_bytes);
    }
    const Bytes all = get(r.chip, r.src, c_.input_rows, request_.input_bytes);
    return part(all, rank * request_.output_bytes, request_.output_bytes);
  }

  Bytes fold(const std::vector<const Bytes*>& parts) const {
    contract::DmaCompute op;
    op.op = c_.op;
    op.src = op.dst = c_.dtype;
    Bytes sum = *parts[0];
    for (size_t k = 1; k < parts.size(); ++k) {
      reference_fold(op, {sum.data(), parts[k]->data()}, sum.size(), sum.data());
    }
    return sum;
  }

  Bytes total() const {
    std::vector<const Bytes*> all;
    for (const Bytes& input : inputs_) all.push_back(&input);
    return fold(all);
  }

  static Bytes part(const Bytes& from, uint64_t offset, uint64_t bytes) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
  }

  Bytes permuted(uint32_t rank) const {
    for (const auto& [source, target] : c_.pairs) {
      if (target != rank) continue;
      if (c_.kind == OpKind::kPermute) return inputs_[source];
      return fold({&inputs_[source], &seconds_[source]});
    }
    return c_.in_place ? inputs_[rank] : Bytes(request_.output_bytes, 0xEE);
  }

  Bytes expected(uint32_t rank) const {
    Bytes out;
    switch (c_.kind) {
      case OpKind::kAllReduce:
        return total_;
      case OpKind::kReduceScatter:
        return part(total_, rank * request_.output_bytes, request_.output_bytes);
      case OpKind::kReduce:
        return rank == c_.root ? total_ : Bytes();
      case OpKind::kBroadcast:
        return inputs_[c_.root];
      case OpKind::kAllGather:
        for (const Bytes& input : inputs_) out.insert(out.end(), input.begin(), input.end());
        return out;
      case OpKind::kAllToAll:
        for (const Bytes& input : inputs_) {
          const uint64_t chunk = request_.input_bytes / ranks();
          const Bytes mine = part(input, rank * chunk, chunk);
          out.insert(out.end(), mine.begin(), mine.end());
        }
        return out;
      case OpKind::kPermute:
      case OpKind::kPermuteReduce:
        return permuted(rank);
      default:
        return {};
    }
  }

  Case c_;
  std::unique_ptr<ReferenceMachine> own_machine_;
  ReferenceMachine& machine_;
  OpRequest request_;
  PlanOptions options_;
  Needs needs_;
  std::unique_ptr<base::Result<Schedule>> schedule_;
  std::vector<RankResources> members_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> seconds_;
  Bytes total_;
};

inline void run(const Case& c) {
  SCOPED_TRACE(std::string(to_string(c.kind)) + " dtype " +
               std::to_string(static_cast<int>(c.dtype)) + " elements " +
               std::to_string(c.elements) + " ranks " + std::to_string(c.group.ranks()) +
               " CC-cores " + std::to_string(c.cc_count) + (c.in_place ? " in place" : "") +
               " seed " + std::to_string(c.seed));
  Bench bench(c);
  bench.run();
}

}  // namespace ccl
