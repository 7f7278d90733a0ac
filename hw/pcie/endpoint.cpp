#include "hw/pcie/endpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace hw {

namespace {

constexpr uint16_t kVendorId = 0x1D0F;  // spec/hw-registers.md 1.1
constexpr uint64_t kPage = 4096;

constexpr uint64_t kSmallHbmBar = 512ull << 20;  // beside 1 GiB of registers below 4 GiB

// In a 32-bit hole one kind of window packs better than two: SeaBIOS 1.16 places prefetchable and
// other BARs apart, and finds no room for both beside a graphics adapter.
uint32_t prefetchable(pcie::BarLayout layout, int hbm_bar) {
  return layout == pcie::BarLayout::kFull ? 1u << hbm_bar : 0;
}

pcie::Identity identity_of(const Endpoint::Params& params, const contract::AddressMap& map,
                           int register_bar, int other_register_bar, int hbm_bar) {
  const bool small = params.bars == pcie::BarLayout::k32Bit;
  if (small && !map.v2()) {
    throw std::invalid_argument("the registers of this generation need a BAR of 4 GiB");
  }
  pcie::Identity id;
  id.vendor = kVendorId;
  id.device = params.device_id;
  id.revision = params.revision;
  id.bar_size[register_bar] = map.bar0_size();
  // Drivers up to 2.24 look for the registers of a v3 device in BAR 2, later ones in BAR 0.
  if (!map.v2() && params.revision == Endpoint::kQemuRevision) {
    id.bar_size[other_register_bar] = map.bar0_size();
  }
  const uint64_t stride = Endpoint::hbm_stride(params.revision, map);
  id.bar_size[hbm_bar] = small ? kSmallHbmBar : stride * map.hbms();
  return id;
}

}  // namespace

// With the QEMU revision a v3 or v4 driver takes a quarter of BAR4 for the size of a stack and for
// the distance between stacks (spec/hw-registers.md 1.2); then all of it must be populated.
uint64_t Endpoint::hbm_stride(uint8_t revision, const contract::AddressMap& map) {
  uint64_t stride = map.bar4_stride();
  if (map.v2() || revision != kQemuRevision) return stride;
  while (stride > map.hbm_size()) stride /= 2;
  return stride;
}

Endpoint::Endpoint(const Params& params, Fabric& fabric, EndpointOwner& owner, AccessLog& log)
    : params_(params),
      fabric_(fabric),
      owner_(owner),
      log_(log),
      register_bar_(fabric.address_map().v2() && params.revision == kQemuRevision ? 2 : 0),
      hbm_stride_(hbm_stride(params.revision, fabric.address_map())),
      identity_(
          identity_of(params, fabric.address_map(), register_bar_, kOtherRegisterBar, kHbmBar)),
      config_(identity_, params.bars, prefetchable(params.bars, kHbmBar)) {
  fabric_.set_bus_master(config_.bus_master());
}

uint32_t Endpoint::config_read(uint32_t offset, unsigned size) {
  return config_.read(offset, size);
}

void Endpoint::config_write(uint32_t offset, unsigned size, uint32_t value) {
  config_.write(offset, size, value);
  fabric_.set_bus_master(config_.bus_master());
}

void Endpoint::reset() {
  config_ = ConfigSpace(identity_, params_.bars, prefetchable(params_.bars, kHbmBar));
  fabric_.set_bus_master(config_.bus_master());
  owner_.power_on();
}

Endpoint::Target Endpoint::decode(int bar, uint64_t offset) const {
  const contract::AddressMap& map = fabric_.address_map();
  Target target;
  const bool registers = has_registers(bar);
  if (!registers && bar != kHbmBar) return target;
  const uint64_t size = identity_.bar_size[bar];
  if (offset >= size) return target;
  uint64_t left = size - offset;
  if (registers) {
    target.device = map.device_of_bar0(offset);
    target.claimed = target.device != 0;
  } else {
    const uint64_t in = offset % hbm_stride_;
    target.device = map.hbm_base(static_cast<uint32_t>(offset / hbm_stride_)) + in;
    target.claimed = in < map.hbm_size();
    left = std::min(left, hbm_stride_ - in);
  }
  if (!target.claimed) return target;
  target.location = fabric_.locate(target.device);
  target.claimed = target.location.space != Space::kNone;
  target.length = std::min(left, target.location.length);
  return target;
}

void Endpoint::count(AccessLog::Kind kind, int bar, uint64_t offset, bool write) {
  // Register windows by name and word, the rest by page: a scan of a BAR must not fill the log.
  char text[40];
  uint64_t in = 0;
  const Target target = decode(bar, offset);
  const std::string window = target.claimed ? fabric_.window_at(target.device, &in) : "";
  if (!window.empty()) {
    std::snprintf(text, sizeof text, "0x%05llx", static_cast<unsigned long long>(in));
    return log_.count(window, kind, text, write);
  }
  const unsigned long long page = offset / kPage * kPage;
  std::snprintf(text, sizeof text, "bar%d+0x%09llx", bar, page);
  log_.count("pcie", kind, text, write);
}

