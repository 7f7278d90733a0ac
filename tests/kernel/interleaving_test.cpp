// That the waits suffice: random kernels are executed one call after the other, and then with
// engines, DMA queues and streams of collectives that go on in random order and at very different
// speeds, held back by nothing but semaphores. Both must leave the same bytes in every memory, and
// clean semaphores.
//
// What an instruction computes does not matter here: its result is a hash of what it reads.
#include <array>
#include <deque>
#include <map>
#include <random>

#include "arch/contract/semaphore.h"
#include "tests/kernel/built_kernel.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): names of the builder
using isa::Opcode;
using kernel::Location;

constexpr int64_t kPitch = 0x40000;
constexpr size_t kBytes = 1024;  // of a partition that the kernels use

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }

 private:
  std::mt19937 engine_;
};

// All memories of a core, as words.
class Memory {
 public:
  explicit Memory(const neff::Subgraph& graph) : sbuf_(isa::kPartitions * kBytes / 4) {
    for (const neff::Variable& v : graph.variables) {
      hbm_.emplace_back(v.type == neff::VariableType::kStateBuffer ? 0 : v.size / 4);
    }
    uint32_t seed = 1;
    for (auto& tensor : hbm_) {
      for (uint32_t& word : tensor) word = seed = seed * 1664525 + 1013904223;
    }
  }
  uint32_t& on_chip(int64_t partition, int64_t byte) {
    return sbuf_.at(static_cast<size_t>(partition) * kBytes / 4 + static_cast<size_t>(byte) / 4);
  }
  uint32_t& word(const neff::Subgraph& graph, uint32_t variable, int64_t byte) {
    if (graph.variables[variable].type == neff::VariableType::kStateBuffer) {
      return on_chip(byte / kPitch, byte % kPitch);
    }
    return hbm_[variable].at(static_cast<size_t>(byte) / 4);
  }
  bool operator==(const Memory& o) const { return sbuf_ == o.sbuf_ && hbm_ == o.hbm_; }

 private:
  std::vector<uint32_t> sbuf_;
  std::vector<std::vector<uint32_t>> hbm_;
};

std::vector<int64_t> words_of(const isa::TensorOperand& t) {
  std::vector<int64_t> out{t.byte_offset};
  for (size_t d = 4; d > 0; --d) {
    const isa::PatternDim& dim = t.dims[d - 1];
    std::vector<int64_t> more;
    for (const int64_t at : out) {
      for (int64_t i = 0; i < std::max<int64_t>(dim.count, 1); ++i)
        more.push_back(at + 4 * i * dim.step);
    }
    out = more;
  }
  return out;
}

std::vector<int64_t> words_of(const neff::AccessPattern& p) {
  std::vector<int64_t> out{p.offset};
  for (size_t d = p.dims; d > 0; --d) {
    const int64_t unit = d == 1 ? 4 : 1;
    std::vector<int64_t> more;
    for (const int64_t at : out) {
      for (int64_t i = 0; i < p.sizes[d - 1] / unit; ++i)
        more.push_back(at + i * p.steps[d - 1] * unit);
    }
    out = more;
  }
  return out;
}

// What an instruction writes, from what it reads now.
struct Result {
  std::vector<std::pair<uint32_t*, uint32_t>> words;
};

Result compute(const isa::Instruction& in, Memory* memory) {
  Result result;
  const isa::TensorUses uses = isa::tensors_of(in);
  std::vector<std::vector<int64_t>> words;
  for (const isa::TensorUse& use : uses) words.push_back(words_of(*use.tensor));
  for (unsigned w = 0; w < uses.count; ++w) {
    const isa::TensorUse& dst = uses.uses[w];
    if (dst.access == isa::Access::kRead) continue;
    for (int64_t p = 0; p < dst.partitions; ++p) {
      for (size_t i = 0; i < words[w].size(); ++i) {
        uint32_t hash = static_cast<uint32_t>(in.debug_id) * 2654435761u + w;
        for (unsigned u = 0; u < uses.count; ++u) {
          if (uses.uses[u].access == isa::Access::kWrite) continue;
          const isa::TensorOperand& src = *uses.uses[u].tensor;
          const int64_t from = words[u][i % words[u].size()];
          hash = (hash ^ memory->on_chip(src.start_partition + p, from)) * 16777619u + u;
        }
        result.words.push_back(
            {&memory->on_chip(dst.tensor->start_partition + p, words[w][i]), hash});
      }
    }
  }
  return result;
}

void store(const Result& result) {
  for (const auto& [to, value] : result.words) *to = value;
}

struct WordCopy {
  uint32_t* from;
  uint32_t* to;
};

