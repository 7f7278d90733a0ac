#include "tests/golden/player.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace golden {
namespace {

constexpr uint32_t kNotReady = 0xDEAD'BEEF;  // spec/hw-registers.md 7.3
constexpr base::Ps kReadyPeriod = base::ms(1);
constexpr base::Ps kReadyLimit = 15 * base::kPsPerS;
constexpr int kHbmBar = 4;
constexpr int kBars = 6;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

// BAR 0, or BAR 2 where a revision moves the registers there (spec/hw-registers.md 1.2).
int register_bar(const pcie::Device& device) {
  int bar = 0;
  while (bar + 1 < kBars && device.identity().bar_size[bar] == 0) ++bar;
  return bar;
}

std::string differs(const char* what, uint64_t at, const Expected& value, uint32_t got) {
  if (value.mask == ~0u) {
    return text("%s %" PRIX64 ": expected %X, got %X", what, at, value.value, got);
  }
  return text("%s %" PRIX64 ": expected %X under mask %X, got %X", what, at,
              value.value & value.mask, value.mask, got);
}

std::string late(const char* what, uint64_t at, const Expected& value, uint32_t got,
                 base::Ps limit) {
  return differs(what, at, value, got) + text(" for %" PRIu64 " us", limit / base::kPsPerUs);
}

// The pattern of fill and check: no two neighbouring 256-byte blocks are alike.
uint8_t pattern(uint64_t i, uint32_t seed) {
  return static_cast<uint8_t>(i * 31 + i / 256 + seed);
}

}  // namespace

Played Player::play(const Script& script) {
  played_ = {};
  counted_writes_ = counted_reads_ = 0;
  for (const Step& step : script.steps) {
    ++played_.steps;
    if (step.device >= host_.devices.size()) {
      played_.failure = script.where(step) + ": there is no such device";
      break;
    }
    const std::string wrong = perform(step);
    if (wrong.empty()) continue;
    played_.failure = script.where(step) + ": " +
                      (script.devices > 1 ? text("device %u, ", step.device) : std::string()) +
                      wrong;
    break;
  }
  return played_;
}

std::string Player::perform(const Step& step) {
  switch (step.op) {
    case Op::kWrite:
      if (step.value.any) return "a write needs a value";
      ++played_.writes;
      ++counted_writes_;
      device(step).write32(register_bar(device(step)), step.address, step.value.value);
      return {};
    case Op::kRead:
    case Op::kReadReady:
    case Op::kPoll:
      return read_step(step);
    case Op::kConfigRead:
    case Op::kConfigWrite:
      return config_step(step);
    case Op::kMemPoll:
      return poll_memory(step);
    case Op::kMemWrite:
    case Op::kMemExpect:
    case Op::kMemFill:
    case Op::kMemCheck:
      return memory_step(step);
    case Op::kWait:
      host_.executor->delay(step.period);
      return {};
    case Op::kCount:
      counted_writes_ = counted_reads_ = 0;
      return {};
    case Op::kTotals:
      return check_totals(step);
  }
  return {};
}

uint32_t Player::read_register(const Step& step) {
  ++played_.reads;
  return device(step).read32(register_bar(device(step)), step.address);
}

std::string Player::read_step(const Step& step) {
  ++counted_reads_;
  const bool ready = step.op == Op::kReadReady;
  const bool poll = step.op == Op::kPoll;
  const base::Ps period = ready ? kReadyPeriod : step.period;
  const base::Ps limit = ready ? kReadyLimit : poll ? step.limit : 0;
  const base::Ps start = host_.executor->now();
  for (;;) {
    const uint32_t got = read_register(step);
    if (step.value.accepts(got) && !(ready && got == kNotReady)) return {};
    const bool again = poll || (ready && got == kNotReady);
    if (!again) return differs("R", step.address, step.value, got);
    if (host_.executor->now() - start >= limit) {
      return late("R", step.address, step.value, got, limit);
    }
    host_.executor->delay(period);
  }
}

std::string Player::config_step(const Step& step) {
  const auto offset = static_cast<uint32_t>(step.address);
  if (step.op == Op::kConfigWrite) {
    if (step.value.any) return "a write needs a value";
    device(step).config_write(offset, step.size, step.value.value);
    return {};
  }
  const uint32_t got = device(step).config_read(offset, step.size);
  return step.value.accepts(got) ? "" : differs("config", offset, step.value, got);
}

// False: there is no such memory.
bool Player::memory(const Step& step, bool write, base::ByteSpan bytes) {
  if (!step.hbm) {
    return write ? host_.memory->write(step.address, bytes)
                 : host_.memory->read(step.address, bytes);
  }
  if (write) {
    device(step).bar_write(kHbmBar, step.address, bytes);
  } else {
    device(step).bar_read(kHbmBar, step.address, bytes);
  }
  return true;
}

std::string Player::memory_step(const Step& step) {
  const bool pattern_step = step.op == Op::kMemFill || step.op == Op::kMemCheck;
  const uint64_t length = pattern_step ? step.length : uint64_t{step.words} * 4;
  std::vector<uint8_t> want(length);
  for (uint64_t i = 0; pattern_step && i < length; ++i) want[i] = pattern(i, step.data[0]);
  for (uint32_t k = 0; !pattern_step && k < step.words; ++k) {
    base::store(&want[k * 4], step.data[k]);
  }
  const bool write = step.op == Op::kMemWrite || step.op == Op::kMemFill;
  std::vector<uint8_t> bytes = want;
  if (!memory(step, write, bytes)) return text("no host memory at %" PRIX64, step.address);
  for (uint64_t i = 0; !write && i < length; ++i) {
    if (bytes[i] == want[i]) continue;
    return text("%s %" PRIX64 ": expected byte %X, got %X", step.hbm ? "HBM" : "host memory",
                step.address + i, want[i], bytes[i]);
  }
  return {};
}

std::string Player::poll_memory(const Step& step) {
  const base::Ps start = host_.executor->now();
  for (;;) {
    uint8_t bytes[4] = {};
    if (!memory(step, false, {bytes, 4})) return text("no host memory at %" PRIX64, step.address);
    const auto got = base::load<uint32_t>(bytes);
    if (step.value.accepts(got)) return {};
    if (host_.executor->now() - start >= step.limit) {
      return late("host memory", step.address, step.value, got, step.limit);
    }
    host_.executor->delay(step.period);
  }
}

std::string Player::check_totals(const Step& step) {
  if (counted_writes_ == step.writes && counted_reads_ == step.reads) return {};
  return text("expected %" PRIu64 " writes and %" PRIu64 " reads, made %" PRIu64 " and %" PRIu64,
              step.writes, step.reads, counted_writes_, counted_reads_);
}

}  // namespace golden
