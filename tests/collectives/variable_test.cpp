// Operations of variable size on the reference machine: random counts and places, also none and
// illegal ones, against their definition (spec/collectives.md 1.4); the same counts through the
// verifier.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "arch/contract/notification.h"
#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/verify.h"
#include "tests/collectives/placed.h"
#include "tests/collectives/reference_machine.h"
#include "tests/collectives/schedule/groups.h"
#include "tests/collectives/schedule/samples.h"

namespace ccl {
namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::minstd_rand;

struct Case {
  Group group;
  OpKind kind = OpKind::kAllToAllV;
  DType dtype = DType::kInt32;
  ReduceOp op = ReduceOp::kAdd;
  uint64_t source_elements = 0;
  uint64_t target_elements = 0;
  bool counts_known = false;
  bool places = false;  // row 3
  Metadata metadata;
  uint32_t cc_count = 2;
  uint32_t executions = 1;
  uint32_t seed = 1;
  uint32_t packet_bytes = 65536;
};

uint32_t rows(const Case& c) {
  return c.kind == OpKind::kReduceScatterV ? 2 : c.places ? 4 : 3;
}

OpRequest request_of(const Case& c) {
  const uint64_t size = contract::dtype_size(c.dtype);
  OpRequest q;
  q.kind = c.kind;
  q.dtype = c.dtype;
  q.op = c.op;
  q.input_bytes = c.source_elements * size;
  q.output_bytes = c.target_elements * size;
  q.receive_counts_known = c.counts_known;
  q.receive_displacements = c.places;
  return q;
}

class Bench {
 public:
  explicit Bench(const Case& c)
      : c_(c), size_(contract::dtype_size(c.dtype)), machine_(c.group.topology.gen, c.seed) {
    request_ = request_of(c);
    options_.packet_bytes = c.packet_bytes;
    for (uint32_t slot = 0; slot < kMaxCcCores; ++slot) options_.triggers[slot] = 0x5000 + slot;
  }

  uint32_t ranks() const { return c_.group.ranks(); }

  std::vector<RankResources>& members() { return members_; }

  void place_all() {
    const auto needed = needs(request_, c_.group, false, c_.cc_count, options_);
    ASSERT_TRUE(needed) << needed.error().message();
    needs_ = *needed;
    EXPECT_EQ(needs_.algorithm, Algorithm::kMesh);
    for (uint32_t r = 0; r < ranks(); ++r) place(r);
  }

  base::Result<Lowered> plan_rank(uint32_t r) const {
    return plan(request_, c_.group, members_, r, {members_[r].weights + kCompletions, 1}, options_);
  }

  void run() {
    ASSERT_NO_FATAL_FAILURE(place_all());
    for (uint32_t r = 0; r < ranks(); ++r) {
      const auto lowered = plan_rank(r);
      ASSERT_TRUE(lowered) << lowered.error().message();
      EXPECT_LE(lowered->blocks.size(), needs_.blocks);
      machine_.load(members_[r], *lowered, c_.executions, options_.triggers);
    }
    ASSERT_TRUE(machine_.run()) << machine_.error;
    EXPECT_TRUE(machine_.all_semaphores_zero());
    for (uint32_t r = 0; r < ranks(); ++r) check(r);
  }

  uint32_t out_of_bounds() const {
    return static_cast<uint32_t>(std::count(machine_.notifications.begin(),
                                            machine_.notifications.end(),
                                            contract::cc_notify::kOutOfBounds));
  }

 private:
  uint64_t word(uint32_t rank, uint32_t row, uint32_t column) const {
    return c_.metadata[rank][row * ranks() + column];
  }

  static Bytes image(const std::vector<uint32_t>& words) {
    Bytes out(words.size() * sizeof(uint32_t));
    std::memcpy(out.data(), words.data(), out.size());
    return out;
  }

  void place(uint32_t rank) {
    RankResources r = placed(c_.group, rank, needs_, c_.cc_count);
    r.block_queue = 13;
    r.blocks = r.weights + 0x1'0000;
    r.metadata = r.weights + 0x4'0000;
    members_.push_back(r);
    machine_.add_memory(r.chip, r.weights, constants());
    machine_.add_memory(r.chip, r.metadata, image(c_.metadata[rank]));
    Bytes input(request_.input_bytes);
    Random random(c_.seed * 1000 + rank);
    for (uint64_t i = 0; i < c_.source_elements; ++i) {
      if (is_float(c_.dtype)) {
        encode_float(c_.dtype, static_cast<double>(random() % 8) / 4, input.data() + i * size_);
      } else {
        const uint64_t value = random();
        std::memcpy(input.data() + i * size_, &value, size_);
      }
    }
    inputs_.push_back(input);
    machine_.add_memory(r.chip, r.src, input);
    machine_.add_memory(r.chip, r.dst, Bytes(request_.output_bytes, 0xEE));
    machine_.add_memory(r.chip, r.channel_buffer, Bytes(needs_.channel_bytes, 0xDD));
  }

