// The data plane of a DMA packet: copies, reductions and register accesses, with direct pointers
// where there is plain memory. One pass per packet; no time passes.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/dma/packet.h"
#include "hw/mem/fabric.h"

namespace hw {

class Mover {
 public:
  explicit Mover(Fabric& fabric) : fabric_(fabric) {}

  // Bytes that stand for an address for a while (hw/dma/outward_transfer.h); null: none.
  struct Staged {
    uint64_t address = 0;
    uint64_t length = 0;
    uint8_t* data = nullptr;
  };
  void set_stage(const std::vector<Staged>* stage) { stage_ = stage; }

  // Causes (m2s, s2m) that the transfer raised; both zero on success.
  struct Outcome {
    uint32_t m2s = 0;
    uint32_t s2m = 0;
    bool ok() const { return m2s == 0 && s2m == 0; }
  };

  // `buffers` are the packet's sources followed by its destinations. `sparse`: holes stay holes
  // where bytes are copied.
  Outcome copy(const Buffer* buffers, const Packet& packet, bool sparse);
  // `scales`: of an fma packet.
  Outcome compute(const Buffer* buffers, const Packet& packet, const Scales* scales, bool sparse);
  // Bytes of one place, of registers word by word; false on a bus error.
  bool read(uint64_t address, uint8_t* to, uint64_t length);

 private:
  uint8_t* pointer(uint64_t address, uint64_t length);
  bool write_piece(uint64_t address, const uint8_t* from, uint64_t length);
  bool move_piece(uint64_t to, uint64_t from, uint64_t length, bool sparse, Outcome& outcome);
  Outcome duplicate(const Buffer* buffers, const Packet& packet, bool sparse);
  void scatter(const Buffer* targets, uint32_t count, const uint8_t* from, uint64_t each,
               Outcome& outcome);

  Fabric& fabric_;
  const std::vector<Staged>* stage_ = nullptr;
  std::vector<uint8_t> bounce_;
};

}  // namespace hw
