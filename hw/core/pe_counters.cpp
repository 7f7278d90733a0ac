#include "hw/core/pe_counters.h"

#include "contract/regs/pe_v2.h"
#include "contract/regs/pe_v3.h"
#include "hw/reg/reg_block.h"

namespace hw {

namespace v2 = contract::pe_v2;
namespace v3 = contract::pe_v3;

namespace {

// Register groups of a row group: its column groups, its totals and, from v3 on, its normal weight
// loads.
constexpr uint32_t kGroupsPerRowV2 = 5;
constexpr uint32_t kGroupsPerRowV3 = 9;
constexpr uint32_t kTotals = 4;
constexpr uint32_t kNormalLoadV3 = 8;

static_assert(v2::kGroupCount == kGroupsPerRowV2 * PeActivity::kRowGroups);
static_assert(v3::kGroupCount == kGroupsPerRowV3 * PeActivity::kRowGroups);
static_assert(v2::kGroupMatmulHi == v3::kGroupMatmulHi && v2::kGroupIdleLo == v3::kGroupIdleLo);

// The registers of one core.
template <bool V2>
class Block final : public RegBlock<Block<V2>> {
 public:
  Block(const PeCounters& counters, uint32_t nc, AccessLog& log)
      : RegBlock<Block<V2>>(log), counters_(counters), nc_(nc) {}

  static const RegTable<Block>& table() {
    static const auto make = [](const char* name, const auto& regs, uint64_t window) {
      return RegTable<Block>(name, regs, static_cast<uint32_t>(window),
                             {{v2::kGroupMatmulLo, &Block::low<PeCounters::kMatmul>, nullptr},
                              {v2::kGroupMatmulHi, &Block::high<PeCounters::kMatmul>, nullptr},
                              {v2::kGroupLoadLo, &Block::low<PeCounters::kLoad>, nullptr},
                              {v2::kGroupLoadHi, &Block::high<PeCounters::kLoad>, nullptr},
                              {v2::kGroupIdleLo, &Block::low<PeCounters::kIdle>, nullptr},
                              {v2::kGroupIdleHi, &Block::high<PeCounters::kIdle>, nullptr}});
    };
    static const RegTable<Block> t =
        V2 ? make("pe", v2::kRegs, contract::AddressMap{contract::Gen::kV2}.pe_counters(0).size)
           : make("pe", v3::kRegs, contract::AddressMap{contract::Gen::kV3}.pe_counters(0).size);
    return t;
  }

 private:
  template <PeCounters::Counter C>
  uint32_t low(uint32_t group, uint32_t, bool) {
    return static_cast<uint32_t>(counters_.value(nc_, group, C));
  }
  template <PeCounters::Counter C>
  uint32_t high(uint32_t group, uint32_t, bool) {
    return static_cast<uint32_t>(counters_.value(nc_, group, C) >> 32);
  }

  const PeCounters& counters_;
  uint32_t nc_;
};

}  // namespace

PeCounters::PeCounters(contract::AddressMap map, base::Rate clock, const EventQueue& queue,
                       AccessLog& log, Activity activity)
    : map_(map),
      clock_(clock),
      queue_(queue),
      activity_(std::move(activity)),
      since_(map.ncs(), queue.now()) {
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    if (map.v2()) {
      blocks_.push_back(std::make_unique<Block<true>>(*this, n, log));
    } else {
      blocks_.push_back(std::make_unique<Block<false>>(*this, n, log));
    }
  }
}

PeCounters::~PeCounters() = default;

bool PeCounters::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  const uint64_t nc = offset / kStride;
  return nc < blocks_.size() && blocks_[nc]->access(offset % kStride, data, size, write, debug);
}

uint64_t PeCounters::elapsed(uint32_t nc) const {
  const auto ps = static_cast<unsigned __int128>(queue_.now() - since_[nc]);
  return static_cast<uint64_t>(ps * clock_.bytes / clock_.ps);
}

uint64_t PeCounters::value(uint32_t nc, uint32_t group, Counter counter) const {
  static constexpr PeActivity kNone{};
  const PeActivity* done = activity_(nc);
  const uint32_t per_row = map_.v2() ? kGroupsPerRowV2 : kGroupsPerRowV3;
  const PeActivity::RowGroup& row = (done == nullptr ? kNone : *done).rows[group / per_row];
  const uint32_t at = group % per_row;
  if (at == kTotals && counter == kMatmul) return row.matmul;
  if (at == kTotals && counter == kIdle) return elapsed(nc) - row.active;
  if (counter != kLoad) return 0;
  if (at < PeActivity::kColumnGroups) return row.fast_load[at];
  return at == (map_.v2() ? kTotals : kNormalLoadV3) ? row.load : 0;
}

}  // namespace hw