  bool inside(uint64_t from, uint64_t to, uint64_t count) const {
    return from + count <= c_.source_elements && to + count <= c_.target_elements;
  }

  Bytes expected(uint32_t rank) const {
    Bytes out(request_.output_bytes, 0xEE);
    if (c_.kind == OpKind::kReduceScatterV) {
      const uint64_t count = word(rank, 0, rank);
      const uint64_t from = word(rank, 1, rank);
      if (count == 0 || !inside(from, 0, count)) return out;
      contract::DmaCompute op;
      op.op = c_.op;
      op.src = op.dst = c_.dtype;
      Bytes sum(inputs_[0].begin() + static_cast<std::ptrdiff_t>(from * size_),
                inputs_[0].begin() + static_cast<std::ptrdiff_t>((from + count) * size_));
      for (uint32_t k = 1; k < ranks(); ++k) {
        reference_fold(op, {sum.data(), inputs_[k].data() + from * size_}, sum.size(), sum.data());
      }
      std::copy(sum.begin(), sum.end(), out.begin());
      return out;
    }
    for (uint32_t sender = 0; sender < ranks(); ++sender) {
      const uint32_t column = c_.kind == OpKind::kAllGatherV ? 0 : rank;
      const uint64_t count = word(sender, 0, column);
      const uint64_t from = word(sender, 1, column);
      const uint64_t to = c_.places ? word(rank, 3, sender) : c_.target_elements / ranks() * sender;
      if (count == 0 || !inside(from, to, count)) continue;
      std::copy_n(inputs_[sender].begin() + static_cast<std::ptrdiff_t>(from * size_),
                  count * size_, out.begin() + static_cast<std::ptrdiff_t>(to * size_));
    }
    return out;
  }

  void check(uint32_t rank) {
    const RankResources& r = members_[rank];
    EXPECT_EQ(machine_.memory(r.chip, r.dst), expected(rank)) << "rank " << rank;
    EXPECT_EQ(machine_.memory(r.chip, r.src), inputs_[rank]) << "rank " << rank;
    EXPECT_EQ(machine_.memory(r.chip, r.weights)[kCompletions], c_.executions);
    std::vector<uint32_t> words = c_.metadata[rank];
    if (!c_.counts_known && c_.kind != OpKind::kReduceScatterV) {
      for (uint32_t sender = 0; sender < ranks(); ++sender) {
        const uint32_t column = c_.kind == OpKind::kAllGatherV ? 0 : rank;
        words[2 * ranks() + sender] = static_cast<uint32_t>(word(sender, 0, column));
      }
    }
    EXPECT_EQ(machine_.memory(r.chip, r.metadata), image(words)) << "rank " << rank;
  }

