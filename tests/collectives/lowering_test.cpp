// Lowered collectives on the reference machine: results for every type, size and number of ranks,
// nine executions of the same rings, in place and not, refusals.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule.h"
#include "tests/collectives/reference_machine.h"

namespace ccl {
namespace {

struct Case {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kBf16;
  ReduceOp op = ReduceOp::kAdd;
  uint64_t elements = 0;  // of the input
  uint32_t ranks = 2;
  contract::Gen gen = contract::Gen::kV2;
  uint32_t ncs_per_chip = 2;
  bool in_place = false;
  bool broadcast = true;
  uint32_t executions = 1;
  uint32_t seed = 1;
  std::string algo;
};

class Bench {
 public:
  explicit Bench(const Case& c) : c_(c), machine_(c.gen, c.seed) {
    const uint64_t size = contract::dtype_size(c.dtype);
    request_.kind = c.kind;
    request_.dtype = c.dtype;
    request_.op = c.op;
    request_.input_bytes = c.elements * size;
    request_.output_bytes = c.kind == OpKind::kAllReduce   ? request_.input_bytes
                            : c.kind == OpKind::kAllGather ? request_.input_bytes * c.ranks
                                                           : request_.input_bytes / c.ranks;
    options_.algo_override = c.algo;
    for (uint32_t r = 0; r < c.ranks; ++r) group_.push_back(place(r));
  }

  // Declares memory, plans and loads all ranks, runs, checks.
  void run() {
    for (uint32_t r = 0; r < c_.ranks; ++r) fill(r);
    for (uint32_t r = 0; r < c_.ranks; ++r) {
      const auto lowered = plan(request_, group_, r, {group_[r].one_word + 64, 1}, options_);
      ASSERT_TRUE(lowered) << lowered.error().message();
      algorithm = lowered->algorithm;
      text += lowered->describe();
      machine_.load(group_[r], *lowered, c_.executions);
    }
    ASSERT_TRUE(machine_.run()) << machine_.error << "\n" << text;
    EXPECT_TRUE(machine_.all_semaphores_zero()) << text;
    check();
  }

  ReferenceMachine& machine() { return machine_; }
  OpRequest& request() { return request_; }
  std::vector<RankResources>& group() { return group_; }
  Algorithm algorithm = Algorithm::kRing;
  std::string text;

 private:
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
    const contract::AddressMap map{c_.gen};
    const uint32_t nc = rank % c_.ncs_per_chip;
    RankResources r =
        resources_of(c_.gen, rank, rank / c_.ncs_per_chip, nc, nc * map.topsps_per_nc());
    if (!c_.broadcast) r.broadcast = 0;
    r.semaphore_base = rank % 3 * 7;
    const uint64_t base = map.hbm_base(r.hbm) + (nc + 1) * 0x1000'0000ull;
    r.one_word = base;
    r.src = base + 0x10'0000;
    r.dst = c_.in_place ? in_place_dst(rank, r.src) : base + 0x400'0000;
    if (c_.in_place && c_.kind == OpKind::kAllGather) {
      r.dst = base + 0x10'0000;
      r.src = r.dst + rank * request_.input_bytes;
    }
    r.channel_buffer = base + 0x800'0000;
    return r;
  }

  uint64_t in_place_dst(uint32_t rank, uint64_t src) const {
    return c_.kind == OpKind::kReduceScatter ? src + rank * request_.output_bytes : src;
  }

