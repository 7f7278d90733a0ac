// The management firmware with misc RAM and a fake chip, driven as a kernel driver would.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/span.h"
#include "contract/regs/misc.h"
#include "firmware/mgmt/controller.h"
#include "firmware/mgmt/crc32c.h"
#include "tests/firmware/fake_hal.h"

namespace firmware_test {

namespace misc = contract::misc;
using contract::Gen;
using firmware::mgmt::Action;
using firmware::mgmt::Config;

inline uint32_t crc(const void* data, size_t bytes) {
  firmware::mgmt::Crc32c c;
  c.add(data, bytes);
  return c.value();
}

inline Config config_of(Gen gen) {
  Config c;
  c.gen = gen;
  c.routing_id = 12;
  c.serial = 0x1234'5678'9ABC'DEF0;
  c.api_version = firmware::mgmt::advertised_api_version(gen);
  c.dies = gen == Gen::kV2 ? 1 : 2;
  return c;
}

class MgmtBench : private firmware::Sensors {
 public:
  explicit MgmtBench(const Config& config) : controller(config, ram.data()) {
    controller.power_on();
  }
  explicit MgmtBench(Gen gen) : MgmtBench(config_of(gen)) {}

  Action write(uint32_t offset, uint32_t value) {
    ram[offset / 4] = value;
    return controller.stored(offset, hal);
  }
  uint32_t read(uint32_t offset) {
    if (firmware::mgmt::Controller::is_live(offset)) controller.refresh(hal, *this);
    return ram[offset / 4];
  }
  Action reset_done() { return controller.reset_done(hal); }

  static constexpr uint32_t kRequestAt = 0x100;
  static constexpr uint32_t kResponseAt = 0x1'8000;

  struct Legacy {
    uint8_t sequence = 2;
    uint8_t command = 1;
    std::vector<uint8_t> payload;
    uint32_t corrupt = 0;  // exclusive-or of the CRC
    int size = -1;         // in the header, if not the real one
    uint64_t response = kResponseAt;
  };
  // Writes a legacy request to memory and its addresses to the words.
  void prepare(const Legacy& m) {
    std::vector<uint8_t> message(8 + m.payload.size());
    message[0] = m.sequence;
    message[1] = m.command;
    const auto size = m.size < 0 ? static_cast<int>(message.size()) : m.size;
    base::store<uint16_t>(&message[2], static_cast<uint16_t>(size));
    std::copy(m.payload.begin(), m.payload.end(), message.begin() + 8);
    base::store<uint32_t>(&message[4], crc(message.data(), message.size()) ^ m.corrupt);
    std::copy(message.begin(), message.end(), hal.memory.begin() + kRequestAt);
    set_address(misc::kRequestLo, misc::kRequestHi, hal.base + kRequestAt);
    set_address(misc::kResponseLo, misc::kResponseHi, hal.base + m.response);
  }
  void set_address(uint32_t low, uint32_t high, uint64_t address) {
    write(low, static_cast<uint32_t>(address));
    write(high, static_cast<uint32_t>(address >> 32));
  }
  // Sends a legacy request and returns the response header word.
  uint32_t legacy(const Legacy& m) {
    hal.memory[kResponseAt] = 0;
    prepare(m);
    write(misc::kTrigger, 1);
    return response_word(0);
  }
  uint32_t response_word(uint32_t k) const {
    return base::load<uint32_t>(&hal.memory[kResponseAt + 4 * k]);
  }

  // Puts a request of the register-based protocol into the words, without the trigger.
  void prepare_words(uint8_t sequence, uint8_t command, const std::vector<uint8_t>& payload,
                     uint32_t corrupt = 0) {
    std::vector<uint8_t> message(8 + payload.size());
    message[0] = sequence;
    message[1] = command;
    base::store<uint16_t>(&message[2], static_cast<uint16_t>(message.size()));
    std::copy(payload.begin(), payload.end(), message.begin() + 8);
    for (uint32_t i = 0; i < payload.size(); i += 4) {
      uint8_t raw[4] = {};
      std::copy_n(payload.begin() + i, std::min<size_t>(4, payload.size() - i), raw);
      write(misc::kData + i, base::load<uint32_t>(raw));
    }
    write(misc::kRequestHi, base::load<uint32_t>(message.data()));
    write(misc::kRequestLo, crc(message.data(), message.size()) ^ corrupt);
    write(misc::kResponseHi, 0);
    write(misc::kResponseLo, 0);
    write(misc::kAck, 1);
  }
  // Sends it and returns the response: header word and payload. Checks the CRC.
  using Answer = std::pair<uint32_t, std::vector<uint8_t>>;
  Answer words(uint8_t sequence, uint8_t command, const std::vector<uint8_t>& payload) {
    prepare_words(sequence, command, payload);
    write(misc::kTrigger, 1);
    EXPECT_EQ(read(misc::kTrigger), 0u);
    EXPECT_EQ(read(misc::kAck), 0u);
    const uint32_t header = read(misc::kRequestHi);
    const uint32_t size = header >> 16;
    EXPECT_TRUE(size >= 8 && size <= 136) << size;
    std::vector<uint8_t> message(136);
    base::store<uint32_t>(message.data(), header);
    std::memcpy(&message[8], &ram[misc::kData / 4], 128);
    EXPECT_EQ(read(misc::kRequestLo), crc(message.data(), size));
    return {header, {message.begin() + 8, message.begin() + size}};
  }

  std::vector<uint32_t> ram = std::vector<uint32_t>(1024, 0xFFFF'FFFF);
  FakeHal hal;
  firmware::mgmt::Controller controller;
  uint32_t use[2] = {0, 0};  // answer to firmware::Sensors
  std::vector<uint64_t> samples;

 private:
  uint32_t utilisation(uint32_t die, uint64_t sample) override {
    samples.push_back(sample);
    return use[die];
  }
};

inline std::string gen_name(Gen gen) {
  return "v" + std::to_string(static_cast<int>(gen));
}

// Tests of every generation.
class EveryGen : public ::testing::TestWithParam<Gen> {};

}  // namespace firmware_test