  Case c_;
  uint64_t size_;
  ReferenceMachine machine_;
  OpRequest request_;
  PlanOptions options_;
  Needs needs_;
  std::vector<RankResources> members_;
  std::vector<Bytes> inputs_;
};

uint32_t draw(Random* random, uint64_t below) {
  return static_cast<uint32_t>(below == 0 ? 0 : (*random)() % below);
}

// Blocks of row 0 anywhere in the source, none in a third of the cases; row 2 holds rubbish.
void fill_senders(Case* c, uint64_t longest, Random* random) {
  const uint32_t n = c->group.ranks();
  c->metadata.assign(n, std::vector<uint32_t>(size_t{rows(*c)} * n, 0xABCD'EF01));
  for (std::vector<uint32_t>& words : c->metadata) {
    for (uint32_t k = 0; k < n; ++k) {
      words[k] = (*random)() % 3 == 0 ? 0 : draw(random, longest + 1);
      words[n + k] = draw(random, c->source_elements - words[k] + 1);
    }
  }
}

// Row 3: the blocks in a random order, with gaps.
void fill_places(Case* c, Random* random) {
  const uint32_t n = c->group.ranks();
  c->places = true;
  for (std::vector<uint32_t>& words : c->metadata) words.resize(size_t{4} * n);
  uint64_t longest = 0;
  for (uint32_t rank = 0; rank < n; ++rank) {
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), *random);
    uint32_t at = 0;
    for (const uint32_t sender : order) {
      at += draw(random, 3);
      c->metadata[rank][3 * n + sender] = at;
      at += c->metadata[sender][c->kind == OpKind::kAllGatherV ? 0 : rank];
    }
    longest = std::max<uint64_t>(longest, at);
  }
  c->target_elements = longest + draw(random, 5);
}

void verify_case(const Case& c) {
  const auto schedule = make_schedule(request_of(c), c.group, {}, "");
  ASSERT_TRUE(schedule) << schedule.error().message();
  const base::Status status = verify(*schedule, c.metadata);
  EXPECT_TRUE(status) << status.error().message();
}

void run(const Case& c, uint32_t out_of_bounds = 0) {
  SCOPED_TRACE(std::string(to_string(c.kind)) + ", " + std::to_string(c.group.ranks()) +
               " ranks, " + std::to_string(c.source_elements) + " to " +
               std::to_string(c.target_elements) + " elements of type " +
               std::to_string(static_cast<int>(c.dtype)) + (c.places ? ", with places" : "") +
               ", seed " + std::to_string(c.seed));
  ASSERT_NO_FATAL_FAILURE(verify_case(c));
  Bench bench(c);
  ASSERT_NO_FATAL_FAILURE(bench.run());
  if (out_of_bounds == 0) {
    EXPECT_EQ(bench.out_of_bounds(), 0u);
  } else {
    EXPECT_GE(bench.out_of_bounds(), out_of_bounds);
  }
}

Case exchange(const Group& group, OpKind kind, uint64_t longest, uint32_t seed) {
  Random random(seed);
  Case c;
  c.group = group;
  c.kind = kind;
  c.seed = seed;
  c.source_elements = longest + random() % 50;
  c.target_elements = longest * group.ranks() + random() % group.ranks();
  c.counts_known = random() % 2 == 0;
  c.cc_count = 1 + draw(&random, 2);
  c.executions = 1 + draw(&random, 3);
  fill_senders(&c, longest, &random);
  if (random() % 2 == 0) fill_places(&c, &random);
  return c;
}

Case reduction(const Group& group, uint64_t longest, uint32_t seed) {
  Random random(seed);
  Case c;
  c.group = group;
  c.kind = OpKind::kReduceScatterV;
  c.seed = seed;
  c.source_elements = longest + random() % 50;
  c.target_elements = longest;
  c.cc_count = 1 + draw(&random, 2);
  c.executions = 1 + draw(&random, 3);
  fill_senders(&c, longest, &random);
  c.metadata.assign(group.ranks(), c.metadata[0]);
  return c;
}

std::vector<Group> groups() {
  return {whole(one_chip(Gen::kV2, 2)), group_of_ranks(torus(Gen::kV2, 2), 0, 8),
          group_of_ranks(torus(Gen::kV3, 4), 0, 5), group_of_ranks(torus(Gen::kV3, 4), 0, 20)};
}

TEST(Variable, RandomCountsAndPlaces) {
  for (const Group& group : groups()) {
    for (const OpKind kind : {OpKind::kAllToAllV, OpKind::kAllGatherV}) {
      for (uint32_t seed = 1; seed <= 8; ++seed) run(exchange(group, kind, seed * seed * 9, seed));
    }
    for (uint32_t seed = 1; seed <= 6; ++seed) run(reduction(group, seed * seed * 9, seed));
  }
}

TEST(Variable, ManyRanks) {
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, 64);
  Case c = exchange(group, OpKind::kAllToAllV, 100, 2);
  c.cc_count = 4;
  c.executions = 1;
  Bench bench(c);
  bench.run();
  run(reduction(group, 300, 4));
}