std::vector<WordCopy> words_of(const neff::DmaElement& e, const neff::Subgraph& graph,
                               Memory* memory) {
  std::vector<WordCopy> out;
  for (const neff::DmaTransfer& t : e.transfers) {
    const std::vector<int64_t> from = words_of(t.sources[0].pattern);
    const std::vector<int64_t> to = words_of(t.destination.pattern);
    for (size_t i = 0; i < from.size(); ++i) {
      out.push_back({&memory->word(graph, t.sources[0].variable, from[i]),
                     &memory->word(graph, t.destination.variable, to[i])});
    }
  }
  return out;
}

// As on a rank whose peers have nothing to add.
std::vector<WordCopy> words_of(const isa::PseudoTriggerCollective2& c, const neff::Subgraph& graph,
                               Memory* memory) {
  const auto index = [&](uint32_t id) {
    return static_cast<uint32_t>(graph.find_variable(id) - graph.variables.data());
  };
  const auto from = static_cast<int64_t>(c.src0_var_offset);
  const auto to = static_cast<int64_t>(c.dst_var_offset);
  std::vector<WordCopy> out;
  for (int64_t i = 0; i < int64_t{4} * c.src0_pattern.count[0]; i += 4) {
    out.push_back({&memory->word(graph, index(c.src0_var_id), from + i),
                   &memory->word(graph, index(c.dst_var_id), to + i)});
  }
  return out;
}

bool computes(const isa::Instruction& in) {
  return isa::tensors_of(in).count > 0;
}

// One after the other, in the order of the calls.
void run_in_order(const neff::Subgraph& graph, Memory* memory) {
  std::map<uint64_t, std::pair<const neff::EngineProgram*, const neff::ProgramStep*>> calls;
  for (const neff::EngineProgram& p : graph.programs) {
    for (const neff::ProgramStep& s : p.steps) {
      if (computes(s.instruction) || s.instruction.opcode == Opcode::kPseudoDmaTrigger ||
          s.instruction.opcode == Opcode::kPseudoTriggerCollective2) {
        calls[s.instruction.debug_id] = {&p, &s};
      }
    }
  }
  for (const auto& [id, call] : calls) {
    const auto& [program, step] = call;
    if (computes(step->instruction)) {
      store(compute(step->instruction, memory));
      continue;
    }
    const isa::Instruction& in = step->instruction;
    const std::vector<WordCopy> words =
        in.opcode == Opcode::kPseudoTriggerCollective2
            ? words_of(in.operands.pseudo_trigger_collective_2, graph, memory)
            : words_of(program->dma[program->triggered_block(*step)->elements[0]], graph, memory);
    for (const WordCopy& w : words) *w.to = *w.from;
  }
}

// Engines and queues at random.
class Core {
 public:
  Core(const neff::Subgraph& graph, Memory* memory, uint32_t seed, bool waits)
      : graph_(graph), memory_(*memory), random_(seed), waits_(waits) {
    for (const neff::EngineProgram& p : graph.programs) engines_.push_back({&p, 0, {}, {}});
    queues_.resize(graph.queues.size() * 16 + neff::kMaxStreams);
    for (size_t i = 0; i < engines_.size() * 2 + queues_.size(); ++i) {
      weights_.push_back(random_.pick(0, 3) == 0 ? 1 : random_.pick(1, 60));
    }
  }

  // False if all stand still before the end.
  bool run() {
    std::discrete_distribution<size_t> choose(weights_.begin(), weights_.end());
    std::mt19937 engine(static_cast<uint32_t>(random_.pick(0, 1 << 30)));
    while (!ended()) {
      bool moved = false;
      for (int i = 0; i < 200 && !moved; ++i) moved = step(choose(engine));
      for (size_t i = 0; i < weights_.size() && !moved; ++i) moved = step(i);
      if (!moved) return false;
    }
    return true;
  }
  bool clean() const {
    return std::all_of(semaphores_.begin(), semaphores_.end(), [](uint32_t s) { return s == 0; });
  }

 private:
  struct Engine {
    const neff::EngineProgram* program;
    size_t at;
    const isa::Instruction* running;  // it has begun, and not read yet
    std::optional<Result> results;    // it has read, and not written yet
  };
  struct Job {
    std::vector<WordCopy> words;
    size_t done;
    std::optional<uint32_t> value;  // read and not yet written
    uint8_t semaphore;
  };

  bool ended() const {
    return std::all_of(engines_.begin(), engines_.end(),
                       [](const Engine& e) { return e.at == e.program->steps.size(); });
  }

  bool step(size_t actor) {
    if (actor < engines_.size()) return issue(&engines_[actor]);
    actor -= engines_.size();
    if (actor < engines_.size()) return go_on(&engines_[actor]);
    return move(&queues_[actor - engines_.size()]);
  }

  void update(const isa::Update& u) {
    if (u.op == isa::UpdateOp::kInc) ++semaphores_[u.id];
  }

