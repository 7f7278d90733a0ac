#include "hw/mem/fabric.h"

#include <algorithm>
#include <cstring>

namespace hw {

using contract::AddressMap;
namespace tpb = contract::tpb;

namespace {
bool slower(base::Rate a, base::Rate b) {
  return static_cast<unsigned __int128>(a.bytes) * b.ps <
         static_cast<unsigned __int128>(b.bytes) * a.ps;
}
}  // namespace

Fabric::Fabric(const Params& params, const TimingParams& timing, AccessLog& log)
    : params_(params),
      timing_(timing),
      log_(log),
      dma_chip_(params.name + ".fabric", timing.dma_chip),
      pcie_up_(params.name + ".pcie.up", timing.pcie),
      pcie_down_(params.name + ".pcie.down", timing.pcie) {
  const AddressMap& map = params_.map;
  // All stacks in one file, laid out as BAR4 shows them, so that a client maps the BAR from it.
  // What the BAR has no room for is behind.
  const uint64_t pitch = params_.hbm_pitch != 0 ? params_.hbm_pitch : map.bar4_stride();
  const uint64_t inside = std::min(pitch, map.hbm_size());
  const uint64_t outside = map.hbm_size() - inside;
  const auto file =
      std::make_shared<MemoryFile>(params_.name + ".hbm", map.hbms() * (pitch + outside));
  for (uint32_t h = 0; h < map.hbms(); ++h) {
    const std::string name = params_.name + ".hbm" + std::to_string(h);
    const FilePlace place{h * pitch, inside, map.hbms() * pitch + h * outside};
    hbm_.push_back(std::make_unique<Memory>(file, place, name, map.hbm_size()));
    hbm_time_.push_back(std::make_unique<BandwidthResource>(name, timing.hbm_stack));
  }
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    const std::string name = params_.name + ".nc" + std::to_string(n);
    sbuf_.push_back(std::make_unique<Memory>(name + ".sbuf", tpb::kSbufWindow,
                                             Memory::Backing::kPrivate, tpb::kPartitionStride));
    psum_.push_back(std::make_unique<Memory>(name + ".psum", tpb::kPsumStride * tpb::kPartitions,
                                             Memory::Backing::kPrivate, tpb::kPsumStride));
  }
  crossing_.resize(size_t{map.hbms()} * map.hbms());
  core_reads_.resize(crossing_.size());
}

Fabric::~Fabric() = default;

bool Fabric::map(uint64_t device, uint64_t size, BusTarget& target, uint64_t base,
                 const std::string& name, Space space) {
  return insert({device, size, &target, base, name, space});
}

bool Fabric::map(uint64_t device, uint64_t size, Outward& target) {
  return insert({device, size, nullptr, 0, target.outward_name(), Space::kForeign, &target});
}

bool Fabric::insert(Mapped window) {
  const uint64_t device = window.device;
  auto at = std::lower_bound(windows_.begin(), windows_.end(), device,
                             [](const Mapped& w, uint64_t a) { return w.device < a; });
  if (window.size == 0 || (at != windows_.end() && at->device < device + window.size)) return false;
  if (at != windows_.begin() && std::prev(at)->device + std::prev(at)->size > device) return false;
  windows_.insert(at, std::move(window));
  last_window_ = 0;
  changed();
  return true;
}

Location Fabric::locate_tpb(uint32_t nc, uint64_t offset) const {
  if (offset < tpb::kSbufWindow) {
    const uint64_t in = offset % tpb::kPartitionStride;
    const uint64_t populated = params_.map.sbuf_partition_bytes();
    if (in >= populated) return {};
    if (populated == tpb::kPartitionStride) {
      return {Space::kSbuf, nc, offset, tpb::kSbufWindow - offset};
    }
    return {Space::kSbuf, nc, offset, populated - in};
  }
  const uint64_t psum = offset - tpb::kPsum;
  if (psum < tpb::kPsumStride * tpb::kPartitions) {
    const uint64_t in = psum % tpb::kPsumStride;
    if (in >= tpb::kPsumPartitionBytes) return {};
    return {Space::kPsum, nc, psum, tpb::kPsumPartitionBytes - in};
  }
  return {};
}