// Several tiles per block, in several channels.
TEST(Variable, LargeBlocks) {
  for (const uint32_t packet : {64u, 4096u, 65536u}) {
    Case c = exchange(whole(one_chip(Gen::kV2, 2)), OpKind::kAllToAllV, 60'001, 1);
    c.packet_bytes = packet;
    c.metadata[0][1] = 60'001;  // the longest there may be
    c.metadata[0][3] = 0;
    if (c.places) c.target_elements = 3 * 60'001;
    run(c);
  }
  Case sum = reduction(group_of_ranks(torus(Gen::kV2, 2), 0, 4), 700'003, 7);
  sum.metadata.assign(4, {700'003, 1, 0, 65'537, 0, 5, 0, 40});
  run(sum);
}

TEST(Variable, EveryType) {
  for (int code = 1; code <= 0xF; ++code) {
    Case c = exchange(whole(one_chip(Gen::kV2, 2)), OpKind::kAllToAllV, 77, 5);
    c.dtype = static_cast<DType>(code);
    run(c);
    Case sum = reduction(whole(one_chip(Gen::kV2, 2)), 77, 5);
    sum.dtype = static_cast<DType>(code);
    for (const ReduceOp op : {ReduceOp::kAdd, ReduceOp::kMax, ReduceOp::kMin}) {
      sum.op = op;
      run(sum);
    }
  }
}

TEST(Variable, NothingToSend) {
  for (const OpKind kind : {OpKind::kAllToAllV, OpKind::kAllGatherV, OpKind::kReduceScatterV}) {
    Case c;
    c.group = group_of_ranks(torus(Gen::kV3, 4), 0, 4);
    c.kind = kind;
    c.source_elements = 10;
    c.target_elements = 40;
    // Without elements a block is nowhere, wherever its displacement points.
    c.metadata.assign(4, std::vector<uint32_t>(size_t{rows(c)} * 4, 0xFFFF'FFFF));
    for (auto& words : c.metadata) std::fill_n(words.begin(), 4, 0);
    run(c);
    c.source_elements = c.target_elements = 0;
    run(c);
  }
}

// Illegal blocks move nothing and are reported; the others arrive, and nobody waits for ever.
TEST(Variable, OutOfBounds) {
  const Group group = group_of_ranks(torus(Gen::kV3, 4), 0, 4);
  for (const OpKind kind : {OpKind::kAllToAllV, OpKind::kAllGatherV}) {
    Case c = exchange(group, kind, 50, 3);
    c.metadata[1][kind == OpKind::kAllGatherV ? 0 : 2] =
        static_cast<uint32_t>(c.source_elements + 1);
    run(c, 1);
  }
  Case sum = reduction(group, 50, 3);
  for (auto& words : sum.metadata) words[4 + 2] = 0xFFFF'FFFF, words[2] = 1;
  run(sum, 1);
}

TEST(Variable, RubbishHarmsNobody) {
  for (const OpKind kind : {OpKind::kAllToAllV, OpKind::kAllGatherV, OpKind::kReduceScatterV}) {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      Random random(seed);
      Case c;
      c.group = group_of_ranks(torus(Gen::kV2, 2), 0, 4);
      c.kind = kind;
      c.source_elements = 20 + draw(&random, 100);
      c.target_elements = 20 + draw(&random, 100);
      c.places = kind != OpKind::kReduceScatterV && seed % 2 == 0;
      c.metadata.assign(4, std::vector<uint32_t>(size_t{rows(c)} * 4));
      for (auto& words : c.metadata) {
        for (uint32_t& w : words) w = static_cast<uint32_t>(random());
      }
      // Memory outside the declared tensors would fail the machine.
      Bench bench(c);
      ASSERT_NO_FATAL_FAILURE(bench.run());
    }
  }
}

TEST(Variable, VerifierFindsWhatIsWrong) {
  const Case c = exchange(group_of_ranks(torus(Gen::kV3, 4), 0, 4), OpKind::kAllToAllV, 50, 3);
  const auto schedule = make_schedule(request_of(c), c.group, {}, "");
  ASSERT_TRUE(schedule);
  ASSERT_TRUE(verify(*schedule, c.metadata));
  const auto bent = [&](const std::function<void(Step*)>& bend) {
    Schedule out = *schedule;
    out.steps = [&, bend](uint32_t rank) {
      Steps steps = schedule->steps(rank);
      for (Step& step : steps) bend(&step);
      return steps;
    };
    return static_cast<bool>(verify(out, c.metadata));
  };
  EXPECT_TRUE(bent([](Step*) {}));
  EXPECT_FALSE(bent([](Step* s) {
    if (s->variable) s->variable->source.reset();
  }));
  EXPECT_FALSE(bent([](Step* s) {
    if (s->variable) s->destinations[0].offset += 4;
  }));
  EXPECT_FALSE(bent([](Step* s) { s->waits.clear(); }));
}

TEST(Variable, SharedMemoryIsRefused) {
  const Case c = exchange(whole(one_chip(Gen::kV2, 2)), OpKind::kAllToAllV, 10, 1);
  EXPECT_FALSE(needs(request_of(c), c.group, true, 1, {}));
  const auto planned = [&](const std::function<void(RankResources*)>& bend) {
    Bench bench(c);
    bench.place_all();
    bend(&bench.members()[1]);
    const auto lowered = bench.plan_rank(0);
    return lowered ? std::string() : lowered.error().what;
  };
  EXPECT_EQ(planned([](RankResources*) {}), "");
  EXPECT_EQ(planned([](RankResources* r) { r->dst = r->src; }),
            "all_to_all_v: source and destination of rank 1 overlap");
  EXPECT_EQ(planned([](RankResources* r) { r->metadata = r->dst + 4; }),
            "all_to_all_v: the metadata of rank 1 overlaps its source or destination");
}

}  // namespace
}  // namespace ccl
