#include "hw/machine/chip.h"

#include <algorithm>
#include <stdexcept>

#include "hw/component_ids.h"

namespace hw {

namespace topsp = contract::topsp;

namespace {

// Serial numbers only have to be unique, above 15 (spec/hw-registers.md 9.4 step 5), and none of
// those below.
constexpr uint64_t kSerialBase = 0x0001'0000'0000'1000;
// spec/hw-registers.md 7.2: drivers take these low words for "not ready".
constexpr uint32_t kNotSerials[] = {0, 0xDEAD'BEEF};
// 9.6: drivers know these chips and override what they say of themselves.
constexpr uint64_t kKnownSerials[] = {0xF158'12E4'F3DC'642C, 0x51F8'4556'B473'EA1C,
                                      0xDD5D'A709'0E13'C984, 0x2C82'D5DB'4D1C'3969};
// Nothing is published; drivers only pass it on.
constexpr uint32_t kFirmwareBuild = 1;
constexpr uint8_t kEmulatorRevision = 0xF0;  // 1.2
constexpr uint64_t kBasisPoints = 10'000;

uint64_t checked_serial(uint64_t serial) {
  bool bad = serial <= 15;
  for (const uint32_t low : kNotSerials) bad = bad || static_cast<uint32_t>(serial) == low;
  for (const uint64_t known : kKnownSerials) bad = bad || serial == known;
  if (bad) throw std::invalid_argument("serial number " + std::to_string(serial) + " is reserved");
  return serial;
}

}  // namespace

Chip::Chip(const sc_core::sc_module_name& name, uint32_t number, const ChipContext& context)
    : sc_module(name),
      number_(number),
      label_("d" + std::to_string(number)),
      context_(context),
      fabric_({label_, contract::AddressMap{params().gen}, number,
               Endpoint::hbm_stride(context.params.revision, contract::AddressMap{params().gen})},
              context.params.timing, context.log),
      dma_(fabric_, context.queue, context.params.timing, context.counters, context.log,
           {context.params.tracer, context.params.timing_only, context.params.real_bytes,
            context.params.coalesce, context.params.queue_policy, context.checker,
            [this](uint32_t e) {
              names_.push_back(name_below(*this, "dma" + std::to_string(e), "soma_dma_engine"));
            }}),
      cores_(address_map().ncs(), [this](uint32_t n) { return make_core(n); }),
      cc_cores_(address_map().topsps(), [this](uint32_t t) { return make_cc_core(t); }),
      notifications_(address_map().ncs() + address_map().topsps(),
                     [this](uint32_t k) { return make_notifications(k); }),
      pe_counters_(address_map(), context.params.timing.clk_pe, context.queue, context.log,
                   [this](uint32_t n) -> const PeActivity* {
                     NeuronCore* core = cores_.touched(n);
                     return core != nullptr ? &core->pe_activity() : nullptr;
                   }),
      management_(management_params(), context.queue, fabric(), context.log, management_hooks()),
      inert_(context.log),
      endpoint_({label_, params().device_id, context.params.revision, context.params.bars},
                fabric(), *this, context.log) {
  fabric().set_host(params().host);
  fabric().set_tracer(context_.params.tracer);
  for (uint32_t n = 0; n < cores_.count(); ++n) {
    const std::string core = "nc" + std::to_string(n);
    core_names_.push_back(std::make_unique<NamedGroup>(core.c_str(), "soma_neuron_core"));
  }
  if (context_.checker != nullptr) watch_memories();
  connect();
  attach();
}

void Chip::watch_memories() {
  namespace tpb = contract::tpb;
  check::Checker& checker = *context_.checker;
  for (uint32_t h = 0; h < address_map().hbms(); ++h) checker.add_memory(fabric_.hbm(h), 0);
  for (uint32_t n = 0; n < address_map().ncs(); ++n) {
    checker.add_memory(fabric_.sbuf(n), tpb::kPartitionStride);
    checker.add_memory(fabric_.psum(n), tpb::kPsumStride);
  }
}

// The blocks that others wrote.
void Chip::attach() {
  uint32_t first_id = component::id(number_, component::kBlocks, 0);
  for (const BlockParams& params : context_.params.blocks) {
    const auto& chips = params.chips;
    if (std::find(chips.begin(), chips.end(), number_) == chips.end()) continue;
    const AttachedBlock::Context context{context_.ports,
                                         fabric_,
                                         context_.counters,
                                         context_.params.timing_only,
                                         first_id,
                                         [this](uint32_t nc, uint32_t semaphore) {
                                           cores_.core(nc).semaphores().add(semaphore, 1);
                                         }};
    first_id += component::kIdsPerBlock;
    try {
      blocks_.push_back(std::make_unique<AttachedBlock>(params.name.c_str(), params, context));
    } catch (const std::exception& e) {
      throw std::invalid_argument("block " + label_ + "." + params.name + " " + e.what());
    }
  }
}

void Chip::touch_all() {
  for (uint32_t n = 0; n < cores_.count(); ++n) (void)cores_.core(n);
  for (uint32_t t = 0; t < cc_cores_.count(); ++t) (void)cc_cores_.core(t);
  for (uint32_t e = 0; e < dma_.engines(); ++e) (void)dma_.engine(e);
}

void Chip::look_again() {
  dma_.look_again();
  for (auto& block : blocks_) block->look_again();
}

Management::Params Chip::management_params() const {
  Management::Params p;
  p.firmware.gen = params().gen;
  p.firmware.routing_id = params().routing_id;
  p.firmware.serial =
      checked_serial(params().serial != 0 ? params().serial : kSerialBase + number_);
  p.firmware.sizes = params().sizes;
  p.firmware.server_rack = params().server_rack;
  p.firmware.reservation = params().reservation;
  p.firmware.build = kFirmwareBuild;
  p.firmware.api_version =
      params().api_version.value_or(firmware::mgmt::advertised_api_version(params().gen));
  p.firmware.health = params().health;
  p.firmware.qemu = context_.params.revision == Endpoint::kQemuRevision;
  p.firmware.dies = dies();
  p.firmware.power_sample_ps = context_.params.timing.mgmt_power_sample;
  p.firmware.heartbeat_ps = context_.params.timing.mgmt_heartbeat;
  p.unreadable_in_reset = params().unreadable_in_reset;
  p.component = component::id(number_, component::kManagement, 0);
  p.reset_time = context_.params.timing.mgmt_reset;
  return p;
}

Management::Hooks Chip::management_hooks() {
  return {[this](const firmware::mgmt::ResetScope& scope) { reset(scope); },
          [this](uint32_t die, uint64_t sample) { return utilisation(die, sample); },
          [this](uint32_t nc, uint32_t duty) { throttled(nc, duty); }};
}

// spec/hw-registers.md 1.2: two on v3 and v4, but one for the driver of an emulator or QEMU.
uint32_t Chip::dies() const {
  const uint8_t revision = context_.params.revision;
  const bool model = revision == Endpoint::kQemuRevision || revision == kEmulatorRevision;
  return params().gen == contract::Gen::kV2 || model ? 1 : 2;
}

uint32_t Chip::utilisation(uint32_t die, uint64_t sample) {
  const uint32_t cores = cores_.count() / dies();
  unsigned __int128 busy = 0;
  for (uint32_t n = die * cores; n < (die + 1) * cores; ++n) {
    NeuronCore* core = cores_.touched(n);
    for (uint32_t e = 0; core != nullptr && e < contract::kEnginesPerNc; ++e) {
      busy += core->engine(e).activity().busy_in(sample);
    }
  }
  const unsigned __int128 whole = static_cast<unsigned __int128>(cores) * contract::kEnginesPerNc *
                                  context_.params.timing.mgmt_power_sample;
  return static_cast<uint32_t>(busy * kBasisPoints / whole);
}

void Chip::throttled(uint32_t nc, uint32_t duty) {
  if (nc >= cores_.count()) return;
  contract::NqEntry entry;
  entry.header = contract::NqEntry::make_header(contract::NqType::kThrottle, contract::kPe, false);
  entry.payload = duty;
  entry.timestamp = context_.queue.now();
  notifications_.block(nc).post(contract::kPe, entry);
}

std::unique_ptr<NeuronCore> Chip::make_core(uint32_t n) {
  for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
    names_.push_back(name_below(*core_names_[n], NeuronCore::engine_name(e), "soma_engine"));
  }
  return std::make_unique<NeuronCore>(
      NeuronCore::Params{params().gen, n, component::core_id(number_, n),
                         context_.params.timing_only, context_.params.real_bytes,
                         label_ + ".nc" + std::to_string(n)},
      NeuronCore::Context{context_.queue, fabric(), notifications_.block(n), context_.counters,
                          context_.log, context_.params.timing, context_.params.tracer,
                          context_.checker});
}

std::unique_ptr<CcCore> Chip::make_cc_core(uint32_t t) {
  names_.push_back(name_below(*this, "cc" + std::to_string(t), "soma_cc_core"));
  const auto chips = static_cast<uint32_t>(context_.params.chips.size());
  return std::make_unique<CcCore>(
      CcCore::Params{number_, chips, t, component::id(number_, component::kCcCores, t),
                     label_ + ".cc" + std::to_string(t)},
      CcCore::Context{context_.queue, fabric(), notifications_.block(cores_.count() + t),
                      context_.barriers, context_.counters, context_.log, context_.params.timing,
                      context_.params.tracer, context_.checker});
}

std::unique_ptr<NqBlock> Chip::make_notifications(uint32_t k) {
  return std::make_unique<NqBlock>(
      NqBlock::Params{
          component::id(number_, component::kNotifications, k), context_.params.timing.nq_entry,
          k < cores_.count() ? label_ + ".nc" + std::to_string(k) + ".nq"
                             : label_ + ".cc" + std::to_string(k - cores_.count()) + ".nq"},
      context_.queue, fabric(), &context_.counters);
}

void Chip::connect() {
  const contract::AddressMap& map = address_map();
  bool ok = dma_.map_windows();
  const auto put = [&](const contract::Window& at, BusTarget& block, uint64_t base,
                       const std::string& name) {
    ok = ok && fabric_.map(at.device, at.size, block, base, label_ + "." + name);
  };
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    const uint64_t first = NeuronCoreGroup::kFirst;
    put({map.nc(n).device + first, 0, NeuronCoreGroup::kStride - first}, cores_,
        n * NeuronCoreGroup::kStride + first, "nc" + std::to_string(n));
    put(map.nc_nq(n), notifications_, n * NqBlock::kBytes, "nc" + std::to_string(n) + ".nq");
    put(map.pe_counters(n), pe_counters_, n * PeCounters::kStride,
        "nc" + std::to_string(n) + ".pe_counters");
  }
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    for (const CcCore::Region& r : CcCore::kRegions) {
      ok = ok &&
           fabric_.map(map.topsp(t).device + r.offset, r.size, cc_cores_,
                       t * topsp::kWindow + r.offset, label_ + ".cc" + std::to_string(t), r.space);
    }
    put(map.topsp_nq(t), notifications_, (map.ncs() + t) * NqBlock::kBytes,
        "cc" + std::to_string(t) + ".nq");
  }
  const auto put_inert = [&](const contract::Window& at, const char* name, uint32_t k) {
    const std::string text = label_ + "." + name + std::to_string(k);
    ok = ok && fabric_.map(at.device, at.size, inert_, inert_.add(text), text, Space::kBlock);
  };
  for (uint32_t p = 0; p < map.preprocs(); ++p) put_inert(map.preproc(p), "preproc", p);
  for (uint32_t s = 0; s < map.spare_topsps(); ++s) put_inert(map.spare_topsp(s), "spare_cc", s);
  put(map.misc_ram(), management_, Management::kMiscRam, "misc");
  put(map.qemu_reset(), management_, Management::kQemuReset, "qemu_reset");
  if (!ok) throw std::logic_error("register windows of " + label_ + " overlap");
}