  void fill(uint32_t rank) {
    const RankResources& r = group_[rank];
    std::vector<uint8_t> words(128, 0);
    words[0] = 1;
    machine_.add_memory(r.chip, r.one_word, words);
    const uint64_t size = contract::dtype_size(c_.dtype);
    std::vector<uint8_t> input(request_.input_bytes);
    for (uint64_t i = 0; i < c_.elements; ++i) set(rank, i, input.data() + i * size);
    inputs_.push_back(input);
    if (c_.in_place && c_.kind == OpKind::kAllGather) {
      std::vector<uint8_t> all(request_.output_bytes, 0xEE);
      std::copy(input.begin(), input.end(),
                all.begin() + static_cast<std::ptrdiff_t>(rank * request_.input_bytes));
      machine_.add_memory(r.chip, r.dst, all);
    } else {
      machine_.add_memory(r.chip, r.src, input);
      if (!c_.in_place) {
        machine_.add_memory(r.chip, r.dst, std::vector<uint8_t>(request_.output_bytes, 0xEE));
      }
    }
    bool same_chip = true;
    for (const RankResources& peer : group_) same_chip = same_chip && peer.chip == r.chip;
    const auto channel = channel_buffer_bytes(request_, c_.ranks, c_.in_place, same_chip, options_);
    machine_.add_memory(r.chip, r.channel_buffer, std::vector<uint8_t>(*channel, 0xDD));
  }

  std::vector<uint8_t> output(uint32_t rank) {
    const RankResources& r = group_[rank];
    const uint64_t base = c_.in_place && c_.kind == OpKind::kReduceScatter ? r.src : r.dst;
    const auto& memory = machine_.memory(r.chip, base);
    const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(r.dst - base);
    return {begin, begin + static_cast<std::ptrdiff_t>(request_.output_bytes)};
  }

  // Fold in the order that the algorithm states: mesh 0..N-1; ring from the owner's successor.
  std::vector<uint8_t> expected(uint32_t rank) {
    std::vector<uint8_t> out(request_.output_bytes);
    if (c_.kind == OpKind::kAllGather) {
      out.clear();
      for (const auto& input : inputs_) out.insert(out.end(), input.begin(), input.end());
      return out;
    }
    contract::DmaCompute op;
    op.op = c_.op;
    op.src = op.dst = c_.dtype;
    for (uint32_t owner = 0; owner < c_.ranks; ++owner) {
      Chunk from = chunk_of(request_.input_bytes, c_.ranks, owner);
      uint64_t to = from.offset;
      if (c_.kind == OpKind::kReduceScatter) {
        if (owner != rank) continue;
        from = {rank * request_.output_bytes, request_.output_bytes};
        to = 0;
      }
      std::vector<uint8_t> sum;
      for (uint32_t k = 0; k < c_.ranks; ++k) {
        const uint32_t r = algorithm == Algorithm::kMesh ? k : (owner + 1 + k) % c_.ranks;
        const uint8_t* next = inputs_[r].data() + from.offset;
        if (k == 0) {
          sum.assign(next, next + from.bytes);
        } else if (algorithm == Algorithm::kRing) {
          reference_fold(op, {sum.data(), next}, from.bytes, sum.data());
        }
      }
      if (algorithm == Algorithm::kMesh) {
        std::vector<const uint8_t*> all;
        for (const auto& input : inputs_) all.push_back(input.data() + from.offset);
        reference_fold(op, all, from.bytes, sum.data());
      }
      std::copy(sum.begin(), sum.end(), out.begin() + static_cast<std::ptrdiff_t>(to));
    }
    return out;
  }

  void check() {
    for (uint32_t rank = 0; rank < c_.ranks; ++rank) {
      // In place, later executions work on the result of earlier ones: only the first is checked.
      if (!c_.in_place || c_.executions == 1) {
        EXPECT_EQ(output(rank), expected(rank)) << "rank " << rank << "\n" << text;
      }
      const auto& words = machine_.memory(group_[rank].chip, group_[rank].one_word);
      EXPECT_EQ(words[64], c_.executions) << "completions of rank " << rank;
    }
    EXPECT_EQ(machine_.notifications.size(), 2u * c_.ranks * c_.executions);
  }

