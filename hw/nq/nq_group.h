// All notification blocks of a chip behind one socket: block k answers at k * NqBlock::kBytes.
// First those of the NeuronCores, then those of the CC-cores. Made on first touch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hw/nq/nq_block.h"

namespace hw {

class NqGroup final : public BusTarget {
 public:
  using Factory = std::function<std::unique_ptr<NqBlock>(uint32_t index)>;
  NqGroup(uint32_t count, Factory factory) : factory_(std::move(factory)), blocks_(count) {}

  uint32_t count() const { return static_cast<uint32_t>(blocks_.size()); }
  NqBlock& block(uint32_t k) {
    if (blocks_[k] == nullptr) blocks_[k] = factory_(k);
    return *blocks_[k];
  }
  NqBlock* touched(uint32_t k) { return blocks_[k].get(); }
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override {
    const uint64_t k = offset / NqBlock::kBytes;
    return k < blocks_.size() && block(static_cast<uint32_t>(k))
                                     .access(offset % NqBlock::kBytes, data, size, write, debug);
  }

 private:
  Factory factory_;
  std::vector<std::unique_ptr<NqBlock>> blocks_;
};

}  // namespace hw
