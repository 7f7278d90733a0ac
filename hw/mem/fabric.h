// One chip's on-chip fabric: decodes device addresses and leads every access to what stands there.
// Source: spec/hw-registers.md 2 and docs/hardware-contract.md 1.
//
//   control plane  read, write, read32, write32: immediate; false is a bus error
//   data plane     direct: pointer to a contiguous range of plain memory
//   time plane     path: the bandwidth resources that a transfer occupies
//
// Exact: addresses, bus errors. Approximate: which resources a transfer crosses. Between cores, the
// memory of a core group (v2: a core and its HBM; v3, v4: an S-engine, a core pair and its HBM) is
// one domain, and each ordered pair of domains has one resource; so has each direction between the
// dies of v3 and v4 (two S-engines each). A DMA engine sits in the domain of its core, the
// host-copy engines in none. A link that belongs to an S-engine begins and ends in its domain;
// others cross nothing. SBUF and PSUM bandwidth is not modelled (20 times HBM, spec/timing.md 6).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/pcie/pcie.h"
#include "base/span.h"
#include "hw/mem/bus.h"
#include "hw/mem/memory.h"
#include "hw/mem/outward.h"
#include "hw/params.h"
#include "hw/stats.h"
#include "hw/time/bandwidth.h"

namespace hw {

class Fabric;

// How other chips are reached; links implement it.
class ChipPort {
 public:
  virtual ~ChipPort() = default;
  // Fabric of another chip, or null where no route exists (a bus error).
  virtual Fabric* peer(uint32_t self, uint32_t chip) = 0;
  // What a transfer from chip to chip occupies on its route, and the domains by whose ports it
  // leaves the first and enters the last one; kNoDomain: nothing has to be crossed to get there.
  struct RouteHops {
    BandwidthResource* const* hops = nullptr;
    uint32_t count = 0;
    uint32_t exit = ~0u;
    uint32_t entry = ~0u;
  };
  // `domain`: where it comes from in the first chip. Called for every packet.
  virtual RouteHops hops(uint32_t /*from*/, uint32_t /*to*/, uint32_t /*domain*/) { return {}; }
  // Whether accesses that start now get an answer.
  virtual bool answers(uint32_t /*self*/, uint32_t /*chip*/) { return true; }
  // The chip behind inter-server window `window` of chip `self`, or kNoChip without a cable.
  virtual uint32_t neighbour(uint32_t /*self*/, uint32_t /*window*/) const { return kNoChip; }
  // From one chip to another.
  virtual base::Ps latency(uint32_t /*from*/, uint32_t /*to*/) { return 0; }

  static constexpr uint32_t kNoChip = ~0u;
};

// kBlock is memory inside a block (a CC-core's programs): reached like registers, but any access
// will do.
// kNoLink is an inter-server window without a cable, or a peer behind a link that is down: a DMA
// access to it is never answered. kForeign is a window of a block that others wrote (hw/block).
enum class Space : uint8_t {
  kNone,
  kHbm,
  kSbuf,
  kPsum,
  kHost,
  kRegister,
  kBlock,
  kPeer,
  kNoLink,
  kForeign
};

// Where an address leads, and how many contiguous bytes from there lie in the same place.
struct Location {
  Space space = Space::kNone;
  uint32_t index = 0;   // HBM stack, NC, chip, or window
  uint64_t offset = 0;  // in the memory or window; host physical address; address at the peer
  uint64_t length = 0;
};

class Fabric {
 public:
  struct Params {
    std::string name = "chip";  // prefix of resource and memory names
    contract::AddressMap map;
    uint32_t chip = 0;       // platform-wide number
    uint64_t hbm_pitch = 0;  // of the stacks in their file; 0: as in BAR4
  };
  static constexpr uint32_t kNoDomain = ~0u;
  static constexpr uint32_t kDomainsPerDie = 2;  // v3, v4

  Fabric(const Params& params, const TimingParams& timing, AccessLog& log);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const contract::AddressMap& address_map() const { return params_.map; }
  uint32_t chip() const { return params_.chip; }
  const std::string& name() const { return params_.name; }
  AccessLog& log() { return log_; }

  // Counts the changes of where addresses lead and what a transfer occupies. Who remembers either
  // (hw/dma/path_cache.h) asks again after one.
  uint64_t version() const { return version_; }
  void changed() { ++version_; }

  // `outward`: by which payload reaches memory of the host to which there is no pointer; null: by
  // `host` itself.
  void set_host(pcie::HostMemory* host, Outward* outward = nullptr) {
    host_ = host;
    host_outward_ = outward;
    changed();
  }
  // Without bus mastering host memory is out of reach: every access to it is a bus error.
  void set_bus_master(bool on) {
    if (on != bus_master_) changed();
    bus_master_ = on;
  }
  pcie::HostMemory* host() const { return bus_master_ ? host_ : nullptr; }
  void set_port(ChipPort* port) {
    port_ = port;
    changed();
  }
  // Spans of the busy periods of each direction between cores and over PCIe.
  void set_tracer(Tracer* tracer);
  void trace_last();  // those that have not ended for certain

  // Puts a register window at a device address. Accesses reach `target` at base + offset in the
  // window. Windows must not overlap; false if they do.
  [[nodiscard]] bool map(uint64_t device, uint64_t size, BusTarget& target, uint64_t base,
                         const std::string& name, Space space = Space::kRegister);
  // The same for a block that others wrote.
  [[nodiscard]] bool map(uint64_t device, uint64_t size, Outward& target);

