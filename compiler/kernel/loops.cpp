// Loops: the body is a segment of its own, before, between and behind whose turns nothing is under
// way, so that each turn begins with semaphores at 0. Simple and slow: turns do not overlap.
#include <algorithm>

#include "compiler/kernel/calls.h"

namespace kernel {

// Everything is waited for by Sync; the border between the segments, which make_neff() writes,
// brings the engines together there.
void Program::begin_segment(const Call& call, Segment segment) {
  std::vector<Event> waits = order_.join(contract::kSp);
  push({make(Opcode::kEventSemaphore), contract::kSp, begin_call(call), Event{}, std::move(waits)});
  segment.call = static_cast<uint32_t>(calls.size());
  segments.push_back(std::move(segment));
  order_ = Order();
  for (size_t i = 0; i < queues.size(); ++i) order_.add_agent();
  weights.clear();
}

bool Program::begin_loop(const Call& call, const Trips& trips) {
  if (!check(call, {})) return false;
  const std::string what = std::string(call.name) + ": ";
  if (loop() != 0) {
    fail(base::Fault::kUsage, call.at, what + "loops do not nest; unroll one of them");
    return false;
  }
  if (trips.most < 1 || trips.most > INT32_MAX) {
    fail(base::Fault::kUsage, call.at,
         what + std::to_string(trips.most) + " turns; from 1 to 2147483647 are possible");
    return false;
  }
  Segment body;
  body.loop.emplace();
  body.loop->most = trips.most;
  if (trips.counted) {
    if (!check(call, {{"trips", &trips.cell, false}})) return false;
    const bool number = trips.cell.space_ == Space::kHbm && trips.cell.elements() == 1 &&
                        trips.cell.dtype_ == DType::kUint32;
    if (!number) {
      fail(base::Fault::kUsage, call.at,
           what + "the number of turns (" + describe(trips.cell) +
               ") is not one uint32 of a tensor in HBM");
      return false;
    }
    body.loop->trips = side(call, "trips", trips.cell, false, true);
  }
  begin_segment(call, std::move(body));
  return true;
}

void Program::end_loop(const Call& call) {
  if (ok()) begin_segment(call, {});
}

// The register that holds the turn times so many bytes.
uint8_t Program::scaled(const Call& call, int64_t bytes) {
  std::vector<int64_t>& scales = segments.back().loop->scales;
  const auto known = std::find(scales.begin(), scales.end(), bytes);
  const auto number = static_cast<size_t>(known - scales.begin());
  if (number == kMostScaledRegisters) {
    fail(base::Fault::kResource, call.at,
         std::string(call.name) + ": tiles move by more than " +
             std::to_string(kMostScaledRegisters) + " different distances in this loop");
    return isa::kNoRegister;
  }
  if (known == scales.end()) scales.push_back(bytes);
  return static_cast<uint8_t>(kFirstScaledRegister + number);
}

int64_t Program::moves_of(const isa::TensorOperand& tensor) const {
  if (loop() == 0 || tensor.offset_register == isa::kNoRegister) return 0;
  return segments.back().loop->scales[tensor.offset_register - kFirstScaledRegister];
}

void Kernel::for_loop(const Trips& trips, const std::function<void(Index)>& body, Location at) {
  const Call call{at, "for_loop"};
  if (!program_->begin_loop(call, trips)) return;
  body(Index(program_->loop(), trips.most));
  program_->end_loop(call);
}

}  // namespace kernel
