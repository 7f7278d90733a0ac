// Untrusted DMA rings: descriptors of every shape at every kind of address, in rings of every
// length and place, doorbells in every order, on a v2, v3 or v4 chip. Packets start out as legal
// copies or reductions and are bent by the input.
//
// The first byte selects the chip. One step is 16 bytes {action, queue, place, flags, a32, b64}:
// see perform() for the actions and Places for the kinds of addresses. Invariants: a slice of time
// returns; the rings of an engine that the input does not use go on working beside those that it
// has broken; after a device reset the machine comes to rest, and the engines of the input copy
// correctly.
#include <cstdio>

#include "arch/contract/descriptor.h"
#include "contract/regs/misc.h"
#include "contract/regs/udma.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/machine_bench.h"
#include "tests/fuzz/places.h"
#include "tests/fuzz/queue_driver.h"

namespace fuzz {
namespace {

namespace desc = contract::desc;
namespace udma = contract::udma;
using contract::Descriptor;

constexpr size_t kMaxSteps = 80;
constexpr uint32_t kMaxFill = 0x1'1000;  // more descriptors than 16-bit counters hold
constexpr uint32_t kMaxFills = 2;
constexpr uint64_t kMaxData = 8192;

struct Step {
  uint8_t action;
  uint8_t queue;  // engine of the input's four [5:4], queue [3:0]
  uint8_t place;
  uint8_t flags;
  uint32_t a;
  uint64_t b;
};
static_assert(sizeof(Step) == 16);

// What the input has made of one half of a queue.
struct Ring {
  uint64_t base = 0;
  uint32_t length = 0;
  uint32_t slot = 0;
  uint32_t ring_id = 1;
  uint32_t added = 0;  // since the last doorbell
  Descriptor last;
};

class Storm {
 public:
  Storm(Input& input, uint32_t c)
      : input_(input), chip_number_(c), chip_(bench_.chip(c)), places_(chip_.address_map()) {}

  void step() {
    const Step s = input_.take<Step>();
    perform(s);
  }

 private:
  contract::Window unit(const Step& s) const {
    return chip_.address_map().udma(places_.engine(s.queue >> 4));
  }
  Ring& ring(const Step& s, uint32_t half) { return rings_[s.queue & 0x3F][half]; }
  void put(uint64_t bar0, uint32_t value) {
    bench_.machine().device(chip_number_).write32(bench_.register_bar(chip_number_), bar0, value);
  }
  uint64_t registers(const Step& s, uint32_t half) const {
    return unit(s).bar0 + half * contract::kS2mOffset + udma::kM2sQ +
           (s.queue & 15u) * udma::kM2sQStride;
  }

