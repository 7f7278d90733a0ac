// A guest in miniature: memory, a bus with one device, and the register sequences of a driver
// (spec/hw-registers.md 3.11, 3.12, 8), over a remote PCI socket. Its calls block, so it lives on a
// thread of its own.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "contract/regs/misc.h"
#include "contract/regs/udma.h"
#include "tests/driver_qemu/guest_peer.h"

namespace driver_test {

class Guest {
 public:
  static constexpr uint64_t kTxRing = 0x10'0000;  // guest physical
  static constexpr uint64_t kRxRing = 0x14'0000;
  static constexpr uint64_t kMarker = 0x18'0000;
  static constexpr uint64_t kData = 0x20'0000;
  static constexpr uint32_t kRing = 8192;  // descriptors

  Guest(base::UniqueFd socket, uint64_t ram, contract::Gen gen = contract::Gen::kV2)
      : peer(std::move(socket)), map_{gen}, size_(ram) {
    file_ = base::UniqueFd(::memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(ram)), 0);
    EXPECT_EQ(::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    auto mapping = base::Mapping::map_shared(file_.get(), 0, ram, true);
    EXPECT_TRUE(mapping.ok());
    ram_ = std::move(*mapping);
  }

  // What firmware does: memory, BARs, memory decode and bus mastering.
  void boot() {
    peer.set_memory({{0, size_, 0}}, {file_.get()});
    place_bars();
    peer.config_write(0x04, 6, 2);
  }
  void place_bars() {
    peer.config_write(0x10, static_cast<uint32_t>(bar0_));
    peer.config_write(0x20, static_cast<uint32_t>(bar4_));
    if (map_.v2()) return;
    peer.config_write(0x14, static_cast<uint32_t>(bar0_ >> 32));
    peer.config_write(0x24, static_cast<uint32_t>(bar4_ >> 32));
  }
  uint32_t get(uint64_t offset) { return static_cast<uint32_t>(peer.read(bar0_ + offset)); }
  void put(uint64_t offset, uint32_t value) { peer.write(bar0_ + offset, value); }
  uint64_t bar4() const { return bar4_; }
  uint64_t misc(uint32_t word) const { return map_.misc_ram().bar0 + word; }
  uint8_t* ram(uint64_t phys) { return ram_.data() + phys; }
  const contract::AddressMap& map() const { return map_; }
  uint64_t host(uint64_t phys) const { return map_.host_window() | phys; }

  // spec/hw-registers.md 8, without its pauses of 100 ms.
  bool reset_device() {
    put(misc(contract::misc::kResetRequest), 1);
    put(misc(contract::misc::kTrigger), 1);
    return wait_for([&] { return get(misc(contract::misc::kResetRequest)) == 0; }) &&
           (get(misc(contract::misc::kStatus)) & 8) == 0;
  }
  // The queue of NC 0 for host copies. Of its engine's initialisation (3.10) only that a length of
  // 0 means 64 KiB.
  void set_up_queue() {
    put(map_.udma(engine()).bar0 + contract::udma::kM2sPktLenCfg, 0x010F'FFFF);
    for (const uint64_t half : {uint64_t{0}, contract::kS2mOffset}) {
      namespace udma = contract::udma;
      const uint64_t q = map_.udma(engine()).bar0 + half + udma::kM2sQ;
      const uint64_t ring = host(half == 0 ? kTxRing : kRxRing);
      put(q + udma::kM2sQCfg, 0x0300'0000);
      put(q + (half == 0 ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl), 0x100);
      put(q + udma::kM2sQRingBaseLo, static_cast<uint32_t>(ring));
      put(q + udma::kM2sQRingBaseHi, static_cast<uint32_t>(ring >> 32));
      put(q + udma::kM2sQRingLength, kRing);
      put(q + udma::kM2sQCfg, 0x0303'0000);
    }
    next_ = 0;
  }
  // Copies in descriptors of 64 KiB, then a marker behind a write barrier; returns at once.
  // Without `finish` the marker stays behind until finish_copy(): however fast the device is, the
  // copy has not ended before.
  void start_copy(uint64_t to, uint64_t from, uint64_t bytes, bool finish = true) {
    namespace desc = contract::desc;
    base::store<uint32_t>(ram(kMarker), 0xABCD'EF01);
    base::store<uint32_t>(ram(kMarker + 4), 0);
    uint32_t n = 0;
    for (uint64_t done = 0; done < bytes; ++n) {
      const auto length = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, desc::kMaxLength));
      done += length;
      push(to + done - length, from + done - length, length, done == bytes);
    }
    push(host(kMarker + 4), host(kMarker), 4, false);
    ++n;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    put(doorbell() + contract::kS2mOffset, n);
    put(doorbell(), finish ? n : n - 1);
  }
  void finish_copy() { put(doorbell(), 1); }
  bool copy_done() {
    return __atomic_load_n(reinterpret_cast<uint32_t*>(ram(kMarker + 4)), __ATOMIC_ACQUIRE) ==
           0xABCD'EF01;
  }
  bool copy(uint64_t to, uint64_t from, uint64_t bytes) {
    start_copy(to, from, bytes);
    return wait_for([&] { return copy_done(); });
  }
  template <typename Done>
  bool wait_for(const Done& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  GuestPeer peer;

 private:
  uint32_t engine() const { return map_.h2t_engine(0); }
  uint64_t doorbell() const {
    return map_.udma(engine()).bar0 + contract::udma::kM2sQ + contract::udma::kM2sQTailInc;
  }
  void push(uint64_t to, uint64_t from, uint32_t bytes, bool barrier) {
    namespace desc = contract::desc;
    const uint32_t id = (1 + next_ / kRing) & 3;
    const uint64_t at = next_++ % kRing * sizeof(contract::Descriptor);
    base::store(ram(kTxRing + at),
                desc::tx_copy(from, bytes, id, desc::kFirst | desc::kLast, barrier));
    base::store(ram(kRxRing + at), desc::rx(to, bytes, id));
  }

  contract::AddressMap map_;
  uint64_t size_;
  uint64_t bar0_ = map_.v2() ? 0x8000'0000 : 0x10'0000'0000;
  uint64_t bar4_ = map_.v2() ? 0xC000'0000 : 0x100'0000'0000;
  base::UniqueFd file_;
  base::Mapping ram_;
  uint32_t next_ = 0;  // descriptors since the queue was set up
};

}  // namespace driver_test