  // Control instructions overtake the one that computes; that one is alone in its engine.
  bool issue(Engine* e) {
    if (e->at == e->program->steps.size()) return false;
    const neff::ProgramStep& step = e->program->steps[e->at];
    const isa::Instruction& in = step.instruction;
    const isa::Wait& w = in.wait;
    const bool must = waits_ || in.opcode == Opcode::kEventSemaphoreRangeClear;
    if (must && !contract::meets(w.cond, semaphores_[w.id], w.value)) return false;
    const bool busy = e->running != nullptr || e->results.has_value();
    const bool in_turn = computes(in) || in.opcode == Opcode::kDrain || in.opcode == Opcode::kHalt;
    if (busy && in_turn) return false;
    ++e->at;
    if (computes(in)) {
      e->running = &in;
      return true;
    }
    if (in.opcode == Opcode::kPseudoDmaTrigger) trigger(*e->program, step);
    if (in.opcode == Opcode::kPseudoTriggerCollective2) {
      const auto& c = in.operands.pseudo_trigger_collective_2;
      queues_[graph_.queues.size() * 16 + c.stream_id].push_back(
          {words_of(c, graph_, &memory_), 0, std::nullopt, in.complete_update.id});
      return true;
    }
    if (in.opcode == Opcode::kEventSemaphoreRangeClear) {
      const auto& c = in.operands.event_semaphore_range_clear;
      std::fill(semaphores_.begin() + c.first, semaphores_.begin() + c.last + 1, 0);
    }
    update(in.complete_update);
    return true;
  }

  bool go_on(Engine* e) {
    if (e->running != nullptr && !e->results) {
      e->results = compute(*e->running, &memory_);
      return true;
    }
    if (!e->results) return false;
    store(*e->results);
    e->results.reset();
    update(e->running->complete_update);
    e->running = nullptr;
    return true;
  }

  void trigger(const neff::EngineProgram& program, const neff::ProgramStep& step) {
    const neff::DmaBlock* block = program.triggered_block(step);
    const neff::DmaElement& element = program.dma[block->elements[0]];
    const std::vector<WordCopy> words = words_of(element, graph_, &memory_);
    std::array<Job, 16> jobs{};
    for (const WordCopy& w : words)
      jobs[static_cast<size_t>(random_.pick(0, 15))].words.push_back(w);
    for (size_t q = 0; q < 16; ++q) {
      jobs[q].semaphore = *element.semaphore;
      queues_[block->queue * 16 + q].push_back(std::move(jobs[q]));
    }
  }

  bool move(std::deque<Job>* queue) {
    if (queue->empty()) return false;
    Job& job = queue->front();
    if (job.value) {
      *job.words[job.done++].to = *job.value;
      job.value.reset();
    } else if (job.done < job.words.size()) {
      job.value = *job.words[job.done].from;
    } else {
      ++semaphores_[job.semaphore];
      queue->pop_front();
    }
    return true;
  }

  const neff::Subgraph& graph_;
  Memory& memory_;
  Random random_;
  bool waits_;
  std::vector<Engine> engines_;
  std::vector<std::deque<Job>> queues_;
  std::vector<int64_t> weights_;
  std::array<uint32_t, 256> semaphores_{};
};