  Case c_;
  ReferenceMachine machine_;
  OpRequest request_;
  PlanOptions options_;
  std::vector<RankResources> group_;
  std::vector<std::vector<uint8_t>> inputs_;
};

void run(const Case& c) {
  SCOPED_TRACE(std::string(to_string(c.kind)) + " dtype " +
               std::to_string(static_cast<int>(c.dtype)) + " elements " +
               std::to_string(c.elements) + " ranks " + std::to_string(c.ranks) + " algo " +
               c.algo + (c.in_place ? " in place" : "") + " seed " + std::to_string(c.seed));
  Bench bench(c);
  bench.run();
}

constexpr OpKind kKinds[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};

std::string forced(const char* algo) {
  return std::string("allr:") + algo + ",allg:" + algo + ",redsct:" + algo;
}

TEST(Lowering, TwoRanksEverySizeAndAlgorithm) {
  for (const OpKind kind : kKinds) {
    for (const char* algo : {"ring", "mesh"}) {
      for (const bool in_place : {false, true}) {
        for (const uint64_t elements : {0, 2, 30, 62, 64, 66, 1022, 1024, 1026, 2048, 40000}) {
          for (const uint32_t seed : {1u, 2u}) {
            Case c;
            c.kind = kind;
            c.elements = elements;
            c.in_place = in_place;
            c.algo = forced(algo);
            c.seed = seed;
            run(c);
          }
        }
      }
    }
  }
}

TEST(Lowering, OddElementCounts) {
  for (const char* algo : {"ring", "mesh"}) {
    for (const uint64_t elements : {1, 3, 31, 33, 1023, 70001}) {
      Case c;
      c.elements = elements;
      c.algo = forced(algo);
      c.dtype = DType::kUint8;
      run(c);
    }
  }
}

TEST(Lowering, PacketsLargerThanOneDescriptor) {
  Case c;
  c.elements = 16 * 65536 + 1234;  // over 64 KiB per engine at four bytes
  c.dtype = DType::kInt32;
  run(c);
  c.kind = OpKind::kAllGather;
  run(c);
}

TEST(Lowering, EveryTypeAndReduction) {
  for (int code = 1; code <= 0xF; ++code) {
    for (const ReduceOp op : {ReduceOp::kAdd, ReduceOp::kMax, ReduceOp::kMin}) {
      for (const char* algo : {"ring", "mesh"}) {
        Case c;
        c.dtype = static_cast<DType>(code);
        c.op = op;
        c.elements = 100;
        c.algo = forced(algo);
        run(c);
        c.kind = OpKind::kReduceScatter;
        run(c);
      }
    }
  }
}

TEST(Lowering, NineExecutionsReplayTheSameRings) {
  for (const OpKind kind : kKinds) {
    for (const char* algo : {"ring", "mesh"}) {
      for (const bool in_place : {false, true}) {
        for (const uint32_t seed : {1u, 2u, 3u}) {
          Case c;
          c.kind = kind;
          c.elements = 3000;
          c.algo = forced(algo);
          c.in_place = in_place;
          c.executions = 9;
          c.seed = seed;
          run(c);
        }
      }
    }
  }
}

TEST(Lowering, EightRanksOfFourChips) {
  for (const OpKind kind : kKinds) {
    for (const char* algo : {"ring", "mesh"}) {
      for (const uint32_t ranks : {3u, 5u, 8u}) {
        for (const uint64_t per_rank : {0u, 1u, 33u, 5000u}) {
          Case c;
          c.kind = kind;
          c.ranks = ranks;
          c.elements = per_rank * ranks;
          c.algo = forced(algo);
          c.executions = 3;
          c.seed = ranks;
          run(c);
        }
      }
    }
  }
}

TEST(Lowering, ManyRanksOfOneChip) {
  for (const OpKind kind : kKinds) {
    for (const char* algo : {"ring", "mesh"}) {
      for (const bool in_place : {false, true}) {
        Case c;
        c.kind = kind;
        c.gen = contract::Gen::kV3;
        c.ncs_per_chip = 8;
        c.ranks = 4;
        c.elements = 4 * 4500;
        c.algo = forced(algo);
        c.in_place = in_place;
        c.executions = in_place ? 1 : 4;
        run(c);
      }
    }
  }
}

// Slots are reused: more slices than slots, with credits.
TEST(Lowering, RingReusesItsSlots) {
  Case c;
  c.ranks = 3;
  c.dtype = DType::kInt32;
  c.elements = 3 * (10 * 131072 + 100);  // ten slices of 512 KiB per chunk
  c.algo = forced("ring");
  run(c);
}

TEST(Lowering, WithoutBroadcastEveryEngineIsRung) {
  Case c;
  c.elements = 40000;
  c.broadcast = false;
  c.executions = 9;
  run(c);
}

TEST(Lowering, ReportsTheAlgorithm) {
  Case c;
  c.elements = 100;
  Bench small(c);
  small.run();
  EXPECT_EQ(small.algorithm, Algorithm::kMesh);
  c.elements = 512 * 1024;
  Bench large(c);
  large.run();
  EXPECT_EQ(large.algorithm, Algorithm::kRing);
}

TEST(Lowering, CopyPacketsShrinkWithTheOption) {
  Case c;
  c.kind = OpKind::kAllGather;
  c.elements = 1 << 20;
  c.dtype = DType::kUint8;
  Bench bench(c);
  PlanOptions options;
  options.packet_bytes = 4096;
  const auto lowered = plan(bench.request(), bench.group(), 0, {}, options);
  ASSERT_TRUE(lowered);
  for (const EngineRing& ring : lowered->rings) {
    for (const auto& d : ring.s2m) EXPECT_LE(contract::desc::length(d.w0), 4096u);
  }
}

TEST(Lowering, LargeSizesFitTheHardwareLimits) {
  Case c;
  Bench bench(c);
  bench.request().input_bytes = bench.request().output_bytes = 12ull << 30;
  for (RankResources& r : bench.group()) r.dst = r.src + (13ull << 30);
  const auto lowered = plan(bench.request(), bench.group(), 0, {}, {});
  ASSERT_TRUE(lowered) << lowered.error().message();
  EXPECT_LT(lowered->program.size(), 100u);
  for (const EngineRing& ring : lowered->rings) {
    EXPECT_LE(ring.m2s.size() * ring_copies(ring.m2s.size()), (1u << 24) - 16);
  }
}

TEST(Lowering, Refusals) {
  Case c;
  c.elements = 100;
  Bench bench(c);
  const auto refused = [&](const std::vector<RankResources>& group, int code) {
    const auto lowered = plan(bench.request(), group, 0, {}, {});
    ASSERT_FALSE(lowered);
    EXPECT_EQ(lowered.error().code, code) << lowered.error().message();
  };
  auto group = bench.group();
  group[1].dst = group[1].src + 64;  // partial overlap
  refused(group, kNrtInvalid);
  group = bench.group();
  group[1].global_rank = 0;
  refused(group, kNrtInvalid);
  group = bench.group();
  group[1].semaphore_base = 250;
  refused(group, kNrtResource);
  group = bench.group();
  group[1].src = UINT64_MAX - 10;
  refused(group, kNrtInvalid);
  group = bench.group();
  group[0].dst = group[0].src;
  group[1].dst = group[1].src;
  for (auto& r : group) r.channel_buffer = 0;
  PlanOptions options;
  options.algo_override = "allr:mesh";
  EXPECT_FALSE(plan(bench.request(), group, 0, {}, options));  // in place through slots it has not
  EXPECT_TRUE(plan(bench.request(), group, 0, {}, {}));
  EXPECT_FALSE(plan(bench.request(), bench.group(), 2, {}, {}));
  options = {};
  options.packet_bytes = 0;
  EXPECT_FALSE(plan(bench.request(), bench.group(), 0, {}, options));
}

}  // namespace
}  // namespace ccl
