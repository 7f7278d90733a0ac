#include "tests/fuzz/machine_bench.h"

#include <cstring>

#include "contract/regs/misc.h"

namespace fuzz {

namespace misc = contract::misc;

namespace {
constexpr uint32_t kCommand = 0x04;
constexpr uint32_t kMemoryAndMaster = 6;
constexpr uint32_t kBusy = 1u << 3;  // of the firmware status word, spec/hw-registers.md 7.1
constexpr base::Ps kRest = base::us(100);
}  // namespace

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
  constexpr uint16_t kDevices[kChips] = {0x7164, 0x7364, 0x7564};  // spec/hw-registers.md 1.1
  for (uint32_t c = 0; c < kAllChips; ++c) {
    hw::ChipParams chip;
    chip.gen = kGens[c % kChips];
    chip.device_id = kDevices[c % kChips];
    chip.routing_id = c + 1;
    chip.host = &guest_;
    params.chips.push_back(chip);
  }
  params.timing.mgmt_reset = base::us(1);  // so that resets fit into short runs
  machine_ = std::make_unique<hw::Machine>(params);
  machine_->set_port(&port_);
  for (uint32_t c = 0; c < kAllChips; ++c) {
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

void MachineBench::reset_devices() {
  for (uint32_t c = 0; c < kAllChips; ++c) {
    if ((touched_ >> c & 1) == 0) continue;
    const uint64_t ram = machine_->chip(c).address_map().misc_ram().bar0;
    pcie::Device& device = machine_->device(c);
    device.config_write(kCommand, 2, kMemoryAndMaster);
    device.write32(register_bar(c), ram + misc::kResetRequest, 1);
    device.write32(register_bar(c), ram + misc::kTrigger, 1);
  }
  if (run(kRest) != hw::RunOutcome::kQuiescent) found("no rest after device resets");
  for (uint32_t c = 0; c < kAllChips; ++c) {
    if ((touched_ >> c & 1) == 0) continue;
    const uint64_t ram = machine_->chip(c).address_map().misc_ram().bar0;
    pcie::Device& device = machine_->device(c);
    if (device.read32(register_bar(c), ram + misc::kResetRequest) != 0 ||
        (device.read32(register_bar(c), ram + misc::kStatus) & kBusy) != 0) {
      found("a device reset did not end");
    }
  }
}

void MachineBench::restore() {
  for (uint32_t c = 0; c < kAllChips; ++c) {
    if ((touched_ >> c & 1) != 0) machine_->device(c).reset();
  }
  if (run(kRest) != hw::RunOutcome::kQuiescent) found("no rest after PCI resets");
  for (uint32_t c = 0; c < kAllChips; ++c) {
    if ((touched_ >> c & 1) == 0) continue;
    machine_->device(c).config_write(kCommand, 2, kMemoryAndMaster);
    discard_memories(c);
  }
  guest_.clear();
  touched_ = 0;
}

void MachineBench::discard_memories(uint32_t c) {
  hw::Chip& chip = machine_->chip(c);
  hw::Fabric& fabric = chip.fabric();
  const contract::AddressMap& map = chip.address_map();
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