// spec/hw-registers.md 8.4. HBM, SBUF, PSUM, misc RAM and configuration space keep their content.
void Chip::reset(const firmware::mgmt::ResetScope& scope) {
  const contract::AddressMap& map = address_map();
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    if (((scope.ncs >> n) & 1) != 0) {
      if (NeuronCore* core = cores_.touched(n)) core->reset();
      if (NqBlock* block = notifications_.touched(n)) block->reset();
      pe_counters_.reset(n);
    }
    if (((scope.dma_ncs >> n) & 1) == 0) continue;
    for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
      dma().reset_engine(n * contract::kDmaPerNc + e);
    }
  }
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    if (((scope.topsps >> t) & 1) == 0) continue;
    if (CcCore* core = cc_cores_.touched(t)) core->reset();
    if (NqBlock* block = notifications_.touched(map.ncs() + t)) block->reset();
  }
  for (uint32_t k = 0; k < map.host_engines(); ++k) {
    if (((scope.host_dma >> k) & 1) != 0) dma().reset_engine(map.compute_engines() + k);
  }
}

// The memories keep their content, so that what a guest leaves in HBM outlives its reboot.
void Chip::power_on() {
  for (auto& block : blocks_) block->chip_reset();
  reset(firmware::mgmt::device_scope(params().gen));
  management_.power_on();
}

