#include "tests/fuzz/machine_bench.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "contract/regs/misc.h"

namespace fuzz {

namespace misc = contract::misc;

namespace {
constexpr uint32_t kConfigWords = 64;
constexpr uint32_t kCommand = 0x04;
constexpr uint32_t kMemoryAndMaster = 6;
constexpr base::Ps kRest = base::us(100);
}  // namespace

void found(const char* what) {
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}

GuestMemory::GuestMemory() {
  for (size_t i = 0; i < kPieces.size(); ++i) {
    bytes_[i] = std::make_unique<uint8_t[]>(kPieces[i].size);
  }
}

uint8_t* GuestMemory::find(uint64_t phys, uint64_t length, bool direct) {
  for (size_t i = 0; i < kPieces.size(); ++i) {
    const Piece& p = kPieces[i];
    const uint64_t offset = phys - p.phys;
    if (phys < p.phys || offset > p.size || length > p.size - offset) continue;
    if (direct && !p.direct) return nullptr;
    used_[i] = true;
    checked_used_ |= i == kChecked;
    return bytes_[i].get() + offset;
  }
  return nullptr;
}

uint8_t* GuestMemory::direct(uint64_t phys, uint64_t length) {
  return find(phys, length, true);
}

bool GuestMemory::read(uint64_t phys, base::ByteSpan to) {
  const uint8_t* from = find(phys, to.size(), false);
  if (from != nullptr && !to.empty()) std::memcpy(to.data(), from, to.size());
  return from != nullptr;
}

bool GuestMemory::write(uint64_t phys, base::ConstByteSpan from) {
  uint8_t* to = find(phys, from.size(), false);
  if (to != nullptr && !from.empty()) std::memcpy(to, from.data(), from.size());
  return to != nullptr;
}

void GuestMemory::clear() {
  for (size_t i = 0; i < kPieces.size(); ++i) {
    if (used_[i]) std::memset(bytes_[i].get(), 0, kPieces[i].size);
  }
  used_.fill(false);
  checked_used_ = false;
}

MachineBench& MachineBench::get() {
  static auto* bench = new MachineBench;  // never destroyed: the simulation kernel is static, too
  return *bench;
}

MachineBench::MachineBench() {
  hw::MachineParams params;
  constexpr contract::Gen kGens[kChips] = {contract::Gen::kV2, contract::Gen::kV3,
                                           contract::Gen::kV4};
  constexpr uint16_t kDevices[kChips] = {0x7164, 0x7364, 0x7564};  // hw-registers.md 1.1
  for (uint32_t c = 0; c < kChips; ++c) {
    hw::ChipParams chip;
    chip.gen = kGens[c];
    chip.device_id = kDevices[c];
    chip.routing_id = c + 1;
    chip.host = &guest_;
    params.chips.push_back(chip);
  }
  params.timing.mgmt_reset = base::us(1);  // so that resets fit into short runs
  machine_ = std::make_unique<hw::Machine>(params);
  for (uint32_t c = 0; c < kChips; ++c) {
    hw::Chip& chip = machine_->chip(c);
    misc_[c].resize(contract::kMiscRamBytes);
    if (!chip.fabric().read(chip.address_map().misc_ram().device, misc_[c], true)) {
      found("misc RAM cannot be read");
    }
    for (uint32_t w = 0; w < kConfigWords; ++w) {
      config_[c].push_back(machine_->device(c).config_read(4 * w, 4));
    }
    machine_->device(c).config_write(kCommand, 2, kMemoryAndMaster);
  }
}

hw::RunOutcome MachineBench::run(base::Ps slice) {
  const hw::RunOutcome outcome = machine_->run_to_quiescence(slice);
  if (outcome == hw::RunOutcome::kError) {
    found(machine_->error() ? machine_->error()->message().c_str() : "an error without a text");
  }
  return outcome;
}

void MachineBench::restore() {
  for (uint32_t c = 0; c < kChips; ++c) {
    if ((touched_ >> c & 1) == 0) continue;
    const contract::Window ram = machine_->chip(c).address_map().misc_ram();
    pcie::Device& device = machine_->device(c);
    device.config_write(kCommand, 2, kMemoryAndMaster);
    device.write32(register_bar(c), ram.bar0 + misc::kResetRequest, 1);
    device.write32(register_bar(c), ram.bar0 + misc::kTrigger, 1);
  }
  if (run(kRest) != hw::RunOutcome::kQuiescent) found("no rest after device resets");
  for (uint32_t c = 0; c < kChips; ++c) {
    if ((touched_ >> c & 1) != 0) restore(c);
  }
  guest_.clear();
  touched_ = 0;
}

void MachineBench::restore(uint32_t c) {
  hw::Chip& chip = machine_->chip(c);
  hw::Fabric& fabric = chip.fabric();
  pcie::Device& device = machine_->device(c);
  const contract::AddressMap& map = chip.address_map();
  std::vector<uint8_t> ram(contract::kMiscRamBytes);
  if (!fabric.read(map.misc_ram().device, ram, true)) found("misc RAM cannot be read");
  if (base::load<uint32_t>(&ram[misc::kResetRequest]) != 0) found("a device reset did not end");
  if ((base::load<uint32_t>(&ram[misc::kStatus]) & 8) != 0) found("busy after a device reset");
  // A debug write is not seen by the firmware.
  if (ram != misc_[c]) (void)fabric.write(map.misc_ram().device, misc_[c], true);
  for (uint32_t w = 0; w < kConfigWords; ++w) {
    const uint32_t value = device.config_read(4 * w, 4);
    if (value != config_[c][w]) device.config_write(4 * w, 4, config_[c][w]);
  }
  device.config_write(kCommand, 2, kMemoryAndMaster);
  for (uint32_t h = 0; h < map.hbms(); ++h) {
    if (fabric.hbm(h).touched()) fabric.hbm(h).discard(0, fabric.hbm(h).size());
  }
  for (uint32_t n = 0; n < map.ncs(); ++n) {
    for (hw::Memory* m : {&fabric.sbuf(n), &fabric.psum(n)}) {
      if (m->touched()) m->discard(0, m->size());
    }
  }
}

}  // namespace fuzz
