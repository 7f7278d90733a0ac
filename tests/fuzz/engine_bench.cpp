#include "tests/fuzz/engine_bench.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/isa_checks.h"
#include "tests/fuzz/finding.h"

namespace fuzz {

namespace isa = contract::isa;
namespace reg = contract::engine;
using contract::Engine;
using contract::EngineStatus;

namespace {

constexpr uint64_t kFirstRing = hw_test::NcBench::kRing;
constexpr uint64_t kRingBytes = 1024;
constexpr uint64_t kEndOfRings = kFirstRing + kRingBytes * contract::kEnginesPerNc;

constexpr base::Ps kMaxTime = base::us(5000);
constexpr uint64_t kMaxEvents = 20'000;
// Bytes of operands, and multiplications of the Tensor engine, before the last instruction.
constexpr uint64_t kMaxWork = 48ull << 20;
constexpr uint32_t kPresetBytes = 1024;  // bytes of each partition that is not zero at first
constexpr uint32_t kFirstLanes = 8;      // of a quadrant; the others take their time

template <typename Each>
void each_preset(Each&& each) {
  for (uint32_t p = 0; p < isa::kPartitions; ++p) {
    if (p % isa::kQuadrant < kFirstLanes) each(p);
  }
}

}  // namespace

uint8_t* NotedPages::direct(uint64_t phys, uint64_t length) {
  if (!inside(phys, length)) return nullptr;
  const bool rings = phys < kEndOfRings && phys + length > kFirstRing;
  return rings ? nullptr : bytes_.data() + phys;
}

bool NotedPages::read(uint64_t phys, base::ByteSpan to) {
  if (!inside(phys, to.size())) return false;
  std::memcpy(to.data(), bytes_.data() + phys, to.size());
  return true;
}

bool NotedPages::write(uint64_t phys, base::ConstByteSpan from) {
  if (!inside(phys, from.size())) return false;
  std::memcpy(bytes_.data() + phys, from.data(), from.size());
  if (phys >= kEndOfRings || phys + from.size() <= kFirstRing) return true;
  contract::NqEntry entry;
  if (from.size() != sizeof entry) {
    disturbed_ = true;
    return true;
  }
  entry = base::load<contract::NqEntry>(from.data());
  if (entry.type() == contract::NqType::kError) errors_.push_back(entry);
  return true;
}

bool NotedPages::posted(uint32_t engine, uint32_t code, uint32_t pc, uint32_t info) const {
  return std::any_of(errors_.begin(), errors_.end(), [&](const contract::NqEntry& e) {
    return e.source() == engine && e.payload == code && e.pc == pc && e.info == info;
  });
}

bool EngineBench::Outcome::Engine::operator==(const Engine& o) const {
  return status == o.status && pc == o.pc && code == o.code && error_pc == o.error_pc &&
         info == o.info && registers == o.registers && stuck == o.stuck;
}

bool EngineBench::Outcome::operator==(const Outcome& o) const {
  return engines == o.engines && semaphores == o.semaphores && now == o.now && memory == o.memory &&
         at_rest == o.at_rest;
}

EngineBench::EngineBench(contract::Gen gen, const Options& options, hw::check::Checker* checker)
    : DgeBench(gen, options.ring, checker) {
  fabric.set_host(&pages_);
  if (!options.table.empty()) {
    std::memcpy(bytes(hw_test::transfers::kTable, options.table.size()), options.table.data(),
                options.table.size());
  }
  for (uint32_t e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    put(engine, reg::kRounding, options.stochastic ? 1 : 0);
    put(engine, reg::kTraceMask, options.trace ? 1 : 0);
    for (uint32_t r = 0; options.preset && r < isa::kRegisters; ++r) {
      put(engine, reg::kRegister + r * reg::kRegisterStride, r % 2 == 0 ? 4 * r : r % 7);
    }
  }
  each_preset([&](uint32_t p) {
    uint8_t* at = sbuf<uint8_t>(p, 0);
    for (uint32_t i = 0; i < kPresetBytes; ++i) at[i] = pattern(p + i);
  });
}

uint64_t EngineBench::work() {
  uint64_t sum = 0;
  for (uint32_t e = 0; e < kEngines; ++e) {
    const hw::EngineStats& s = group.core(0).engine(e).stats();
    sum += s.sbuf_read + s.sbuf_written + s.psum_read + s.psum_written;
    for (const uint64_t n : s.multiplications) sum += n;
  }
  return sum + counters.bytes;
}

// False if there was too much to do.
bool EngineBench::step_until(base::Ps time) {
  const uint64_t last = queue.executed() + kMaxEvents;
  const uint64_t most = work() + kMaxWork;
  while (!queue.empty() && queue.next_time() <= time) {
    if (queue.executed() >= last || work() >= most) return false;
    queue.run_until(queue.next_time());
  }
  return true;
}

uint64_t EngineBench::digest() {
  uint64_t sum = 0xCBF2'9CE4'8422'2325;
  const auto add = [&](const uint8_t* at) {
    for (uint32_t i = 0; i < kPresetBytes; i += 8) {
      sum = (sum ^ base::load<uint64_t>(at + i)) * 0x100'0000'01B3;
    }
  };
  each_preset([&](uint32_t p) {
    add(sbuf<uint8_t>(p, 0));
    add(psum<uint8_t>(p, 0));
  });
  return sum;
}

EngineBench::Outcome EngineBench::run(const Programs& programs) {
  for (uint32_t e = 0; e < kEngines; ++e) {
    if (!programs[e].empty()) load_bytes(static_cast<Engine>(e), programs[e]);
  }
  for (uint32_t e = 0; e < kEngines; ++e) {
    if (!programs[e].empty()) start(static_cast<Engine>(e));
  }
  const bool done = step_until(kMaxTime);
  Outcome out;
  out.at_rest = done && queue.empty();
  out.now = queue.now();
  for (uint32_t e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    Outcome::Engine& o = out.engines[e];
    o = {get(engine, reg::kStatus),
         get(engine, reg::kPc),
         get(engine, reg::kErrorCode),
         get(engine, reg::kErrorPc),
         get(engine, reg::kErrorInfo),
         {},
         false};
    for (uint32_t r = 0; r < isa::kRegisters; ++r) {
      o.registers[r] = get(engine, reg::kRegister + r * reg::kRegisterStride);
    }
    o.stuck = !group.core(0).engine(e).stuck().empty();
  }
  for (uint32_t s = 0; s < out.semaphores.size(); ++s) out.semaphores[s] = semaphore(s);
  out.memory = digest();
  return out;
}

void EngineBench::check_reset() {
  dma.reset();
  group.core(0).reset();
  if (!step_until(queue.now() + kMaxTime) || !queue.empty()) {
    found("no rest after a reset");
  }
  for (uint32_t e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    if (status(engine) != EngineStatus::kIdle) found("a reset that leaves an engine at work");
    load(engine, {hw_test::move(1, 7), hw_test::op(isa::Opcode::kHalt)});
    start(engine);
  }
  if (!step_until(queue.now() + kMaxTime) || !queue.empty()) found("no end of a good program");
  for (uint32_t e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    if (status(engine) != EngineStatus::kHalted ||
        get(engine, reg::kRegister + reg::kRegisterStride) != 7) {
      found("a good program fails after a reset");
    }
  }
}

}  // namespace fuzz
