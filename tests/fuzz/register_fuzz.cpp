// Untrusted accesses to the PCIe functions of a v2, a v3 and a v4 chip: any BAR, offset, size and
// value, configuration space, mappings, resets, and the machine running in between.
//
// One step is 12 bytes {action, where, index, shape, offset32, value32}; see window() for what
// `where` and `index` select and size_of() for `shape`. Accesses of more than 4 bytes take their
// data from the input. Invariants: an access never leaves its buffer (each has an allocation of its
// own), a granted mapping lies in its file, a slice of time returns, and a PCI or device
// reset brings everything to rest.
#include <sys/stat.h>

#include "arch/contract/reg.h"
#include "contract/regs/cc.h"
#include "contract/regs/engine.h"
#include "contract/regs/errtrig.h"
#include "contract/regs/misc.h"
#include "contract/regs/nq.h"
#include "contract/regs/sdma.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/machine_bench.h"

namespace fuzz {
namespace {

using contract::AddressMap;
using contract::RegInfo;

constexpr size_t kMaxSteps = 96;

struct Step {
  uint8_t action;
  uint8_t where;
  uint8_t index;
  uint8_t shape;
  uint32_t offset;
  uint32_t value;
};

// A window of a BAR and, where there is a register map, the registers in it.
struct Target {
  int bar = 0;
  uint64_t base = 0;
  uint64_t size = 0;
  const RegInfo* registers = nullptr;
  size_t count = 0;
  uint64_t in_window = 0;  // of the first register's block
};

template <size_t N>
Target with(Target target, const RegInfo (&registers)[N], uint64_t in_window = 0) {
  target.registers = registers;
  target.count = N;
  target.in_window = in_window;
  return target;
}

Target at(int bar, const contract::Window& w) {
  return {bar, w.bar0, w.size, nullptr, 0, 0};
}

Target core_window(const AddressMap& map, int bar, uint8_t where, uint8_t index) {
  const contract::Window core = map.nc(index % map.ncs());
  if (where == 7) {
    return with(
        {bar, core.bar0 + contract::tpb::kSemaphores, contract::kSemaphoreBlock, nullptr, 0, 0},
        contract::sem::kRegs);
  }
  const uint64_t engine =
      contract::tpb::kEngine + (index / 8) % contract::kEnginesPerNc * contract::tpb::kEngineStride;
  if (where == 8) {
    return with({bar, core.bar0 + engine, contract::tpb::kEngineBlock, nullptr, 0, 0},
                contract::engine::kRegs);
  }
  return at(bar, core);
}

Target other_window(const AddressMap& map, int bar, uint8_t where, uint8_t index) {
  switch (where) {
    case 9:
      return at(bar, map.topsp(index % map.topsps()));
    case 10:
      return with(at(bar, map.topsp(index % map.topsps())), contract::cc::kRegs);
    case 11:
      return with(at(bar, map.misc_ram()), contract::misc::kRegs);
    case 12:
      return at(bar, index % 2 == 0 ? map.qemu_reset() : map.pe_counters(index / 2 % map.ncs()));
    case 13:
      return with(at(bar, map.broadcast(index % map.ncs())), contract::udma::kRegs);
    default:
      break;
  }
  const uint64_t stack = index % map.hbms() * map.bar4_stride();
  const uint64_t end = index < 128 ? 0 : map.hbm_size() - 0x1000;  // where the stack ends
  return {4, stack + end, 0x2000, nullptr, 0, 0};
}

Target window(const AddressMap& map, int bar, uint8_t where, uint8_t index) {
  const uint32_t e = index % map.dma_engines();
  const contract::Window sdma = map.sdma(e);
  switch (where % 16) {
    case 0:
    case 1:
      return with(at(bar, map.udma(e)), contract::udma::kRegs);
    case 2:
      return with(at(bar, sdma), contract::sdma::kRegs);
    case 3:
      return map.v2() ? at(bar, sdma)
                      : with(at(bar, map.error_trigger(e % map.compute_engines())),
                             contract::errtrig::kRegs);
    case 4:
      return with({bar, sdma.bar0 + 0x1000, contract::kNqBlock, nullptr, 0, 0},
                  contract::nq::kRegs);
    case 5:
      return with(at(bar, map.nc_nq(index % map.ncs())), contract::nq::kRegs);
    case 6:
      return with(at(bar, map.topsp_nq(index % map.topsps())), contract::nq::kRegs);
    case 7:
    case 8:
    case 14:
      return core_window(map, bar, where % 16, index);
    default:
      return other_window(map, bar, where % 16, index);
  }
}

// Bit 7 of `where`: `offset` counts registers (low half) and elements of an array (high half).
uint64_t offset_in(const Target& t, const Step& s) {
  if ((s.where & 0x80) != 0 && t.count != 0) {
    const RegInfo& reg = t.registers[(s.offset & 0xFFFF) % t.count];
    return t.in_window + reg.offset + (s.offset >> 16) % reg.count * reg.stride;
  }
  const uint64_t offset = t.size == 0 ? 0 : s.offset % t.size;
  return (s.shape & 0x40) != 0 ? offset : offset & ~3ull;
}

size_t size_of(uint8_t shape) {
  constexpr size_t kSizes[16] = {4, 4, 4, 4, 4, 0, 8, 1, 2, 3, 5, 7, 12, 16, 64, 320};
  return kSizes[shape & 15];
}

class Stream {
 public:
  explicit Stream(Input& input) : input_(input) {}