// Semaphore pages of NeuronCores and whole CC-core windows have plain memory behind their read
// aliases; stores must go through bar_write.
base::Result<pcie::BarMapping> Chip::map_registers(uint64_t device, uint64_t length) {
  const contract::AddressMap& map = address_map();
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    const uint64_t offset = device - map.nc_semaphores(n);
    if (offset >= SemaphoreBlock::kBytes || offset + length > SemaphoreBlock::kBytes) continue;
    auto fd = cores_.core(n).semaphore_pages().share("semaphores");
    if (!fd) return fd.error();
    return pcie::BarMapping{*fd, offset, length, false};
  }
  for (uint32_t t = 0; t < map.topsps(); ++t) {
    const uint64_t offset = device - map.topsp(t).device;
    if (offset >= topsp::kWindow || offset + length > topsp::kWindow) continue;
    auto fd = cc_cores_.core(t).pages().share("cc_core");
    if (!fd) return fd.error();
    return pcie::BarMapping{*fd, offset, length, false};
  }
  return base::Error{base::Fault::kUnsupported, 0, label_,
                     "only semaphore blocks and CC-core windows can be mapped"};
}

void Chip::who_waits(std::vector<std::string>& lines) {
  const auto add = [&](const std::string& who, const std::string& what) {
    if (!what.empty()) lines.push_back(label_ + "." + who + " " + what);
  };
  for (uint32_t n = 0; n < cores_.count(); ++n) {
    NeuronCore* core = cores_.touched(n);
    for (uint32_t e = 0; core != nullptr && e < contract::kEnginesPerNc; ++e) {
      add("nc" + std::to_string(n) + "." + NeuronCore::engine_name(e), core->engine(e).stuck());
    }
  }
  for (uint32_t t = 0; t < cc_cores_.count(); ++t) {
    if (CcCore* core = cc_cores_.touched(t)) add("cc" + std::to_string(t), core->stuck());
  }
  dma().who_waits(lines);
  for (const auto& block : blocks_) block->who_waits(lines);
}

}  // namespace hw