Location Fabric::locate_register(uint64_t address) const {
  if (windows_.empty()) return {};
  size_t i = last_window_;
  if (address - windows_[i].device >= windows_[i].size) {
    auto after = std::upper_bound(windows_.begin(), windows_.end(), address,
                                  [](uint64_t a, const Mapped& w) { return a < w.device; });
    if (after == windows_.begin()) return {};
    i = static_cast<size_t>(after - windows_.begin()) - 1;
    if (address - windows_[i].device >= windows_[i].size) return {};
    last_window_ = i;
  }
  const uint64_t offset = address - windows_[i].device;
  return {windows_[i].space, static_cast<uint32_t>(i), offset, windows_[i].size - offset};
}

// The low 50 bits go out unchanged (spec/hw-registers.md 9.2), but the neighbour's host memory is
// not reached: a host is open to its own devices only.
Location Fabric::locate_neighbour(uint64_t address) const {
  const AddressMap& map = params_.map;
  const uint64_t local = AddressMap::neighbour_local(address);
  if (map.is_host(local)) return {};
  const uint32_t window = AddressMap::neighbour_window(address);
  const uint64_t left = AddressMap::neighbour_local(~0ull) - local + 1;
  const uint32_t chip =
      port_ != nullptr ? port_->neighbour(params_.chip, window) : ChipPort::kNoChip;
  if (chip == ChipPort::kNoChip) return {Space::kNoLink, window, local, left};
  return {Space::kPeer, chip, local, left};
}

std::string Fabric::window_at(uint64_t address, uint64_t* offset) const {
  const Location at = locate_register(address);
  *offset = at.offset;
  return at.space == Space::kNone ? std::string() : windows_[at.index].name;
}

Location Fabric::locate(uint64_t address) const {
  const AddressMap& map = params_.map;
  // Peer windows first: on v2 they would else look like high local addresses.
  if (map.is_peer(address)) {
    const uint32_t chip = map.peer_chip(address);
    const uint64_t local = map.peer_local(address);
    if (chip == params_.chip && !map.is_peer(local)) return locate(local);
    return {Space::kPeer, chip, local, ~0ull};
  }
  if (map.is_host(address)) {
    const uint64_t phys = address - map.host_window();
    return {Space::kHost, 0, phys, map.host_limit() - phys};
  }
  if (map.is_neighbour(address)) return locate_neighbour(address);
  for (uint32_t h = 0; h < map.hbms(); ++h) {
    const uint64_t offset = address - map.hbm_base(h);
    if (offset < map.hbm_size()) return {Space::kHbm, h, offset, map.hbm_size() - offset};
  }
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    const uint64_t offset = address - map.nc(n).device;
    if (offset < tpb::kBarWindow) {
      const Location at = locate_tpb(n, offset);
      if (at.space != Space::kNone) return at;
      break;
    }
  }
  return locate_register(address);
}

Space Fabric::stands_at(uint64_t address, uint64_t length) const {
  const Location at = locate(address);
  if (at.space == Space::kPeer) {
    const Fabric* peer = peer_of(at);
    return peer != nullptr ? peer->stands_at(at.offset, length) : Space::kNone;
  }
  if (length > at.length || (at.space == Space::kHost && host() == nullptr)) return Space::kNone;
  return at.space;
}

Space Fabric::reach(uint64_t address, uint64_t length) const {
  const Space space = stands_at(address, length);
  const Location at = locate(address);
  if (space == Space::kNone || at.space != Space::kPeer || at.index == params_.chip) return space;
  return port_->answers(params_.chip, at.index) ? space : Space::kNoLink;
}

Fabric* Fabric::peer_of(const Location& at) const {
  Fabric* peer = port_ != nullptr ? port_->peer(params_.chip, at.index) : nullptr;
  return peer == this ? nullptr : peer;
}

