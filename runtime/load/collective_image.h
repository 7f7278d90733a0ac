// Fifth phase of a program's collectives (collective_program.h): the operations lowered for this
// rank and placed on the device: rings of the collective queues, blocks, CC programs, and the
// program of the execution barrier. What runs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "runtime/load/collective_exchange.h"

namespace nrt {

class CollectiveImage {
 public:
  // The image refers to what the offer holds, and to nothing else of the arguments.
  static base::Result<CollectiveImage> load(const CollectiveContext& context,
                                            CollectiveOffer* offer, PeerResources peers);

  const std::vector<HardwareQueue>& queues() const { return queues_; }
  // By index in the program's operations.
  ccl::Algorithm algorithm(uint32_t operation) const { return algorithms_[operation]; }

 private:
  class Loader;
  CollectiveImage() = default;

  std::vector<ccl::Algorithm> algorithms_;
  std::vector<HardwareQueue> queues_;
  std::vector<Claim> records_;  // of the CC-cores' program memories
};

}  // namespace nrt
