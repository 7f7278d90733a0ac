#include "firmware/mgmt/controller.h"

#include "contract/regs/misc.h"

namespace firmware::mgmt {

namespace misc = contract::misc;

namespace {

constexpr uint32_t kRegisterProtocol = 1;  // in word 0x0F0
constexpr uint32_t kResetDevice = 1;
constexpr uint32_t kResetNcs = 2;
constexpr uint32_t kCount16 = 0xFFFF;

uint32_t at_most(uint32_t value, uint32_t limit) {
  return value < limit ? value : limit;
}

}  // namespace

void Controller::power_on() {
  state_ = State{};
  for (uint32_t i = 0; i < contract::kMiscRamBytes / 4; ++i) ram_[i] = 0;
  word(misc::kFwApiVersion) = config_.api_version;
  word(misc::kRoutingId) = config_.routing_id;
  word(misc::kSizes) = config_.sizes;
  word(misc::kSerialLo) = static_cast<uint32_t>(config_.serial);
  word(misc::kSerialHi) = static_cast<uint32_t>(config_.serial >> 32);
  word(misc::kServerRack) = config_.server_rack;
  word(misc::kFwBuild) = config_.build;
  word(misc::kReservationHi) = static_cast<uint32_t>(config_.reservation >> 32);
  word(misc::kReservationLo) = static_cast<uint32_t>(config_.reservation);
  publish_health();
}

void Controller::set_health(const Health& health) {
  config_.health = health;
  publish_health();
}

void Controller::publish_health() {
  const Health& h = config_.health;
  const auto counts = [](uint32_t corrected, uint32_t low) {
    return misc::kSramEccCorrected.set(low, at_most(corrected, kCount16));
  };
  word(misc::kHealth) = h.unhealthy;
  word(misc::kSramEcc) = counts(h.sram_corrected, at_most(h.sram_uncorrected, kCount16));
  const uint32_t stacks = contract::AddressMap{config_.gen}.hbms();
  for (uint32_t s = 0; s < stacks; ++s) {
    const Health::Hbm& hbm = h.hbm[s];
    uint32_t low =
        at_most(at_most(hbm.repairable, kCount16) + at_most(hbm.unrepairable, kCount16), kCount16);
    if (config_.api_version >= kApiEccSplit) {
      constexpr uint32_t kMaxRepairable = misc::kHbmEccValueRepairable.mask();
      constexpr uint32_t kMaxUnrepairable = misc::kHbmEccValueUnrepairable.get(~0u);
      low = misc::kHbmEccValueRepairable.set(0, at_most(hbm.repairable, kMaxRepairable));
      low = misc::kHbmEccValueUnrepairable.set(low, at_most(hbm.unrepairable, kMaxUnrepairable));
    }
    word(misc::kHbmEcc + s * misc::kHbmEccStride) = counts(hbm.corrected, low);
  }
  word(misc::kHbmRepair) = h.repair;
}

bool Controller::is_live(uint32_t offset) {
  return offset == misc::kHealthSeq || offset == misc::kPowerDie0 || offset == misc::kPowerDie1;
}

// Power and heartbeat count periods of device time, so that an idle chip does nothing for them.
void Controller::refresh(Hal& hal, Sensors& sensors) {
  const uint64_t now = hal.now();
  if (config_.heartbeat_ps != 0) {
    const auto beats = static_cast<uint32_t>(now / config_.heartbeat_ps);
    uint32_t sequence = misc::kHealthSeqSequence.set(0, beats);
    sequence = misc::kHealthSeqHeartbeat.set(sequence, beats);
    word(misc::kHealthSeq) = sequence;
  }
  if (config_.power_sample_ps == 0) return;
  const uint64_t sample = now / config_.power_sample_ps;
  for (uint32_t die = 0; die < config_.dies; ++die) {
    const uint32_t use = sample == 0 ? 0 : sensors.utilisation(die, sample - 1);
    word(die == 0 ? misc::kPowerDie0 : misc::kPowerDie1) =
        misc::kPowerDie0Sample.set(use, static_cast<uint32_t>(sample));
  }
}

void Controller::throttle(uint32_t nc, uint32_t duty, Hal& hal) const {
  if (state_.settings.throttling_notifications()) {
    hal.notify(contract::NqType::kThrottle, duty, 0, nc);
  }
}

Action Controller::stored(uint32_t offset, Hal& hal) {
  switch (offset) {
    case misc::kResetRequest:
      state_.reset_stored = word(misc::kResetRequest) != 0;
      return {};
    case misc::kRequestHi:
    case misc::kRequestLo:
    case misc::kResponseHi:
    case misc::kResponseLo:
      state_.mailbox_stored = true;
      return {};
    case misc::kTrigger:
      if (word(misc::kTrigger) == 1 && !state_.serving) return triggered(hal);
      return {};
    default:
      return {};
  }
}

// 7.6, last paragraph: how a store to the trigger word is told apart. During a reset the request
// word is not zero anyhow; there a trigger after stores to the mailbox words alone is a message,
// which is served when the reset is over.
Action Controller::triggered(Hal& hal) {
  const bool message = state_.mailbox_stored && !state_.reset_stored;
  if (word(misc::kResetRequest) != 0 && !(state_.resetting && message)) return request_reset();
  if (state_.resetting) {
    state_.mailbox_waits = true;
    return {};
  }
  Action action;
  action.unsupported = serve_mailbox(hal);
  return action;
}

const char* Controller::serve_mailbox(Hal& hal) {
  ++state_.mailbox_requests;
  state_.mailbox_stored = false;
  state_.serving = true;
  MailboxResult result = MailboxResult::kNoAnswer;
  if (has_register_mailbox(config_) && word(misc::kAck) == kRegisterProtocol) {
    result = state_.settings.serve(config_, ram_);
    word(misc::kAck) = 0;
  } else {
    result = serve_legacy_mailbox(ram_, hal);
  }
  state_.serving = false;
  word(misc::kTrigger) = 0;
  return result == MailboxResult::kUnknownCommand ? "mailbox command" : nullptr;
}

Action Controller::request_reset() {
  word(misc::kTrigger) = 0;
  state_.reset_stored = false;
  const uint32_t request = word(misc::kResetRequest);
  if (request == kResetDevice) return start_reset(device_scope(config_.gen));
  if (request == kResetNcs) {
    const ResetScope scope =
        decode_reset_map(config_.gen, word(misc::kResetMap), word(misc::kResetMapHi));
    // A driver that does not know the high word must not inherit it from one that does.
    word(misc::kResetMapHi) = 0;
    return start_reset(scope);
  }
  if (!state_.resetting) word(misc::kResetRequest) = 0;  // refused: acknowledged at once
  Action refused;
  refused.unsupported = "reset request";
  return refused;
}

Action Controller::qemu_write(uint32_t value) {
  if (!config_.qemu) return {};
  state_.qemu_busy = true;
  if (config_.gen == contract::Gen::kV2) {
    // Announces the full mailbox request, which names the scope. If none comes in time, it meant
    // the device.
    if (state_.resetting) return {};
    state_.announced = true;
    return start_reset({});
  }
  // The map; 0 and all ones mean the device.
  const bool device = value == 0 || value == 0xFFFF'FFFF;
  return start_reset(device ? device_scope(config_.gen) : decode_reset_map(config_.gen, value, 0));
}

// A repeated request while busy is accepted (spec/hw-registers.md 8.2): it is part of the running
// reset, or of one that follows at once if it covers more.
Action Controller::start_reset(const ResetScope& scope) {
  word(misc::kStatus) = misc::kStatusBusy.set(word(misc::kStatus), 1);
  const bool takes_over = state_.resetting && state_.announced;
  if (!state_.resetting || takes_over) {
    if (takes_over) state_.announced = false;
    state_.resetting = true;
    state_.current = scope;
    Action action;
    action.reset = true;
    action.scope = scope;
    return action;
  }
  if (!state_.current.contains(scope)) {
    if (!state_.again) state_.pending = {};
    state_.pending.add(scope);
    state_.again = true;
  }
  return {};
}

Action Controller::reset_done(Hal& hal) {
  Action next;
  if (state_.announced || state_.again) {
    state_.current = state_.announced ? device_scope(config_.gen) : state_.pending;
    state_.resets += state_.announced ? 0 : 1;
    state_.announced = state_.again = false;
    next.reset = true;
    next.scope = state_.current;
    return next;
  }
  ++state_.resets;
  state_.resetting = state_.qemu_busy = false;
  word(misc::kStatus) = misc::kStatusBusy.set(word(misc::kStatus), 0);
  // A request that is stored but not triggered yet is the next one, not this.
  if (!state_.reset_stored) word(misc::kResetRequest) = 0;
  if (state_.mailbox_waits) {
    state_.mailbox_waits = false;
    next.unsupported = serve_mailbox(hal);
  }
  return next;
}

}  // namespace firmware::mgmt