uint8_t* Fabric::direct(Memory& memory, uint64_t offset, uint64_t length) {
  uint8_t* at = memory.at(offset, length);
  if (at == nullptr && !memory.status().ok()) {
    log_.count(memory.name(), AccessLog::Kind::kUnsupported, "host memory for it", false);
  }
  return at;
}

uint8_t* Fabric::direct(uint64_t address, uint64_t length) {
  const Location at = locate(address);
  if (length > at.length) return nullptr;
  switch (at.space) {
    case Space::kHbm:
      return direct(*hbm_[at.index], at.offset, length);
    case Space::kSbuf:
      return direct(*sbuf_[at.index], at.offset, length);
    case Space::kPsum:
      return direct(*psum_[at.index], at.offset, length);
    case Space::kHost:
      return host() != nullptr ? host()->direct(at.offset, length) : nullptr;
    case Space::kPeer: {
      Fabric* peer = peer_of(at);
      return peer != nullptr ? peer->direct(at.offset, length) : nullptr;
    }
    case Space::kRegister:
    case Space::kBlock:
    case Space::kForeign:
    case Space::kNoLink:
    case Space::kNone:
      return nullptr;
  }
  return nullptr;
}

Outward* Fabric::outward(uint64_t address, uint64_t* offset) const {
  const Location at = locate(address);
  *offset = at.offset;
  switch (at.space) {
    case Space::kForeign:
      return windows_[at.index].outward;
    case Space::kHost:
      return host() != nullptr && host_outward_ != nullptr &&
                     host()->direct(at.offset, 1) == nullptr
                 ? host_outward_
                 : nullptr;
    case Space::kPeer: {
      const Fabric* peer = peer_of(at);
      return peer != nullptr ? peer->outward(at.offset, offset) : nullptr;
    }
    default:
      return nullptr;
  }
}

Memory* Fabric::plain(uint64_t address, uint64_t* offset) {
  const Location at = locate(address);
  *offset = at.offset;
  switch (at.space) {
    case Space::kHbm:
      return hbm_[at.index].get();
    case Space::kSbuf:
      return sbuf_[at.index].get();
    case Space::kPsum:
      return psum_[at.index].get();
    case Space::kPeer: {
      Fabric* peer = peer_of(at);
      return peer != nullptr ? peer->plain(at.offset, offset) : nullptr;
    }
    default:
      return nullptr;
  }
}

BusTarget* Fabric::block(uint64_t address, uint64_t* offset) const {
  const Location at = locate(address);
  if (at.space == Space::kPeer) {
    const Fabric* peer = peer_of(at);
    return peer != nullptr ? peer->block(at.offset, offset) : nullptr;
  }
  if (at.space != Space::kRegister) return nullptr;
  *offset = windows_[at.index].base + at.offset;
  return windows_[at.index].target;
}

bool Fabric::access(uint64_t address, uint8_t* data, size_t size, bool write, bool debug) {
  return access(address, locate(address), data, size, write, debug);
}

bool Fabric::access(uint64_t address, const Location& at, uint8_t* data, size_t size, bool write,
                    bool debug) {
  if (size > at.length) return false;
  switch (at.space) {
    case Space::kNone:
    case Space::kNoLink:
      return false;
    case Space::kRegister:
    case Space::kBlock: {
      const Mapped& window = windows_[at.index];
      return window.target->access(window.base + at.offset, data, size, write, debug);
    }
    case Space::kForeign: {
      Outward& outward = *windows_[at.index].outward;
      if (!write || debug) return outward.look(at.offset, data, size, write);
      outward.post(at.offset, {data, size});
      return true;
    }
    case Space::kPeer: {
      Fabric* peer = peer_of(at);
      return peer != nullptr && peer->access(at.offset, data, size, write, debug);
    }
    case Space::kHost:
      if (host() == nullptr) return false;
      return write ? host_->write(at.offset, {data, size}) : host_->read(at.offset, {data, size});
    case Space::kHbm:
    case Space::kSbuf:
    case Space::kPsum: {
      uint8_t* memory = direct(address, size);
      if (memory == nullptr) return false;
      if (write) {
        std::memcpy(memory, data, size);
      } else {
        std::memcpy(data, memory, size);
      }
      return true;
    }
  }
  return false;
}