void Endpoint::bar_read(int bar, uint64_t offset, base::ByteSpan to) {
  access(bar, offset, to.data(), to.size(), false);
}

void Endpoint::bar_write(int bar, uint64_t offset, base::ConstByteSpan from) {
  // Targets only read from the buffer of a write.
  access(bar, offset, const_cast<uint8_t*>(from.data()), from.size(), true);
}

void Endpoint::access(int bar, uint64_t offset, uint8_t* data, size_t size, bool write) {
  ++accesses_;
  if (!write && size != 0) std::memset(data, 0, size);
  if (!config_.memory_enabled()) return;
  // What would wrap around is past the BAR like the rest.
  if (size > ~0ull - offset) return count(AccessLog::Kind::kUnknown, bar, offset, write);
  for (size_t at = 0; at < size;) {
    at += access_once(bar, offset + at, data + at, size - at, write);
  }
}

// Serves the first bytes of an access and says how many: a register word, a stretch of memory, or
// nothing up to the next word.
size_t Endpoint::access_once(int bar, uint64_t offset, uint8_t* data, size_t size, bool write) {
  const size_t to_word = 4 - offset % 4;
  const Target target = decode(bar, offset);
  if (!target.claimed) {
    count(AccessLog::Kind::kUnknown, bar, offset, write);
    return std::min(size, to_word);
  }
  if (target.location.space == Space::kForeign) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(size, target.length));
    uint64_t in = 0;
    Outward* block = fabric_.outward(target.device, &in);
    if (!block->perform(in, data, n, write) && !write) std::memset(data, 0, n);
    return n;
  }
  if (target.location.space != Space::kRegister) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(size, target.length));
    if (write) {
      fabric_.write(target.device, {data, n});
    } else {
      fabric_.read(target.device, {data, n});
    }
    return n;
  }
  if (to_word != 4 || size < 4) {
    count(AccessLog::Kind::kPartial, bar, offset, write);
    return std::min(size, to_word);
  }
  const bool ok =
      write ? fabric_.write(target.device, {data, 4}) : fabric_.read(target.device, {data, 4});
  if (!ok) count(AccessLog::Kind::kUnknown, bar, offset, write);
  return 4;
}

base::Result<pcie::BarMapping> Endpoint::bar_map(int bar, uint64_t offset, uint64_t length) {
  const auto refuse = [&](const char* why) {
    return base::Error{base::Fault::kUnsupported, 0, params_.name,
                       "BAR " + std::to_string(bar) + " offset " + std::to_string(offset) +
                           " length " + std::to_string(length) + ": " + why};
  };
  if (length == 0 || offset % kPage != 0)
    return refuse("a mapping starts at a page and has a length");
  const Target target = decode(bar, offset);
  if (!target.claimed) return refuse("nothing is there");
  if (target.location.space == Space::kHbm) {
    Memory& stack = fabric_.hbm(target.location.index);
    const Memory::InFile in = stack.in_file(target.location.offset);
    if (length > target.length || length > in.length) {
      return refuse("the range leaves its HBM stack or the BAR");
    }
    auto fd = stack.fd();
    if (!fd) return fd.error();
    return pcie::BarMapping{*fd, in.offset, length, true};
  }
  if (target.location.space == Space::kSbuf) {
    Memory& sbuf = fabric_.sbuf(target.location.index);
    if (length > sbuf.size() - target.location.offset) return refuse("the range leaves its SBUF");
    auto fd = sbuf.fd();
    if (!fd) return fd.error();
    return pcie::BarMapping{*fd, target.location.offset, length, true};
  }
  if (target.location.space == Space::kRegister || target.location.space == Space::kBlock) {
    return owner_.map_registers(target.device, length);
  }
  return refuse("this memory has no file behind it");
}

std::vector<pcie::BarArea> Endpoint::bar_areas(int bar) const {
  std::vector<pcie::BarArea> areas;
  if (bar != kHbmBar) return areas;
  const uint64_t size = identity_.bar_size[bar];
  const uint64_t start = fabric_.hbm(0).in_file(0).offset;
  for (uint32_t h = 0; h * hbm_stride_ < size; ++h) {
    const uint64_t offset = h * hbm_stride_;
    const Memory::InFile in = fabric_.hbm(h).in_file(0);
    if (in.offset - start != offset) break;
    const uint64_t length = std::min({in.length, hbm_stride_, size - offset});
    if (!areas.empty() && areas.back().offset + areas.back().length == offset) {
      areas.back().length += length;
    } else {
      areas.push_back({offset, length});
    }
  }
  return areas;
}

}  // namespace hw