  void perform(const Step& s) {
    switch (s.action % 16) {
      case 0:
        if ((s.flags & 1) == 0) set_up(s, 0);
        if ((s.flags & 2) == 0) set_up(s, 1);
        return;
      case 1:
      case 2:
        return add_tx(s);
      case 3:
        return add_rx(s, (s.a & 0x100'0000) != 0 ? 1 : 1 + (s.a >> 28));
      case 4:
        return add_header(s);
      case 5:  // any descriptor
        return add(ring(s, s.flags & 1),
                   {s.a, (s.flags & 2) != 0 ? static_cast<uint32_t>(s.b) : desc::kOpCopy, s.b});
      case 6:
        return doorbell(s);
      case 7:
        (void)bench_.run(base::ns(1 + s.a % 50'000));
        return;
      case 8:  // any register of the unit
        return put(unit(s).bar0 + (s.a % contract::kUdmaUnit & ~3u), static_cast<uint32_t>(s.b));
      case 9:
        return fill_data(s);
      case 10:
        return fill_ring(s);
      case 11:
        return reset(s);
      case 12:
        return configure(s);
      case 13:  // memory decode and bus mastering
        return bench_.machine().device(chip_number_).config_write(4, 2, s.a & 6);
      case 14:  // queue reset and configuration
        put(registers(s, s.flags & 1) +
                ((s.flags & 1) == 0 ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl),
            s.a);
        return put(registers(s, s.flags & 1) + udma::kM2sQCfg, static_cast<uint32_t>(s.b));
      default:  // everything that software reads of a queue
        for (uint32_t offset = 0; offset < 0x60; offset += 4) {
          (void)bench_.machine()
              .device(chip_number_)
              .read32(bench_.register_bar(chip_number_), registers(s, s.flags & 1) + offset);
        }
        return;
    }
  }

  // Flags: 4 without queue reset, 8 without enabling, 16 apart from the other half's ring.
  void set_up(const Step& s, uint32_t half) {
    Ring& r = ring(s, half);
    r = Ring{};
    r.length = s.a & 0xFF'FFFF;
    const uint64_t apart = (s.flags & 16) != 0 ? 0x1000 : uint64_t{r.length} * sizeof(Descriptor);
    r.base = (places_.address(s.place, s.b) + half * ((apart + 63) & ~63ull)) & ~63ull;
    if ((s.flags & 4) == 0) {
      put(registers(s, half) + (half == 0 ? udma::kM2sQSwCtrl : udma::kS2mQSwCtrl), 0x100);
    }
    put(registers(s, half) + udma::kM2sQRingBaseLo, static_cast<uint32_t>(r.base));
    put(registers(s, half) + udma::kM2sQRingBaseHi, static_cast<uint32_t>(r.base >> 32));
    put(registers(s, half) + udma::kM2sQRingLength, r.length);
    if ((s.flags & 8) == 0) put(registers(s, half) + udma::kM2sQCfg, 0x303'0000);
  }

  void add(Ring& r, const Descriptor& d) {
    uint8_t bytes[sizeof d];
    base::store(bytes, d);
    (void)chip_.fabric().write(r.base + uint64_t{r.slot} * sizeof d, {bytes, sizeof bytes});
    r.last = d;
    ++r.added;
    if (++r.slot >= r.length) {
      r.slot = 0;
      r.ring_id = (r.ring_id + 1) & 3;
    }
  }

  // A legal copy of one source, bent by the flags: 1 no FIRST, 2 no LAST, 4 metadata, 8 DMB,
  // 16 write barrier, 32 wrong ring id, 64 other bits of word 0, 128 other bits of word 1.
  void add_tx(const Step& s) {
    Ring& r = ring(s, 0);
    Descriptor d = desc::tx_copy(places_.address(s.place, s.b), s.a & 0xFFFF, r.ring_id,
                                 desc::kFirst | desc::kLast, (s.flags & 16) != 0);
    if (s.action % 16 == 2) d.w1 ^= desc::kOpCopy ^ desc::kOpCompute;  // a source of a reduction
    if ((s.flags & 1) != 0) d.w0 ^= desc::kFirst;
    if ((s.flags & 2) != 0) d.w0 ^= desc::kLast;
    if ((s.flags & 4) != 0) d.w0 ^= desc::kMeta;
    if ((s.flags & 8) != 0) d.w0 ^= desc::kDmb;
    if ((s.flags & 32) != 0) d.w0 ^= 1u << desc::kRingIdShift;
    if ((s.flags & 64) != 0) d.w0 ^= s.a & 0xF0FF'0000;
    if ((s.flags & 128) != 0) d.w1 ^= s.a >> 16 << 12;
    add(r, d);
  }

  void add_rx(const Step& s, uint32_t count) {
    Ring& r = ring(s, 1);
    for (uint32_t i = 0; i < count; ++i) {
      Descriptor d = desc::rx(places_.address(s.place, s.b) + uint64_t{i} * (s.a & 0xFFFF),
                              s.a & 0xFFFF, r.ring_id);
      if ((s.flags & 8) != 0) d.w0 ^= desc::kStrongOrder;
      if ((s.flags & 32) != 0) d.w0 ^= 1u << desc::kRingIdShift;
      if ((s.flags & 64) != 0) d.w0 ^= s.a & 0xF0FF'0000;
      add(r, d);
    }
  }

  // `b` is the packed DmaCompute; a: operation [2:0], flags as add_tx.
  void add_header(const Step& s) {
    Ring& r = ring(s, 0);
    Descriptor d{desc::kFirst | desc::kMeta | r.ring_id << desc::kRingIdShift,
                 desc::kOpCompute | (s.a & 7) << 20, s.b};
    if ((s.flags & 1) != 0) d.w0 ^= desc::kFirst;
    if ((s.flags & 2) != 0) d.w0 ^= desc::kLast;
    if ((s.flags & 32) != 0) d.w0 ^= 1u << desc::kRingIdShift;
    add(r, d);
  }

  // a: count, 0 for what was added since the last one. Flags: 1 M2S first, 2 M2S only, 4 S2M only.
  void doorbell(const Step& s) {
    const auto ring_one = [&](uint32_t half) {
      Ring& r = ring(s, half);
      put(registers(s, half) + udma::kM2sQTailInc, s.a == 0 ? r.added : s.a);
      r.added = 0;
    };
    if ((s.flags & 1) != 0) ring_one(0);
    if ((s.flags & 2) == 0) ring_one(1);
    if ((s.flags & 5) == 0) ring_one(0);
  }

  void fill_data(const Step& s) {
    std::vector<uint8_t> bytes(1 + s.a % kMaxData);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + s.flags);
    (void)chip_.fabric().write(places_.address(s.place, s.b), bytes);
  }

  // Copies of the ring's last descriptor from its start, `a` of them.
  void fill_ring(const Step& s) {
    Ring& r = ring(s, s.flags & 1);
    if (++fills_ > kMaxFills) return;
    const uint32_t n = std::min(s.a, std::min(r.length, kMaxFill));
    if (n == 0) return;
    std::vector<uint8_t> bytes(n * sizeof(Descriptor));
    for (uint32_t i = 0; i < n; ++i) base::store(&bytes[i * sizeof(Descriptor)], r.last);
    (void)chip_.fabric().write(r.base, bytes);
    r.slot = 0;
    r.added = n;
  }

  void reset(const Step& s) {
    namespace misc = contract::misc;
    const uint64_t ram = chip_.address_map().misc_ram().bar0;
    put(ram + misc::kResetMap, s.a);
    put(ram + misc::kResetRequest, (s.flags & 1) != 0 ? 1 : 2);
    put(ram + misc::kTrigger, 1);
  }

  // Abort masks, longest packet, most descriptors in one.
  void configure(const Step& s) {
    constexpr uint32_t kAbortMask = udma::kSecondaryIrq + udma::kSecondaryIrqAbortMask;
    const uint64_t base = unit(s).bar0;
    if ((s.flags & 1) != 0) put(base + kAbortMask, s.a);
    if ((s.flags & 2) != 0) put(base + kAbortMask + udma::kSecondaryIrqStride, s.a);
    if ((s.flags & 4) != 0) put(base + udma::kM2sPktLenCfg, static_cast<uint32_t>(s.b));
    if ((s.flags & 8) != 0) put(base + udma::kM2sDescPrefCfg2, static_cast<uint32_t>(s.b));
    if ((s.flags & 16) != 0) put(registers(s, 0) + udma::kM2sQRateLimitMask, s.a);
    if ((s.flags & 32) != 0) put(base + udma::kM2sChangeState, s.a & 7);
  }

  Input& input_;
  MachineBench& bench_ = MachineBench::get();
  uint32_t chip_number_;
  hw::Chip& chip_;
  Places places_;
  std::array<std::array<Ring, 2>, 64> rings_{};
  uint32_t fills_ = 0;
};

// Counters that contradict each other.
void check_counters(const hw::Counters& c) {
  if (c.compute_packets > c.packets) found("more reductions than packets");
  if (c.packets > c.descriptors) found("more packets than descriptors");
  if (c.bytes > c.descriptors * desc::kMaxLength) found("more bytes than the descriptors take");
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fuzz::MachineBench;
  MachineBench& bench = MachineBench::get();
  fuzz::Input input(data, size);
  const uint8_t first = input.u8();
  const uint32_t c = first % MachineBench::kChips;
  const contract::AddressMap& map = bench.chip(c).address_map();
  bench.machine().counters() = hw::Counters{};
  // The last engine is not one of those that the input drives.
  fuzz::QueueDriver bystander(bench, c, map.dma_engines() - 1);
  bystander.set_up();
  fuzz::Storm storm(input, c);
  for (size_t steps = 0; !input.empty() && steps < fuzz::kMaxSteps; ++steps) storm.step();
  (void)bench.run(MachineBench::kMaxSlice);
  fuzz::check_counters(bench.machine().counters());
  if (size % 8 == 0) (void)bench.machine().who_waits();  // the report of a hang
  bench.machine().device(c).config_write(4, 2, 6);
  bystander.check("an engine beside the broken ones");
  bench.reset_devices();
  bench.guest().clear();
  fuzz::QueueDriver used(bench, c, fuzz::Places(map).engine(first >> 6));
  used.set_up();
  used.check("an engine after a device reset");
  bench.restore();
  return 0;
}