bool Fabric::read(uint64_t address, base::ByteSpan to, bool debug) {
  if (access(address, to.data(), to.size(), false, debug)) return true;
  std::memset(to.data(), 0, to.size());
  return false;
}

bool Fabric::write(uint64_t address, base::ConstByteSpan from, bool debug) {
  // Targets only read from the buffer of a write.
  return access(address, const_cast<uint8_t*>(from.data()), from.size(), true, debug);
}

bool Fabric::store(uint64_t address, base::ConstByteSpan from) {
  const Location at = locate(address);
  if (at.space == Space::kPeer && reach(address, from.size()) == Space::kNoLink) return false;
  return access(address, at, const_cast<uint8_t*>(from.data()), from.size(), true, false);
}

bool Fabric::read32(uint64_t address, uint32_t& value, bool debug) {
  uint8_t bytes[4] = {};
  const bool ok = read(address, {bytes, 4}, debug);
  value = base::load<uint32_t>(bytes);
  return ok;
}

bool Fabric::write32(uint64_t address, uint32_t value, bool debug) {
  uint8_t bytes[4];
  base::store(bytes, value);
  return write(address, {bytes, 4}, debug);
}

uint32_t Fabric::domain_of_engine(uint32_t engine) const {
  if (engine >= params_.map.compute_engines()) return kNoDomain;
  return params_.map.hbm_of_nc(params_.map.nc_of_engine(engine));
}

uint32_t Fabric::domain_of(const Location& at) const {
  switch (at.space) {
    case Space::kHbm:
      return at.index;
    case Space::kSbuf:
    case Space::kPsum:
      return params_.map.hbm_of_nc(at.index);
    default:
      return kNoDomain;
  }
}

// `name` only makes the name when it is needed: engines ask for a way again and again.
template <typename Name>
BandwidthResource& Fabric::made(std::unique_ptr<BandwidthResource>& resource, base::Rate rate,
                                Name&& name) {
  if (resource == nullptr) {
    resource = std::make_unique<BandwidthResource>(name(), rate);
    resource->set_tracer(tracer_);
  }
  return *resource;
}

BandwidthResource& Fabric::crossing(uint32_t from, uint32_t to) {
  return made(crossing_[size_t{from} * params_.map.hbms() + to], timing_.core_fabric, [&] {
    return params_.name + ".cross" + std::to_string(from) + "to" + std::to_string(to);
  });
}

// Reads across the fabric are slower than writes, where the parameters say so: they wait for
// answers.
void Fabric::limit_reads(uint32_t from, uint32_t by, uint64_t bytes, Charges& charges) {
  if (from == kNoDomain || by == kNoDomain || from == by) return;
  if (slower(timing_.core_reads, timing_.core_fabric)) {
    auto& resource = core_reads_[size_t{from} * params_.map.hbms() + by];
    charges.add(
        made(resource, timing_.core_reads, [&] { return crossing(from, by).name() + ".reads"; }),
        bytes);
  }
  const BandwidthResource* dies = between_dies(from, by);
  if (dies != nullptr && slower(timing_.die_reads, timing_.die_to_die)) {
    auto& resource = die_reads_[from / kDomainsPerDie];
    charges.add(made(resource, timing_.die_reads, [&] { return dies->name() + ".reads"; }), bytes);
  }
}

BandwidthResource* Fabric::between_dies(uint32_t from, uint32_t to) {
  const uint32_t die = from / kDomainsPerDie;
  if (params_.map.v2() || die == to / kDomainsPerDie) return nullptr;
  return &made(die_to_die_[die], timing_.die_to_die, [&] {
    return params_.name + ".die" + std::to_string(die) + "to" + std::to_string(1 - die);
  });
}

void Fabric::cross(uint32_t from, uint32_t to, uint64_t bytes, Charges& charges) {
  if (from == kNoDomain || to == kNoDomain || from == to) return;
  charges.add(crossing(from, to), bytes);
  if (BandwidthResource* dies = between_dies(from, to)) charges.add(*dies, bytes);
}

