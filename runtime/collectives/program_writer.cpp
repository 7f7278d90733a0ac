// CC programs: records, doorbells that serve several engines and steps, loops.
#include <algorithm>

#include "contract/regs/udma.h"
#include "runtime/collectives/lowering.h"

namespace ccl {
namespace {

using contract::cc_program::Op;
using contract::cc_program::Record;
namespace flag = contract::cc_program::flag;

constexpr uint64_t kMaxDoorbell = 0xFFFF;
// Longest block that is looked for: a pass over kStepsInFlight steps to and from many peers.
constexpr size_t kMaxPeriod = 512;
constexpr uint8_t kLoopDepth = 2;

bool same(const Record& a, const Record& b) {
  return a.op == b.op && a.a == b.a && a.flags == b.flags && a.b == b.b && a.imm == b.imm &&
         a.address == b.address;
}

struct Repeat {
  size_t period = 0;
  size_t times = 0;
  size_t saved = 0;  // records
};

// The block from `at` on whose repetitions save most.
Repeat find_repeat(const CcProgram& program, size_t at) {
  constexpr size_t kOverhead = 2;  // MOV, LOOP
  Repeat best;
  for (size_t period = 1; period <= kMaxPeriod && at + 2 * period <= program.size(); ++period) {
    size_t equal = 0;
    while (at + period + equal < program.size() &&
           same(program[at + equal], program[at + period + equal])) {
      ++equal;
    }
    const size_t times = equal / period + 1;
    const size_t saved = (times - 1) * period;
    if (times > 1 && saved > kOverhead && saved - kOverhead > best.saved) {
      best = {period, times, saved - kOverhead};
    }
  }
  return best;
}

// Loops use `reg`, loops in their bodies the next register.
CcProgram roll(const CcProgram& program, uint8_t reg) {
  CcProgram out;
  for (size_t at = 0; at < program.size();) {
    const Repeat repeat = find_repeat(program, at);
    if (repeat.times == 0) {
      out.push_back(program[at++]);
      continue;
    }
    const auto begin = program.begin() + static_cast<std::ptrdiff_t>(at);
    CcProgram body(begin, begin + static_cast<std::ptrdiff_t>(repeat.period));
    if (reg + 1 < kLoopDepth) body = roll(body, static_cast<uint8_t>(reg + 1));
    Record mov;
    mov.op = static_cast<uint8_t>(Op::kMov);
    mov.a = reg;
    mov.imm = static_cast<uint32_t>(repeat.times);
    out.push_back(mov);
    Record loop;
    loop.op = static_cast<uint8_t>(Op::kLoop);
    loop.a = reg;
    loop.imm = static_cast<uint32_t>(out.size());
    relocate(&body, loop.imm);
    out.insert(out.end(), body.begin(), body.end());
    out.push_back(loop);
    at += repeat.period * repeat.times;
  }
  return out;
}

}  // namespace

ProgramWriter::ProgramWriter(const RankResources& own, bool broadcast)
    : own_(own), broadcast_(broadcast), counts_(own.engines()) {}

void ProgramWriter::put(Op op, uint32_t imm, uint64_t address, uint8_t flags, uint8_t a,
                        uint8_t b) {
  Record record;
  record.op = static_cast<uint8_t>(op);
  record.a = a;
  record.flags = flags;
  record.b = b;
  record.imm = imm;
  record.address = address;
  program_.push_back(record);
}

void ProgramWriter::emit(Op op, uint32_t imm, uint64_t address, uint8_t flags) {
  flush();
  put(op, imm, address, flags);
}

void ProgramWriter::emit_on(Op op, uint8_t a, uint8_t b, uint32_t imm, uint64_t address) {
  flush();
  put(op, imm, address, 0, a, b);
}

uint32_t ProgramWriter::here() {
  flush();
  return static_cast<uint32_t>(program_.size());
}

void ProgramWriter::wait(Op op, uint32_t semaphore, uint32_t value) {
  emit(op, value, semaphore,
       static_cast<uint8_t>(contract::cc_program::Cond::kGe) | flag::kSubtract);
}

void ProgramWriter::ring(uint32_t engine, const DoorbellCounts& counts) {
  counts_[engine].m2s += counts.m2s;
  counts_[engine].s2m += counts.s2m;
  pending_ = true;
}

CcProgram ProgramWriter::take() {
  flush();
  return std::move(program_);
}

void ProgramWriter::flush() {
  while (pending_) {
    pending_ = false;  // counts above a doorbell's 16 bits leave something for another round
    for (uint32_t core = 0; core < own_.lnc; ++core) flush_core(core);
  }
}

bool ProgramWriter::equal_counts(uint32_t first, uint32_t count) const {
  return std::all_of(counts_.begin() + first, counts_.begin() + first + count,
                     [&](const DoorbellCounts& c) {
                       return c.m2s == counts_[first].m2s && c.s2m == counts_[first].s2m;
                     });
}

void ProgramWriter::flush_core(uint32_t core) {
  const uint32_t begin = core * contract::kDmaPerNc;
  const uint32_t end = begin + contract::kDmaPerNc;
  for (uint32_t first = begin; first < end;) {
    uint32_t count = 1;
    while (first + count < end && equal_counts(first, count + 1)) ++count;
    const uint64_t m2s = std::min(counts_[first].m2s, kMaxDoorbell);
    const uint64_t s2m = std::min(counts_[first].s2m, kMaxDoorbell);
    if (m2s + s2m != 0) put_range(first, count, static_cast<uint32_t>(s2m << 16 | m2s));
    for (uint32_t e = first; e < first + count; ++e) {
      counts_[e].m2s -= m2s;
      counts_[e].s2m -= s2m;
      pending_ = pending_ || counts_[e].m2s + counts_[e].s2m != 0;
    }
    first += count;
  }
}

void ProgramWriter::put_range(uint32_t first, uint32_t count, uint32_t value) {
  const uint64_t queue = contract::udma::kM2sQ + own_.queue * contract::udma::kM2sQStride;
  if (count == contract::kDmaPerNc && broadcast_) {
    return put(Op::kDmaAdvance, value, own_.broadcast(first / contract::kDmaPerNc) + queue);
  }
  if (count == 1) return put(Op::kDmaAdvance, value, own_.udma(first) + queue);
  const uint64_t stride = own_.udma(first + 1) - own_.udma(first);
  uint8_t shift = 0;
  while (1ull << (shift + contract::cc_program::kRangeShift) < stride) ++shift;
  put(Op::kDmaRange, value, own_.udma(first) + queue, 0, static_cast<uint8_t>(count - 1), shift);
}

CcProgram roll_loops(const CcProgram& program) {
  return roll(program, 0);
}

}  // namespace ccl
