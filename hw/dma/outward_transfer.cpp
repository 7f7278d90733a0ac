#include "hw/dma/outward_transfer.h"

#include <utility>

namespace hw {

OutwardTransfer::OutwardTransfer(Fabric& fabric, const Packet& packet, const Buffer* buffers,
                                 const Scales* scales, std::function<void()> answered)
    : packet_(packet),
      answered_(std::move(answered)),
      buffers_(buffers, buffers + packet.sources + packet.destinations) {
  if (scales != nullptr) scales_ = *scales;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& b = buffers_[i];
    uint64_t offset = 0;
    Outward* target = b.length == 0 ? nullptr : fabric.outward(b.address, &offset);
    if (target == nullptr) continue;
    auto access = std::make_shared<OutwardAccess>();
    access->offset = offset;
    access->data.resize(b.length);
    access->write = i >= packet.sources;
    b.holder = Holder::kStage;
    b.by.stage = access->data.data();
    outside_.push_back({target, std::move(access)});
  }
}

// True if there is something to wait for.
bool OutwardTransfer::ask(bool write) {
  for (const Outside& each : outside_) pending_ += each.access->write == write ? 1 : 0;
  if (pending_ == 0) return false;
  for (const Outside& each : outside_) {
    if (each.access->write != write) continue;
    // The packet may be gone before the answer comes.
    each.access->done = [weak = weak_from_this(), access = each.access.get()] {
      if (const auto transfer = weak.lock()) transfer->take_answer(*access);
    };
    each.target->submit(each.access);
  }
  return true;
}

void OutwardTransfer::take_answer(const OutwardAccess& access) {
  if (!access.ok && access.write) outcome_.s2m |= s2m_cause::kDataWrite;
  if (!access.ok && !access.write) outcome_.m2s |= m2s_cause::kDataRead;
  if (--pending_ == 0) answered_();
}

void OutwardTransfer::move(Mover& mover) {
  outcome_ = mover.move(buffers_.data(), packet_, &scales_, false);
}

bool OutwardTransfer::go_on(Mover& mover) {
  if (step_ == Step::kRead) {
    step_ = Step::kMove;
    if (ask(false)) return true;
  }
  if (step_ == Step::kMove && outcome_.ok()) {
    step_ = Step::kWrite;
    move(mover);
    if (outcome_.ok() && ask(true)) return true;
  }
  step_ = Step::kDone;
  return false;
}

}  // namespace hw
