// A scripted client of the vfio-user server, and a device that remembers what was done to it. The
// server runs when the test says so, on the test's own thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/fd.h"
#include "driver/qemu/client_memory.h"
#include "driver/qemu/vfio_user.h"
#include "driver/qemu/vfio_user_protocol.h"

namespace driver::qemu::test {

using vfio::Command;
using vfio::Header;
using Bytes = std::vector<uint8_t>;

class RecordingDevice final : public pcie::Device {
 public:
  RecordingDevice();
  const pcie::Identity& identity() const override { return identity_; }
  uint32_t config_read(uint32_t offset, unsigned size) override;
  void config_write(uint32_t offset, unsigned size, uint32_t value) override;
  void bar_read(int bar, uint64_t offset, base::ByteSpan to) override;
  void bar_write(int bar, uint64_t offset, base::ConstByteSpan from) override;
  void reset() override { ++resets; }
  base::Result<pcie::BarMapping> bar_map(int bar, uint64_t offset, uint64_t length) override;
  std::vector<pcie::BarArea> bar_areas(int bar) const override;

  std::map<uint64_t, uint8_t> bytes[6];
  Bytes config = Bytes(4096);
  std::vector<std::string> accesses;  // "r4@16": configuration space only
  int resets = 0;
  base::UniqueFd hbm;                      // behind BAR 4 from its second page on, if valid
  std::vector<pcie::BarArea> areas;        // of BAR 4
  std::function<void(uint64_t)> doorbell;  // called by a write to BAR 0

 private:
  pcie::Identity identity_;
};

struct Reply {
  Header header;
  Bytes payload;
  std::vector<base::UniqueFd> fds;

  uint32_t error() const { return (header.flags & vfio::kFlagError) != 0 ? header.error : 0; }
  template <typename T>
  T as() const {
    EXPECT_GE(payload.size(), sizeof(T));
    T value{};
    std::memcpy(&value, payload.data(), std::min(payload.size(), sizeof(T)));
    return value;
  }
};

template <typename T>
Bytes bytes_of(const T& value) {
  const auto* at = reinterpret_cast<const uint8_t*>(&value);
  return {at, at + sizeof value};
}
inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
Bytes version_payload(const std::string& json, uint16_t major = 0, uint16_t minor = 1);
Bytes dma_map_payload(uint64_t address, uint64_t size, uint32_t flags = 3, uint64_t offset = 0);
// A whole message.
Bytes message(Command command, const Bytes& payload, uint32_t flags = 0, uint16_t id = 7);
int open_descriptors();
base::UniqueFd memory_file(uint64_t size, bool sealed = true);

class Bench : public ::testing::Test {
 protected:
  Bench();
  // Sends without waiting; a full socket is a failure of the test.
  void send(const Bytes& bytes, const std::vector<int>& fds = {});
  // Lets the server work; what serve() said.
  base::Result<bool> serve() { return server->serve(); }
  // The next reply or command that is there.
  std::optional<Reply> receive();
  // Sends a command, lets the server work, takes the reply.
  Reply call(Command command, const Bytes& payload = {}, const std::vector<int>& fds = {},
             uint32_t flags = 0);
  uint32_t error_of(Command command, const Bytes& payload = {}, const std::vector<int>& fds = {}) {
    return call(command, payload, fds).error();
  }
  void agree() { ASSERT_EQ(error_of(Command::kVersion, version_payload("")), 0u); }
  // A new connection; the old one is gone.
  void connect();
  bool readable() const;  // poll_fd() says that there is something to do

  RecordingDevice device;
  vfio::ClientMemory memory;
  base::UniqueFd peer;
  std::unique_ptr<VfioUser> server;
};

}  // namespace driver::qemu::test
