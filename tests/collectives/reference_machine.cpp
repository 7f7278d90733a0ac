#include "tests/collectives/reference_machine.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "arch/contract/notification.h"
#include "base/span.h"
#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"

namespace ccl {
namespace {

using contract::Descriptor;
using contract::DType;
using contract::cc_program::Block;
using contract::cc_program::Op;
using contract::cc_program::Record;
namespace desc = contract::desc;

constexpr uint32_t kWord = 4;  // a signal

}  // namespace

void ReferenceMachine::fail(const std::string& what) {
  if (error.empty()) error = what;
}

void ReferenceMachine::add_memory(uint32_t chip, uint64_t address, std::vector<uint8_t> bytes) {
  memory_[{chip, address}] = std::move(bytes);
}

std::vector<uint8_t>& ReferenceMachine::memory(uint32_t chip, uint64_t address) {
  return memory_.at({chip, address});
}

uint32_t ReferenceMachine::semaphore(uint32_t chip, uint64_t window, uint32_t index) const {
  const auto it = semaphores_.find({chip, window, index});
  return it == semaphores_.end() ? 0 : it->second;
}

bool ReferenceMachine::all_semaphores_zero() const {
  return std::all_of(semaphores_.begin(), semaphores_.end(),
                     [](const auto& s) { return s.second == 0; });
}

void ReferenceMachine::load(const RankResources& r, const Lowered& lowered, uint32_t executions,
                            const std::array<uint32_t, kMaxCcCores>& triggers) {
  const auto repeat = [](const std::vector<Descriptor>& ring) {
    std::vector<Descriptor> out;
    for (uint32_t i = 0; i < ring_copies(ring.size()); ++i) {
      out.insert(out.end(), ring.begin(), ring.end());
    }
    if (out.size() % 16 != 0 || (!out.empty() && out.size() < 32)) out.clear();
    return out;
  };
  const uint64_t queue = contract::udma::kM2sQ + r.queue * contract::udma::kM2sQStride;
  for (const EngineRing& ring : lowered.rings) {
    Queue q;
    q.chip = r.chip;
    q.m2s = repeat(ring.m2s);
    q.s2m = repeat(ring.s2m);
    queues_[{r.chip, r.udma(ring.engine) + queue}] = q;
    const uint64_t all = r.broadcast(ring.engine / contract::kDmaPerNc) + queue;
    broadcast_[{r.chip, all}].push_back(r.udma(ring.engine) + queue);
  }
  for (const BlockRing& ring : lowered.block_rings) {
    Queue q;
    q.chip = r.chip;
    q.room = ring;
    queues_[{r.chip, r.udma(ring.engine) + contract::udma::kM2sQ +
                         r.block_queue * contract::udma::kM2sQStride}] = q;
  }
  const auto* image = reinterpret_cast<const uint8_t*>(lowered.blocks.data());
  if (!lowered.blocks.empty()) {
    add_memory(r.chip, r.blocks, {image, image + lowered.blocks.size() * sizeof(Block)});
  }
  for (uint32_t slot = 0; slot < lowered.programs.size(); ++slot) {
    Core core;
    core.resources = r;
    core.slot = slot;
    core.program = lowered.programs[slot];
    core.trigger = triggers[slot];
    core.remaining = slot == 0 ? executions : 0;
    cores_.push_back(core);
  }
}

uint8_t* ReferenceMachine::at(uint32_t chip, uint64_t address, uint64_t bytes) {
  if (map_.is_peer(address)) {
    chip = map_.peer_chip(address);
    address = map_.peer_local(address);
  }
  auto it = memory_.upper_bound({chip, address});
  if (it == memory_.begin()) {
    fail("access below all memory");
    return nullptr;
  }
  --it;
  const uint64_t offset = address - it->first.second;
  if (it->first.first != chip || offset > it->second.size() || bytes > it->second.size() - offset) {
    fail("access outside declared memory at " + std::to_string(address));
    return nullptr;
  }
  return it->second.data() + offset;
}

bool ReferenceMachine::is_signal(uint32_t chip, uint64_t address) const {
  if (map_.is_peer(address)) {
    chip = map_.peer_chip(address);
    address = map_.peer_local(address);
  }
  return std::any_of(cores_.begin(), cores_.end(), [&](const Core& core) {
    return core.resources.chip == chip && address >= core.window() &&
           address < core.window() + contract::kSemaphoreBlock;
  });
}

void ReferenceMachine::write_word(uint32_t chip, uint64_t address, uint32_t value) {
  if (map_.is_peer(address)) {
    chip = map_.peer_chip(address);
    address = map_.peer_local(address);
  }
  for (Core& core : cores_) {
    if (core.resources.chip != chip || address < core.window()) continue;
    const uint64_t offset = address - core.window();
    if (offset == contract::cc::kTrigger) {
      if (value != core.trigger) fail("a CC-core is triggered with another word");
      ++core.remaining;
      return;
    }
    if (offset < contract::sem::kInc || offset >= contract::sem::kDec) continue;
    const auto index = static_cast<uint32_t>((offset - contract::sem::kInc) / 4);
    semaphores_[{chip, core.window(), index}] += value;
    return;
  }
  uint8_t* to = at(chip, address, 4);
  if (to != nullptr) base::store(to, base::load<uint32_t>(to) + value);
}

void ReferenceMachine::doorbell(uint32_t chip, uint64_t address, uint32_t value) {
  std::vector<uint64_t> targets{address};
  const auto group = broadcast_.find({chip, address});
  if (group != broadcast_.end()) {
    targets = group->second;
    if (targets.size() != contract::kDmaPerNc) fail("broadcast to engines without descriptors");
  }
  if (value == 0) fail("doorbell of zero descriptors");
  for (const uint64_t target : targets) {
    const auto it = queues_.find({chip, target});
    if (it == queues_.end()) return fail("doorbell of an unknown queue");
    Queue& q = it->second;
    q.s2m_tail += value >> 16;
    q.m2s_tail += value & 0xFFFF;
    if (q.m2s_tail - q.m2s_head > q.m2s.size() || q.s2m_tail - q.s2m_head > q.s2m.size()) {
      fail("ring overrun");
    }
    fetch(&q);
  }
}

void ReferenceMachine::fetch(Queue* q) {
  while (q->m2s_head < q->m2s_tail && fetch_one(q)) {
  }
}

// The next packet; false if a part of it is not there yet.
bool ReferenceMachine::fetch_one(Queue* q) {
  const auto refuse = [&](const char* what) {
    fail(what);
    return false;
  };
  Packet packet;
  uint64_t head = q->m2s_head;
  Descriptor d = q->m2s[head++ % q->m2s.size()];
  if ((d.w0 & desc::kFirst) == 0) return refuse("a packet without FIRST");
  packet.dmb = (d.w0 & desc::kDmb) != 0;
  if ((d.w0 & desc::kMeta) != 0) {
    packet.compute = true;
    packet.op = contract::DmaCompute::unpack(d);
    if (desc::operation(d.w1) != 3) return refuse("metadata without the compute operation");
    if (head == q->m2s_tail) return false;
    d = q->m2s[head++ % q->m2s.size()];
  }
  packet.sources.push_back(d);
  uint64_t total = desc::length(d.w0);
  while ((d.w0 & desc::kLast) == 0) {
    if (head == q->m2s_tail) return false;
    d = q->m2s[head++ % q->m2s.size()];
    if ((d.w0 & desc::kFirst) != 0) return refuse("FIRST inside a packet");
    packet.sources.push_back(d);
    total += desc::length(d.w0);
  }
  if (q->s2m_tail == q->s2m_head) return false;
  packet.signal = is_signal(q->chip, q->s2m[q->s2m_head % q->s2m.size()].address);
  // Signals: the words of one source.
  const uint32_t copies = packet.compute  ? packet.op.copies
                          : packet.signal ? static_cast<uint32_t>(total / kWord)
                                          : 1;
  if (q->s2m_tail - q->s2m_head < copies) return false;
  q->m2s_head = head;
  for (uint32_t i = 0; i < copies; ++i) {
    packet.destinations.push_back(q->s2m[q->s2m_head++ % q->s2m.size()]);
  }
  if (packet.signal) {
    check_signal(*q, packet);
    q->pending.push_back(packet);
    return error.empty();
  }
  const uint32_t length = desc::length(packet.destinations[0].w0);
  for (const Descriptor& s : packet.sources) {
    if (desc::length(s.w0) != length) fail("source and destination differ in length");
  }
  for (const Descriptor& s : packet.destinations) {
    if (desc::length(s.w0) != length) fail("copies differ in length");
  }
  if (total > desc::kMaxPacketBytes) fail("packet too long");
  if (packet.compute ? packet.op.sources != packet.sources.size() : packet.sources.size() != 1) {
    fail("wrong number of sources");
  }
  q->pending.push_back(packet);
  return error.empty();
}

void ReferenceMachine::check_signal(const Queue& q, const Packet& packet) {
  if (packet.compute || packet.sources.size() != 1) fail("a signal that is not a copy");
  for (const Descriptor& d : packet.destinations) {
    if (desc::length(d.w0) != kWord) fail("a register write of another size than 4 bytes");
    if (!is_signal(q.chip, d.address)) fail("a packet with signals and data");
  }
}

void ReferenceMachine::execute(Queue* q, const Packet& packet) {
  if (packet.signal) return send(*q, packet);
  const uint32_t length = desc::length(packet.destinations[0].w0);
  std::vector<const uint8_t*> sources;
  for (const Descriptor& s : packet.sources) sources.push_back(at(q->chip, s.address, length));
  if (!error.empty()) return;
  std::vector<uint8_t> result(sources[0], sources[0] + length);
  if (sources.size() > 1) reference_fold(packet.op, sources, length, result.data());
  for (const Descriptor& destination : packet.destinations) {
    uint8_t* to = at(q->chip, destination.address, length);
    if (to == nullptr) return;
    bytes_moved_ += length;
    std::copy(result.begin(), result.end(), to);
  }
}

void ReferenceMachine::send(const Queue& q, const Packet& packet) {
  const auto words = static_cast<uint32_t>(packet.destinations.size());
  const uint8_t* from = at(q.chip, packet.sources[0].address, words * kWord);
  for (uint32_t i = 0; i < words && error.empty(); ++i) {
    write_word(q.chip, packet.destinations[i].address, base::load<uint32_t>(from + i * kWord));
  }
}

// Executes one packet that may go now; false if the queue is empty.
bool ReferenceMachine::step_queue(Queue* q) {
  if (q->pending.empty()) return false;
  // Candidates: the first packet, and later ones up to the next barrier; a semaphore write and a
  // packet with DMB only when they are first.
  size_t end = 1;
  while (end < q->pending.size() && !q->pending[end].dmb) ++end;
  size_t pick = std::uniform_int_distribution<size_t>(0, end - 1)(random_);
  if (q->pending[pick].signal) pick = 0;
  const Packet packet = q->pending[pick];
  q->pending.erase(q->pending.begin() + static_cast<std::ptrdiff_t>(pick));
  execute(q, packet);
  return true;
}

// Records that only concern the CC-core itself; false if the record is another one.
bool ReferenceMachine::control(Core* core, size_t index, const Record& r) {
  Thread& thread = core->threads[index];
  switch (static_cast<Op>(r.op)) {
    case Op::kMov:
      thread.registers[r.a] = r.imm;
      return true;
    case Op::kLoop:
      if (--thread.registers[r.a] != 0) thread.pc = r.imm - 1;
      return true;
    case Op::kAdd:
      thread.registers[r.a] += r.imm;
      return true;
    case Op::kBranchLess:
      if (thread.registers[r.a] < thread.registers[r.b]) thread.pc = r.imm - 1;
      return true;
    case Op::kBlock:
      return block(core, &thread, r);
    case Op::kNotify:
      notifications.push_back(r.imm);
      return true;
    case Op::kFork:
      core->threads.push_back({});
      core->threads.back().pc = r.imm;
      return true;
    case Op::kEnd:
      thread.live = false;
      return true;
    default:
      return false;
  }
}

// Appends packets to a queue of blocks. Its rings must have room for all that is in flight.
void ReferenceMachine::feed(uint32_t chip, uint64_t address, std::vector<Packet> packets) {
  const auto it = queues_.find({chip, address});
  if (it == queues_.end()) return fail("a block on an unknown queue");
  Queue& q = it->second;
  q.pending.insert(q.pending.end(), packets.begin(), packets.end());
  size_t m2s = 0;
  size_t s2m = 0;
  for (const Packet& p : q.pending) {
    m2s += p.sources.size() + (p.compute ? 1 : 0);
    s2m += p.destinations.size();
  }
  if (m2s > q.room.m2s || s2m > q.room.s2m) fail("a queue of blocks overflows");
}

// One tile, as docs/hardware-contract.md 5 has it.
bool ReferenceMachine::block(Core* core, Thread* thread, const Record& r) {
  const uint32_t chip = core->resources.chip;
  const auto word = [&](uint64_t address) {
    const uint8_t* from = address == 0 ? nullptr : at(chip, address, 4);
    return from == nullptr ? 0u : base::load<uint32_t>(from);
  };
  const uint8_t* image = at(chip, r.address, sizeof(Block));
  if (image == nullptr) return true;
  const auto b = base::load<Block>(image);
  const uint64_t count = word(b.count);
  const uint64_t from = word(b.source_place);
  const uint64_t to = word(b.target_place);
  const bool inside = from + count <= b.source_elements && to + count <= b.target_elements;
  if (count != 0 && !inside) notifications.push_back(contract::cc_notify::kOutOfBounds);
  const uint64_t size = contract::dtype_size(static_cast<DType>(b.dtype));
  const uint64_t bytes = inside ? count * size : 0;
  const uint64_t whole = contract::cc_program::tile_bytes(b);
  uint32_t& tiles = thread->registers[r.b];
  tiles = std::max(tiles, static_cast<uint32_t>((bytes + whole - 1) / whole));
  const auto tile = contract::cc_program::tile_of(b, bytes, thread->registers[r.a]);
  for (uint32_t e = 0; e < b.engines && e < tile.pieces; ++e) {
    std::vector<Packet> packets;
    for (uint32_t piece = e; piece < tile.pieces; piece += b.engines) {
      const uint64_t in_tile = uint64_t{piece} * tile.piece_bytes;
      const uint64_t offset = tile.offset + in_tile;
      const auto length =
          static_cast<uint32_t>(std::min<uint64_t>(tile.piece_bytes, tile.bytes - in_tile));
      Packet p;
      p.compute = b.source_count > 1;
      p.op.op = static_cast<contract::ReduceOp>(b.op);
      p.op.src = p.op.dst = static_cast<DType>(b.dtype);
      p.dmb = packets.empty() && (b.flags & Block::kFence) != 0;
      const uint64_t target = b.target + to * size + offset;
      for (uint32_t i = 0; i < b.source_count; ++i) {
        const bool again = i == 0 && (b.flags & Block::kAccumulate) != 0;
        p.sources.push_back(
            desc::rx(again ? target : b.sources[i] + from * size + offset, length, 0));
      }
      p.destinations.push_back(desc::rx(target, length, 0));
      packets.push_back(p);
    }
    Packet report;
    report.sources.push_back(desc::rx(b.one, 4, 0));
    report.destinations.push_back(desc::rx(b.completion, 4, 0));
    report.signal = true;
    packets.push_back(report);
    const uint32_t engine = (b.first_engine + e) % b.engines;
    const uint32_t shift = b.engine_shift + contract::cc_program::kRangeShift;
    feed(chip, b.queue + (uint64_t{engine} << shift), std::move(packets));
  }
  const uint32_t reported = std::min<uint32_t>(b.engines, tile.pieces);
  if (reported > r.imm) fail("a block with more engines than its weight");
  if (reported < r.imm) write_word(chip, b.completion, r.imm - reported);
  return true;
}

void ReferenceMachine::done(Core* core, const Record& r) {
  if (r.address != 0) write_word(core->resources.chip, r.address, r.imm);
  if (std::count_if(core->threads.begin(), core->threads.end(),
                    [](const Thread& t) { return t.live; }) != 1) {
    fail("DONE before the threads have ended");
  }
  core->threads.clear();
  --core->remaining;
}

// One record of one thread that can go on.
bool ReferenceMachine::step_core(Core* core) {
  if (core->remaining == 0) return false;
  if (core->threads.empty()) core->threads.resize(1);
  const auto can = [&](size_t index) {
    return index < core->threads.size() && core->threads[index].live && step_thread(core, index);
  };
  if (can(core->current)) return true;
  const size_t first = random_() % core->threads.size();
  for (size_t i = 0; i < core->threads.size(); ++i) {
    core->current = (first + i) % core->threads.size();
    if (can(core->current)) return true;
  }
  return false;
}

bool ReferenceMachine::step_thread(Core* core, size_t index) {
  const uint32_t pc = core->threads[index].pc;
  if (pc >= core->program.size()) {
    fail("a program without DONE");
    return false;
  }
  const Record& r = core->program[pc];
  const uint32_t chip = core->resources.chip;
  switch (static_cast<Op>(r.op)) {
    case Op::kSemWait:
    case Op::kDmaWait: {
      auto& value = semaphores_[{chip, core->window(), static_cast<uint32_t>(r.address)}];
      if (r.address >= kSemaphores) fail("semaphore number");
      if (value < r.imm) return false;
      if ((r.flags & contract::cc_program::flag::kSubtract) != 0) value -= r.imm;
      break;
    }
    case Op::kSemAdd:
    case Op::kWrite:
      write_word(chip, r.address, r.imm);
      break;
    case Op::kDmaAdvance:
      doorbell(chip, r.address, r.imm);
      break;
    case Op::kDmaRange:
      for (uint64_t i = 0; i <= r.a; ++i) {
        doorbell(chip, r.address + (i << (r.b + contract::cc_program::kRangeShift)), r.imm);
      }
      break;
    case Op::kDone:
      done(core, r);
      return true;
    default:
      if (!control(core, index, r)) fail("unexpected record");
  }
  ++core->threads[index].pc;
  return true;
}

bool ReferenceMachine::run() {
  std::vector<std::function<bool()>> actors;
  for (Core& core : cores_) actors.emplace_back([this, &core] { return step_core(&core); });
  for (auto& [key, queue] : queues_) {
    actors.emplace_back([this, &queue = queue] { return step_queue(&queue); });
  }
  // Half of the actors are slow, so that some engines run several steps ahead of others.
  std::vector<bool> slow(actors.size());
  for (size_t i = 0; i < slow.size(); ++i) slow[i] = random_() % 2 == 0;
  const auto move_one = [&](bool with_slow) {
    const size_t first = random_() % actors.size();
    for (size_t i = 0; i < actors.size(); ++i) {
      const size_t actor = (first + i) % actors.size();
      if ((with_slow || !slow[actor]) && actors[actor]()) return true;
    }
    return false;
  };
  while (error.empty()) {
    // One actor moves; when those at hand cannot, the others are tried before giving up.
    if (!move_one(random_() % 16 == 0) && !move_one(true)) break;
  }
  for (const Core& core : cores_) {
    if (core.remaining != 0)
      fail("rank " + std::to_string(core.resources.global_rank) + " CC-core " +
           std::to_string(core.slot) + " waits for ever at record " +
           std::to_string(core.threads.empty() ? 0 : core.threads[0].pc));
  }
  return error.empty();
}

}  // namespace ccl
