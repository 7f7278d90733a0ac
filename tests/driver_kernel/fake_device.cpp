#include "tests/driver_kernel/fake_device.h"

#include <cstring>
#include <stdexcept>

#include "contract/regs/misc.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "driver/kernel/firmware_io.h"

namespace driver_test {
namespace {

namespace misc = contract::misc;
namespace udma = contract::udma;

contract::Gen generation(uint16_t device_id) {
  return device_id == 0x7364   ? contract::Gen::kV3
         : device_id >= 0x7564 ? contract::Gen::kV4
                               : contract::Gen::kV2;
}

}  // namespace

FakeDevice::FakeDevice(uint16_t device_id, uint8_t revision, pcie::HostMemory& host,
                       uint32_t routing_id)
    : host_(host), map_{generation(device_id)} {
  identity_.vendor = 0x1D0F;
  identity_.device = device_id;
  identity_.revision = revision;
  identity_.bar_size[0] = map_.bar0_size();
  identity_.bar_size[4] = map_.bar4_size();
  auto fd = base::make_memfd("fake-hbm", map_.bar4_size());
  if (!fd) throw std::runtime_error(fd.error().message());
  hbm_fd_ = std::move(*fd);
  auto mapping = base::Mapping::map_shared(hbm_fd_.get(), 0, map_.bar4_size(), true);
  if (!mapping) throw std::runtime_error(mapping.error().message());
  hbm_ = std::move(*mapping);
  auto window = base::make_memfd("fake-window", map_.bar0_size());
  if (!window) throw std::runtime_error(window.error().message());
  window_fd_ = std::move(*window);
  const uint64_t misc_ram = map_.misc_ram().bar0;
  registers_[misc_ram + misc::kRoutingId] = routing_id;
  registers_[misc_ram + misc::kSerialLo] = 0x1234'5678 + routing_id;
  registers_[misc_ram + misc::kSerialHi] = 0xABCD;
}

uint32_t FakeDevice::config_read(uint32_t offset, unsigned) {
  return offset == 8 ? identity_.revision : offset == 4 ? pci_command : 0;
}

void FakeDevice::config_write(uint32_t offset, unsigned, uint32_t value) {
  if (offset == 4) pci_command = value;
}

void FakeDevice::reset() {
  registers_.clear();
  queues_.clear();
  pci_command = 0;
}

uint8_t* FakeDevice::hbm(uint64_t pa) {
  for (uint32_t h = 0; h < map_.hbms(); ++h) {
    const uint64_t base = map_.hbm_base(h);
    if (pa >= base && pa - base < map_.hbm_size()) {
      return hbm_.data() + h * map_.bar4_stride() + (pa - base);
    }
  }
  return nullptr;
}

void FakeDevice::bar_read(int bar, uint64_t offset, base::ByteSpan to) {
  if (bar == 4) {
    std::memcpy(to.data(), hbm_.data() + offset, to.size());
    return;
  }
  const auto found = registers_.find(offset);
  uint32_t value = found == registers_.end() ? 0 : found->second;
  const uint64_t misc_ram = map_.misc_ram().bar0;
  for (uint32_t e = 0; e < map_.dma_engines() && found == registers_.end(); ++e) {
    const uint64_t unit = map_.udma(e).bar0;
    // Interrupt masks come out of reset all ones (spec/hw-registers.md 3.9).
    if (offset < unit + udma::kPrimaryIrq || offset >= unit + udma::kAxiTimeout) continue;
    if ((offset - unit) % 0x40 == udma::kSecondaryIrqMask) value = ~0u;
  }
  (void)misc_ram;
  log_.push_back({false, offset, value});
  std::memcpy(to.data(), &value, to.size());
}

void FakeDevice::bar_write(int bar, uint64_t offset, base::ConstByteSpan from) {
  if (bar == 4) {
    std::memcpy(hbm_.data() + offset, from.data(), from.size());
    return;
  }
  const auto value = base::load<uint32_t>(from.data());
  log_.push_back({true, offset, value});
  if (offset == map_.misc_ram().bar0 + misc::kTrigger) {
    firmware_trigger();
    return;
  }
  if (semaphore_write(offset, value) || queue_write(offset, value)) return;
  registers_[offset] = value;
}

base::Result<pcie::BarMapping> FakeDevice::bar_map(int bar, uint64_t offset, uint64_t length) {
  if (bar == 4) return pcie::BarMapping{hbm_fd_.get(), offset, length, true};
  return pcie::BarMapping{window_fd_.get(), offset, length, false};
}

void FakeDevice::firmware_trigger() {
  if (firmware_dead) return;
  uint32_t& request = registers_[map_.misc_ram().bar0 + misc::kResetRequest];
  if (request == 0) {
    mailbox();
    return;
  }
  if (request == 1) queues_.clear();  // a core reset may leave the engines alone (6.6)
  request = 0;
  ++resets;
}

// Legacy protocol: command 1 answers with the low half of each address, others are unknown.
void FakeDevice::mailbox() {
  const uint64_t ram = map_.misc_ram().bar0;
  const uint64_t from =
      (uint64_t{word(ram + misc::kRequestHi)} << 32 | word(ram + misc::kRequestLo)) -
      map_.host_window();
  const uint64_t to =
      (uint64_t{word(ram + misc::kResponseHi)} << 32 | word(ram + misc::kResponseLo)) -
      map_.host_window();
  uint8_t header[8];
  if (!host_.read(from, {header, sizeof header})) return;
  std::vector<uint8_t> message(base::load<uint16_t>(header + 2));
  host_.read(from, message);
  const auto crc = base::load<uint32_t>(message.data() + 4);
  base::store<uint32_t>(message.data() + 4, 0);
  if (driver::crc32c(message) != crc) return;
  std::vector<uint8_t> answer{message[0], 0, 4, 0};
  if (message[1] == 1) {
    for (size_t at = 8; at < message.size(); at += 8) {
      answer.insert(answer.end(), message.begin() + static_cast<long>(at),
                    message.begin() + static_cast<long>(at) + 4);
    }
  } else if (message[1] != 2) {
    answer[1] = 2;
  }
  base::store(answer.data() + 2, static_cast<uint16_t>(answer.size()));
  host_.write(to, answer);
}

bool FakeDevice::semaphore_write(uint64_t offset, uint32_t value) {
  namespace sem = contract::sem;
  for (uint32_t n = 0; n < map_.ncs(); ++n) {
    const uint64_t block = map_.nc(n).bar0 + contract::tpb::kSemaphores;
    if (offset < block + sem::kSet || offset >= block + contract::kSemaphoreBlock) continue;
    const uint64_t index = (offset - block) % 0x400;
    uint32_t& current = registers_[block + sem::kRead + index];
    const uint64_t alias = (offset - block) - index;
    current = alias == sem::kSet ? value : alias == sem::kInc ? current + value : current - value;
    return true;
  }
  return false;
}

bool FakeDevice::queue_write(uint64_t offset, uint32_t value) {
  for (uint32_t e = 0; e < map_.dma_engines(); ++e) {
    const uint64_t unit = map_.udma(e).bar0;
    if (offset < unit || offset >= unit + contract::kUdmaUnit) continue;
    const uint64_t in = offset - unit;
    if (in >= udma::kPrimaryIrq && in < udma::kAxiTimeout &&
        in % 0x40 == udma::kSecondaryIrqMaskClear) {
      const uint64_t mask = offset - udma::kSecondaryIrqMaskClear + udma::kSecondaryIrqMask;
      registers_[mask] = (registers_.count(mask) != 0 ? registers_[mask] : ~0u) & value;
      return true;
    }
    const int side = in >= udma::kS2mQ ? 1 : 0;
    const uint64_t first = side == 1 ? udma::kS2mQ : udma::kM2sQ;
    if (in < first || in >= first + 16 * udma::kM2sQStride) return false;
    Queue& queue = queues_[e * 16 + (in - first) / udma::kM2sQStride];
    Half& half = queue.half[side];
    const uint64_t reg = (in - first) % udma::kM2sQStride;
    if (reg == udma::kM2sQRingBaseLo) half.base = (half.base & ~0xFFFF'FFFFull) | value;
    if (reg == udma::kM2sQRingBaseHi) half.base = (half.base & 0xFFFF'FFFF) | uint64_t{value} << 32;
    if (reg == udma::kM2sQRingLength) half.length = value;
    if (reg == (side == 1 ? udma::kS2mQSwCtrl : udma::kM2sQSwCtrl) && (value & 0x100) != 0)
      half = {};
    registers_[offset] = value;
    if (reg == udma::kM2sQTailInc && half.length != 0) {
      half.tail = (half.tail + value) % half.length;
      if (!engines_stalled && value <= largest_doorbell) run_queue(queue);
    }
    return true;
  }
  return false;
}

bool FakeDevice::fetch(Half& half, contract::Descriptor& descriptor) {
  uint8_t bytes[16];
  if (!dma_read(half.base + uint64_t{half.head} * 16, {bytes, 16})) return false;
  descriptor = base::load<contract::Descriptor>(bytes);
  if (contract::desc::ring_id(descriptor.w0) != half.ring_id) ++ring_id_errors;
  if (++half.head == half.length) {
    half.head = 0;
    half.ring_id = (half.ring_id + 1) % 4;
  }
  return true;
}

void FakeDevice::run_queue(Queue& queue) {
  Half& m2s = queue.half[0];
  Half& s2m = queue.half[1];
  while (m2s.head != m2s.tail && s2m.head != s2m.tail) {
    contract::Descriptor from;
    contract::Descriptor to;
    if (!fetch(m2s, from) || !fetch(s2m, to)) {
      ++dma_faults;
      return;
    }
    std::vector<uint8_t> payload(contract::desc::length(from.w0));
    if (!dma_read(from.address, payload) || !dma_write(to.address, payload)) {
      ++dma_faults;
      return;
    }
    ++copies;
    copy_list.emplace_back(to.address, static_cast<uint32_t>(payload.size()));
  }
}

bool FakeDevice::dma_read(uint64_t address, base::ByteSpan to) {
  if (map_.is_host(address)) return host_.read(address - map_.host_window(), to);
  const uint8_t* from = hbm(address);
  if (from == nullptr) return false;
  std::memcpy(to.data(), from, to.size());
  return true;
}

bool FakeDevice::dma_write(uint64_t address, base::ConstByteSpan from) {
  if (map_.is_host(address)) return host_.write(address - map_.host_window(), from);
  uint8_t* to = hbm(address);
  if (to != nullptr) {
    std::memcpy(to, from.data(), from.size());
    return true;
  }
  for (uint32_t n = 0; n < map_.ncs(); ++n) {  // core windows swallow what is programmed
    const contract::Window nc = map_.nc(n);
    if (address >= nc.device && address - nc.device < nc.size) return true;
  }
  return false;
}

}  // namespace driver_test
