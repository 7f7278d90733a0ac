#include "tests/fuzz/places.h"

#include "contract/regs/udma.h"
#include "tests/fuzz/machine_bench.h"

namespace fuzz {

namespace udma = contract::udma;
namespace tpb = contract::tpb;

uint64_t Places::in_guest(uint8_t place, uint64_t b) const {
  const size_t far = map_.v2() ? 3 : 4;  // the piece at the end of the host window
  const size_t piece = place < 3 ? place : place == 4 ? far : 0;
  const GuestMemory::Piece& p = GuestMemory::kPieces[piece];
  if (place == 3) return map_.host_window() + p.phys + p.size - b % 64;
  if (place == 5) return map_.host_window() + (b & (map_.host_limit() - 1));
  return map_.host_window() + p.phys + b % p.size;
}

uint64_t Places::in_memory(uint8_t place, uint64_t b) const {
  const uint32_t h = static_cast<uint32_t>(b >> 32) % map_.hbms();
  const uint32_t n = static_cast<uint32_t>(b >> 32) % map_.ncs();
  const uint64_t low = b & 0xFFFF'FFFF;
  switch (place) {
    case 6:
      return map_.hbm_base(h) + contract::kFirmwareReserved + low % 0x20'0000;
    case 7:
      return map_.hbm_base(h) + low;
    case 8:
      return map_.hbm_base(h) + map_.hbm_size() - low % 256;
    case 9:
      return map_.nc(n).device + low % tpb::kSbufWindow;
    case 10:  // around the populated end of a partition
      return map_.nc(n).device + low % tpb::kPartitions * tpb::kPartitionStride +
             map_.sbuf_partition_bytes() - (low >> 8) % 64;
    default:
      return map_.nc(n).device + tpb::kPsum + low % (tpb::kPsumStride * tpb::kPartitions);
  }
}

uint64_t Places::in_registers(uint8_t place, uint64_t b) const {
  const auto which = static_cast<uint32_t>(b >> 32);
  const uint64_t low = b & 0xFFFF'FFFF;
  const uint64_t unit = map_.udma(engine(which)).device;
  switch (place) {
    case 12:
      return unit + low % contract::kUdmaUnit;
    case 13:  // a doorbell: queue [3:0], half [4]
      return unit + (low >> 4 & 1) * contract::kS2mOffset + udma::kM2sQ +
             (low & 15) * udma::kM2sQStride + udma::kM2sQTailInc;
    case 14:
      return map_.nc_semaphores(which % map_.ncs()) + low % contract::kSemaphoreBlock;
    case 15:
      return map_.topsp(which % map_.topsps()).device + low % contract::topsp::kWindow;
    case 16:
      return map_.misc_ram().device + low % contract::kMiscRamBytes;
    case 17:
      return map_.broadcast(which % map_.ncs()).device + low % contract::kUdmaUnit;
    case 18:
      return map_.nc_nq(which % map_.ncs()).device + low % contract::kNqBlock;
    case 19:
      return map_.engine_block(which % map_.ncs(), which / 16 % contract::kEnginesPerNc) +
             low % tpb::kEngineBlock;
    case 20:
      return map_.sdma(engine(which)).device + low % contract::kSdmaUnit;
    default:
      return map_.qemu_reset().device;
  }
}

uint64_t Places::address(uint8_t place, uint64_t b) const {
  constexpr uint8_t kKinds = 29;
  place %= kKinds;
  if (place < 6) return in_guest(place, b);
  if (place < 12) return in_memory(place, b);
  if (place < 22) return in_registers(place, b);
  switch (place) {
    case 22:
      return map_.peer_address(static_cast<uint32_t>(b >> 56) % (map_.v2() ? 16 : 1024),
                               b & 0xFF'FFFF'FFFF'FFFF);
    case 23:  // a hole of every generation
      return 0x0000'0F00'0000'0000 + b % 0x1000'0000;
    case 24:
      return ~0ull - b % 256;
    case 25:
      return b & 0xFFFF;  // HBM, where nothing else begins
    case 26:
      return contract::AddressMap::neighbour_address(b >> 60 & 3, b & 0xFFFF'FFFF'FFFF);
    default:
      return b;
  }
}

}  // namespace fuzz