// Calls over a few tiles and tensors that overlap often. From a tensor to itself: in place.
void random_calls(Kernel* k, Random* random, int calls) {
  const std::vector<View> hbm = {k->input("a", kF32, {8, 16}), k->output("c", kF32, {8, 16}),
                                 k->scratch("s", kF32, {8, 16}), k->scratch("t", kF32, {8, 16})};
  const kernel::Ring ring = k->ring(2, {8, 16}, kF32, "ring");
  const Tile x = k->sbuf({8, 16}, kF32, "x");
  const Tile y = k->sbuf({8, 16}, kF32, "y", 32);
  const Tile z = k->sbuf({8, 16}, kF32, "z");
  const std::vector<View> tiles = {ring[0], ring[1], x, y, z};
  for (int i = 1; i <= calls; ++i) {
    const Location at{"random", i};
    const int64_t rows = random->pick(1, 8);
    const int64_t step = random->pick(1, 2);
    const int64_t columns = random->pick(1, 8);
    const auto part = [&](const View& v, bool any_row) {
      const int64_t room = 16 - (columns - 1) * step;
      const int64_t row = any_row ? random->pick(0, 8 - rows) : 0;
      return v.slice(0, row, rows).slice(1, random->pick(0, room - 1), columns, step);
    };
    const auto tile = [&] { return part(tiles[static_cast<size_t>(random->pick(0, 4))], false); };
    const auto tensor = [&](int64_t first) {
      return part(hbm[static_cast<size_t>(random->pick(first, 3))], true);
    };
    const auto engine = [&] { return static_cast<Engine>(random->pick(0, 4)); };
    const auto compute = random->pick(0, 1) == 0 ? Engine::kVector : Engine::kGpSimd;
    switch (random->pick(0, 11)) {
      case 0:
        k->load(tile(), tensor(0), engine(), at);
        break;
      case 1:
        k->store(tensor(1), tile(), engine(), at);
        break;
      case 2:
        // A transfer whose sides overlap has no defined result (spec/neff.md 3.4).
        k->dma_copy(part(x, false), part(ring[static_cast<size_t>(i)], false), engine(), at);
        break;
      case 3:
        k->activation(tile(), tile(), {}, at);
        break;
      case 4:
        k->tensor_copy(tile(), tile(), compute, at);
        break;
      case 8: {
        const int64_t from = random->pick(0, 3);
        const int64_t to = random->pick(1, 3);
        const unsigned stream = random->pick(0, 1) == 0 ? 0 : 1;
        const auto whole = [&](int64_t i) {
          return hbm[static_cast<size_t>(i)].slice(0, from == to ? 0 : random->pick(0, 8 - rows),
                                                   rows);
        };
        k->all_reduce(whole(to), whole(from), Op::kAdd, kernel::Group::all(2),
                      {stream, stream == 0 ? Engine::kGpSimd : Engine::kSync}, at);
        break;
      }
      case 5:
        k->memset(tile(), 1, compute, at);
        break;
      case 9: {
        // Writes what it replaces, and the places of it.
        const auto eight = [&](DType dtype) {
          const View& v = tiles[static_cast<size_t>(random->pick(0, 4))];
          return v.slice(0, 0, rows).slice(1, random->pick(0, 8), 8).as(dtype);
        };
        k->match_replace8(tile(), tile(), eight(kF32), 0, eight(DType::kUint32), at);
        break;
      }
      case 10:
        k->copy_predicated(tile(), tile(), tile().as(DType::kUint32), false, at);
        break;
      case 11:
        k->tensor_tensor_scan(tile(), tile(), tile(), tile().slice(1, 0, 1), Op::kAdd, Op::kMax,
                              false, false, at);
        break;
      default:
        k->tensor_tensor(tile(), tile(), tile(), Op::kAdd, compute, at);
    }
  }
}

Built random_kernel(uint32_t seed, int calls) {
  Random random(seed);
  Kernel k({"random"});
  random_calls(&k, &random, calls);
  return build(k);
}

TEST(Interleaving, WaitsSuffice) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    const Built built = random_kernel(seed, 120);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    Memory expected(built.graph());
    run_in_order(built.graph(), &expected);
    for (uint32_t order = 1; order <= 5; ++order) {
      Memory memory(built.graph());
      Core core(built.graph(), &memory, seed * 100 + order, true);
      ASSERT_TRUE(core.run()) << "kernel " << seed << " stands still in order " << order;
      ASSERT_TRUE(memory == expected) << "kernel " << seed << ", order " << order;
      ASSERT_TRUE(core.clean()) << "kernel " << seed << ", order " << order;
    }
  }
}

// The test sees what it is for.
TEST(Interleaving, WithoutWaitsTheResultsDiffer) {
  int different = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Built built = random_kernel(seed, 120);
    Memory expected(built.graph());
    run_in_order(built.graph(), &expected);
    Memory memory(built.graph());
    Core core(built.graph(), &memory, seed, false);
    core.run();
    if (!(memory == expected)) ++different;
  }
  EXPECT_EQ(different, 20);
}

// Without one of its waits a kernel goes wrong in some order, unless what would be wrong is never
// looked at.
TEST(Interleaving, MostWaitsAreNeeded) {
  int waits = 0;
  int needed = 0;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const Built built = random_kernel(seed, 24);
    Memory expected(built.graph());
    run_in_order(built.graph(), &expected);
    neff::Subgraph graph = built.graph();
    for (neff::EngineProgram& p : graph.programs) {
      for (neff::ProgramStep& s : p.steps) {
        const bool last = s.instruction.opcode == Opcode::kEventSemaphoreRangeClear;
        if (s.instruction.wait.cond == isa::WaitCond::kNone || last) continue;
        const isa::Wait wait = s.instruction.wait;
        s.instruction.wait = {};
        ++waits;
        for (uint32_t order = 1; order <= 40; ++order) {
          Memory memory(graph);
          Core core(graph, &memory, order, true);
          if (core.run() && memory == expected && core.clean()) continue;
          ++needed;
          break;
        }
        s.instruction.wait = wait;
      }
    }
  }
  EXPECT_GT(waits, 30);
  EXPECT_GE(needed * 2, waits) << needed << " of " << waits;
}

}  // namespace