  // Control plane. At a block of others a write is posted; a read sees what its debug interface
  // shows: whoever needs more asks outward(). A read that fails leaves zeros.
  bool read(uint64_t address, base::ByteSpan to, bool debug = false);
  bool write(uint64_t address, base::ConstByteSpan from, bool debug = false);
  bool read32(uint64_t address, uint32_t& value, bool debug = false);
  bool write32(uint64_t address, uint32_t value, bool debug = false);
  // A store that sets out now: without an answer a bus error. Others have been on their way.
  bool store(uint64_t address, base::ConstByteSpan from);

  // Data plane. Null unless the whole range is plain memory that one pointer can span. HBM and SBUF
  // pages appear on first use of the pointer.
  uint8_t* direct(uint64_t address, uint64_t length);
  // The same for a memory that plain() has found. Memory that the host refuses to give looks like a
  // bus error to the device; the log tells why.
  uint8_t* direct(Memory& memory, uint64_t offset, uint64_t length);
  // The plain memory behind an address and the offset in it; null for the host and registers.
  Memory* plain(uint64_t address, uint64_t* offset);
  // The block whose window stands at an address and the offset in it; null for everything else.
  BusTarget* block(uint64_t address, uint64_t* offset) const;
  // Who has to be asked for what stands at an address, and the offset there: a block of others, or
  // a host to whose memory there is no pointer. Null for everything else.
  Outward* outward(uint64_t address, uint64_t* offset) const;
  bool asks_host(uint64_t address) const {
    uint64_t offset = 0;
    return host_outward_ != nullptr && outward(address, &offset) != nullptr;
  }
  Location locate(uint64_t address) const;
  // "d0.dma5" and the offset in it, for logs; empty where no window of this chip stands.
  std::string window_at(uint64_t address, uint64_t* offset) const;
  bool is_register(uint64_t address) const { return stands_at(address, 4) == Space::kRegister; }
  // What stands at [address, address + length), on whichever chip; kNone unless one space holds all
  // of it. Host memory is taken on trust: only an access shows whether it is there.
  Space reach(uint64_t address, uint64_t length) const;  // by an access that sets out now
  Space stands_at(uint64_t address, uint64_t length) const;

  // Time plane. Domain of a DMA engine of this chip, for path().
  uint32_t domain_of_engine(uint32_t engine) const;
  // Adds what `bytes` at `address` occupy when an engine of `domain` reads or writes them: the same
  // resources wherever in one place, in proportion to the bytes.
  void path(uint32_t domain, uint64_t address, bool write, uint64_t bytes, Charges& to);
  // Adds what traffic between two domains of this chip occupies: nothing when they are the same.
  void add_crossing(uint32_t from, uint32_t to, std::vector<BandwidthResource*>& hops);
  // Further latency of a read from `address`, and until a write to it is acknowledged.
  base::Ps read_latency(uint64_t address) const;
  base::Ps write_latency(uint64_t address) const;
  // From a store to `address` until it is there: 0 on this chip.
  base::Ps one_way_latency(uint64_t address) const;

  Memory& hbm(uint32_t h) { return *hbm_[h]; }
  Memory& sbuf(uint32_t nc) { return *sbuf_[nc]; }
  Memory& psum(uint32_t nc) { return *psum_[nc]; }
  BandwidthResource& hbm_resource(uint32_t h) { return *hbm_time_[h]; }
  // All resources of the chip's fabric, in a fixed order, for reports.
  std::vector<BandwidthResource*> resources();

 private:
  struct Mapped {
    uint64_t device;
    uint64_t size;
    BusTarget* target;
    uint64_t base;
    std::string name;
    Space space;
    Outward* outward = nullptr;  // in place of `target`
  };
  bool insert(Mapped window);
  Location locate_register(uint64_t address) const;
  Location locate_tpb(uint32_t nc, uint64_t offset) const;
  Location locate_neighbour(uint64_t address) const;
  base::Ps round_trip(const Location& peer) const;
  Fabric* peer_of(const Location& at) const;
  bool access(uint64_t address, uint8_t* data, size_t size, bool write, bool debug);
  bool access(uint64_t address, const Location& at, uint8_t* data, size_t size, bool write,
              bool debug);
  uint32_t domain_of(const Location& at) const;
  void peer_path(uint32_t domain, const Location& at, bool write, uint64_t bytes, Charges& to);
  void cross(uint32_t from, uint32_t to, uint64_t bytes, Charges& charges);
  BandwidthResource& crossing(uint32_t from, uint32_t to);
  void limit_reads(uint32_t from, uint32_t by, uint64_t bytes, Charges& charges);
  template <typename Name>
  BandwidthResource& made(std::unique_ptr<BandwidthResource>& resource, base::Rate rate,
                          Name&& name);
  template <typename Function>
  void for_each_made(Function&& function);
  BandwidthResource* between_dies(uint32_t from, uint32_t to);  // null within a die

  Params params_;
  TimingParams timing_;
  AccessLog& log_;
  pcie::HostMemory* host_ = nullptr;
  Outward* host_outward_ = nullptr;
  bool bus_master_ = true;
  ChipPort* port_ = nullptr;
  uint64_t version_ = 0;
  Tracer* tracer_ = nullptr;
  std::vector<Mapped> windows_;  // sorted by device address
  mutable size_t last_window_ = 0;
  std::vector<std::unique_ptr<Memory>> hbm_, sbuf_, psum_;
  std::vector<std::unique_ptr<BandwidthResource>> hbm_time_;
  // Made on use: between domains, by origin x destination; between dies, by origin.
  std::vector<std::unique_ptr<BandwidthResource>> crossing_, core_reads_;
  std::array<std::unique_ptr<BandwidthResource>, 2> die_to_die_, die_reads_;
  BandwidthResource dma_chip_, pcie_up_, pcie_down_;
};

}  // namespace hw