void Fabric::add_crossing(uint32_t from, uint32_t to, std::vector<BandwidthResource*>& hops) {
  if (from == to) return;
  hops.push_back(&crossing(from, to));
  if (BandwidthResource* dies = between_dies(from, to)) hops.push_back(dies);
}

template <typename Function>
void Fabric::for_each_made(Function&& function) {
  const auto visit = [&](auto& all) {
    for (auto& resource : all) {
      if (resource != nullptr) function(*resource);
    }
  };
  visit(crossing_);
  visit(core_reads_);
  visit(die_to_die_);
  visit(die_reads_);
}

void Fabric::set_tracer(Tracer* tracer) {
  tracer_ = tracer;
  pcie_up_.set_tracer(tracer);
  pcie_down_.set_tracer(tracer);
}

void Fabric::trace_last() {
  for_each_made([](BandwidthResource& r) { r.trace_last(); });
  pcie_up_.trace_last();
  pcie_down_.trace_last();
}

void Fabric::path(uint32_t domain, uint64_t address, bool write, uint64_t bytes, Charges& to) {
  // Every byte passes the chip's DMA fabric once; it is counted where it is read.
  if (!write && domain != kNoDomain) to.add(dma_chip_, bytes);
  const Location at = locate(address);
  switch (at.space) {
    case Space::kHbm:
      to.add(*hbm_time_[at.index], bytes);
      break;
    case Space::kHost:
      to.add(write ? pcie_up_ : pcie_down_, bytes);
      break;
    case Space::kPeer:
      peer_path(domain, at, write, bytes, to);
      return;
    default:
      break;
  }
  const uint32_t there = domain_of(at);
  if (write) return cross(domain, there, bytes, to);
  cross(there, domain, bytes, to);
  limit_reads(there, domain, bytes, to);
}

void Fabric::peer_path(uint32_t domain, const Location& at, bool write, uint64_t bytes,
                       Charges& to) {
  Fabric* peer = peer_of(at);
  if (peer == nullptr) return;
  const Location far = peer->locate(at.offset);
  if (far.space == Space::kHbm) to.add(*peer->hbm_time_[far.index], bytes);
  Fabric& source = write ? *this : *peer;
  Fabric& sink = write ? *peer : *this;
  const uint32_t begin = write ? domain : peer->domain_of(far);
  const uint32_t end = write ? peer->domain_of(far) : domain;
  const ChipPort::RouteHops route = port_->hops(source.chip(), sink.chip(), begin);
  source.cross(begin, route.exit, bytes, to);
  for (uint32_t i = 0; i < route.count; ++i) to.add(*route.hops[i], bytes);
  sink.cross(route.entry, end, bytes, to);
}

base::Ps Fabric::round_trip(const Location& peer) const {
  if (peer_of(peer) == nullptr) return 0;
  return port_->latency(params_.chip, peer.index) + port_->latency(peer.index, params_.chip);
}

base::Ps Fabric::read_latency(uint64_t address) const {
  const Location at = locate(address);
  if (at.space == Space::kPeer) return round_trip(at);
  return at.space == Space::kHbm ? timing_.hbm_latency : 0;
}

base::Ps Fabric::write_latency(uint64_t address) const {
  const Location at = locate(address);
  return at.space == Space::kPeer ? round_trip(at) : 0;
}

base::Ps Fabric::one_way_latency(uint64_t address) const {
  const Location at = locate(address);
  if (at.space != Space::kPeer || peer_of(at) == nullptr) return 0;
  return port_->latency(params_.chip, at.index);
}

std::vector<BandwidthResource*> Fabric::resources() {
  std::vector<BandwidthResource*> all;
  for (auto& r : hbm_time_) all.push_back(r.get());
  for_each_made([&](BandwidthResource& r) { all.push_back(&r); });
  all.insert(all.end(), {&dma_chip_, &pcie_up_, &pcie_down_});
  return all;
}

}  // namespace hw
