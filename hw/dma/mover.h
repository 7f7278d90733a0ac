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

  // Causes (m2s, s2m) that the transfer raised; both zero on success.
  struct Outcome {
    uint32_t m2s = 0;
    uint32_t s2m = 0;
    bool ok() const { return m2s == 0 && s2m == 0; }
  };

  // `buffers` are the packet's sources followed by its destinations. `sparse`: holes stay holes
  // where bytes are copied.
  Outcome copy(const Buffer* buffers, const Packet& packet, bool sparse);
  Outcome transpose(const Buffer* buffers, const Packet& packet);
  // What the packet is.
  Outcome move(const Buffer* buffers, const Packet& packet, const Scales* scales, bool sparse) {
    if (packet.transpose) return transpose(buffers, packet);
    return packet.compute ? compute(buffers, packet, scales, sparse)
                          : copy(buffers, packet, sparse);
  }
  // `scales`: of an fma packet.
  Outcome compute(const Buffer* buffers, const Packet& packet, const Scales* scales, bool sparse);
  // The first bytes of a buffer, of registers word by word; false on a bus error.
  bool read(const Buffer& from, uint8_t* to, uint64_t length) {
    return read({&from, 0}, to, length);
  }

 private:
  // What begins so many bytes into a buffer.
  struct Place {
    const Buffer* buffer;
    uint64_t skip;
    uint64_t address() const { return buffer->address + skip; }
  };
  uint8_t* pointer(const Place& at, uint64_t length);
  SparseRange sparse_range(const Place& at, uint64_t length);
  bool read(const Place& from, uint8_t* to, uint64_t length);
  bool write(const Place& to, const uint8_t* from, uint64_t length);
  bool move_piece(const Place& to, const Place& from, uint64_t length, bool sparse,
                  Outcome& outcome);
  Outcome duplicate(const Buffer* buffers, const Packet& packet, bool sparse);
  void scatter(const Buffer* targets, uint32_t count, const uint8_t* from, uint64_t each,
               Outcome& outcome);

  Fabric& fabric_;
  std::vector<uint8_t> bounce_;
};

}  // namespace hw