  void step() {
    const Step s = input_.take<Step>();
    const uint32_t c = (s.action >> 4) % MachineBench::kChips;
    const AddressMap& map = bench_.chip(c).address_map();
    pcie::Device& device = bench_.machine().device(c);
    const Target t = window(map, bench_.register_bar(c), s.where & 0x7F, s.index);
    const uint64_t offset = t.base + offset_in(t, s);
    switch (s.action & 15) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return write(device, t.bar, offset, s);
      case 5:
      case 6:
      case 7:
        return read(device, t.bar, offset, s);
      case 8:  // anywhere
        return write(device, s.where % 6, far_offset(s), s);
      case 9:
        return read(device, s.where % 6, far_offset(s), s);
      case 10:
        return config(device, s);
      case 11:
        return map_bar(device, t.bar, offset, s);
      case 12:
        return guest_store(s);
      case 13:  // a PCI reset, or a device or core reset by the mailbox
        if ((s.shape & 8) != 0) return device.reset();
        device.write32(bench_.register_bar(c), map.misc_ram().bar0 + contract::misc::kResetMap,
                       s.offset);
        device.write32(bench_.register_bar(c), map.misc_ram().bar0 + contract::misc::kResetRequest,
                       s.value);
        device.write32(bench_.register_bar(c), map.misc_ram().bar0 + contract::misc::kTrigger, 1);
        return;
      default:
        (void)bench_.run(base::ns(100) + base::ns(s.offset % 20'000));
        return;
    }
  }

 private:
  static uint64_t far_offset(const Step& s) {
    return s.offset | static_cast<uint64_t>(s.index) << 32 |
           static_cast<uint64_t>(s.where / 6) << 58;
  }

  std::vector<uint8_t> data(const Step& s) {
    const size_t n = size_of(s.shape);
    if (n > sizeof s.value) return input_.bytes(n);
    std::vector<uint8_t> bytes(n);
    if (n != 0) std::memcpy(bytes.data(), &s.value, n);
    return bytes;
  }

  void write(pcie::Device& device, int bar, uint64_t offset, const Step& s) {
    device.bar_write(bar, offset, data(s));
  }

  static void read(pcie::Device& device, int bar, uint64_t offset, const Step& s) {
    std::vector<uint8_t> bytes(size_of(s.shape), 0xA5);  // of size 0, too
    device.bar_read(bar, offset, bytes);
  }

  // `size` 1, 2 or 4, naturally aligned, anywhere.
  static void config(pcie::Device& device, const Step& s) {
    const unsigned size = 1u << s.shape % 3;
    const uint32_t offset = ((s.where & 0x40) != 0 ? s.offset : s.offset % 256) & ~(size - 1);
    if ((s.where & 1) != 0) {
      device.config_write(offset, size, s.value);
    } else {
      (void)device.config_read(offset, size);
    }
  }

  static void map_bar(pcie::Device& device, int bar, uint64_t offset, const Step& s) {
    const uint64_t length = static_cast<uint64_t>(s.value) << ((s.shape & 3) * 8);
    const auto mapping =
        device.bar_map(bar, (s.shape & 8) != 0 ? offset : offset & ~0xFFFull, length);
    if (!mapping) return;
    struct stat file {};
    if (::fstat(mapping->fd, &file) != 0) found("a mapping without a file");
    const auto size = static_cast<uint64_t>(file.st_size);
    if (mapping->length > size || mapping->fd_offset > size - mapping->length) {
      found("a mapping beyond its file");
    }
  }

  void guest_store(const Step& s) {
    const size_t piece = s.where % GuestMemory::kChecked;
    const std::vector<uint8_t> bytes = data(s);
    const uint64_t room = GuestMemory::kPieces[piece].size;
    const uint64_t offset = s.offset % room;
    (void)bench_.guest().write(GuestMemory::kPieces[piece].phys + offset,
                               {bytes.data(), std::min<size_t>(bytes.size(), room - offset)});
  }

  Input& input_;
  MachineBench& bench_ = MachineBench::get();
};

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::Stream stream(input);
  for (size_t steps = 0; !input.empty() && steps < fuzz::kMaxSteps; ++steps) stream.step();
  fuzz::MachineBench& bench = fuzz::MachineBench::get();
  if (size % 8 == 0) (void)bench.machine().who_waits();  // the report of a hang
  if (size % 2 != 0) bench.reset_devices();
  bench.restore();
  return 0;
}
