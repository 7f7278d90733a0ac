// The payload of a packet that reads or writes outside of the machine: at a block that others
// wrote, or in a host's memory to which there is no pointer. What lies outside is brought into a
// stage, the packet executed there, and what it wrote sent out. Each step takes as long as those
// who are asked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hw/dma/mover.h"
#include "hw/dma/packet.h"
#include "hw/mem/fabric.h"

namespace hw {

class OutwardTransfer : public std::enable_shared_from_this<OutwardTransfer> {
 public:
  // `buffers`: the packet's. `answered` is called in a process each time that all that was asked
  // for has been answered; the owner then calls go_on().
  OutwardTransfer(Fabric& fabric, const Packet& packet, const Buffer* buffers, const Scales* scales,
                  std::function<void()> answered);

  // Asks for the next step; false when everything is done.
  bool go_on(Mover& mover);
  const Mover::Outcome& outcome() const { return outcome_; }

 private:
  enum class Step : uint8_t { kRead, kMove, kWrite, kDone };

  bool ask(bool write);
  void take_answer(const OutwardAccess& access);
  void move(Mover& mover);

  struct Outside {
    Outward* target = nullptr;
    std::shared_ptr<OutwardAccess> access;
  };
  Packet packet_;
  Scales scales_{};
  std::function<void()> answered_;
  std::vector<Buffer> buffers_;  // those outside are those of the stage
  std::vector<Outside> outside_;
  size_t pending_ = 0;
  Step step_ = Step::kRead;
  Mover::Outcome outcome_;
};

}  // namespace hw
