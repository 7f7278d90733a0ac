#include "tests/driver_vfio/vfio_bench.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

namespace driver::qemu::test {

RecordingDevice::RecordingDevice() {
  identity_.vendor = 0x1D0F;
  identity_.device = 0x7364;
  identity_.bar_size[0] = 4ull << 30;
  identity_.bar_size[4] = 256ull << 30;
}

uint32_t RecordingDevice::config_read(uint32_t offset, unsigned size) {
  accesses.push_back("r" + std::to_string(size) + "@" + std::to_string(offset));
  uint32_t value = 0;
  for (unsigned i = 0; i < size; ++i) value |= uint32_t{config.at(offset + i)} << (8 * i);
  return value;
}

void RecordingDevice::config_write(uint32_t offset, unsigned size, uint32_t value) {
  accesses.push_back("w" + std::to_string(size) + "@" + std::to_string(offset));
  for (unsigned i = 0; i < size; ++i) {
    config.at(offset + i) = static_cast<uint8_t>(value >> (8 * i));
  }
}

void RecordingDevice::bar_read(int bar, uint64_t offset, base::ByteSpan to) {
  for (size_t i = 0; i < to.size(); ++i) {
    const auto found = bytes[bar].find(offset + i);
    to[i] = found == bytes[bar].end() ? 0 : found->second;
  }
}

void RecordingDevice::bar_write(int bar, uint64_t offset, base::ConstByteSpan from) {
  for (size_t i = 0; i < from.size(); ++i) bytes[bar][offset + i] = from[i];
  if (bar == 0 && doorbell) doorbell(offset);
}

base::Result<pcie::BarMapping> RecordingDevice::bar_map(int bar, uint64_t offset, uint64_t length) {
  if (bar != 4 || !hbm.valid()) return base::Error{base::Fault::kUnsupported, 0, "", "no file"};
  return pcie::BarMapping{hbm.get(), offset + 4096, length, true};
}

std::vector<pcie::BarArea> RecordingDevice::bar_areas(int bar) const {
  return bar == 4 ? areas : std::vector<pcie::BarArea>();
}

Bytes version_payload(const std::string& json, uint16_t major, uint16_t minor) {
  Bytes payload(sizeof(vfio::Version) + (json.empty() ? 0 : json.size() + 1));
  base::store(payload.data(), vfio::Version{major, minor});
  std::copy(json.begin(), json.end(), payload.begin() + sizeof(vfio::Version));
  return payload;
}

Bytes dma_map_payload(uint64_t address, uint64_t size, uint32_t flags, uint64_t offset) {
  return bytes_of(vfio::DmaMap{sizeof(vfio::DmaMap), flags, offset, address, size});
}

Bytes message(Command command, const Bytes& payload, uint32_t flags, uint16_t id) {
  Header header;
  header.id = id;
  header.command = static_cast<uint16_t>(command);
  header.size = static_cast<uint32_t>(sizeof header + payload.size());
  header.flags = flags;
  return bytes_of(header) + payload;
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

base::UniqueFd memory_file(uint64_t size, bool sealed) {
  base::UniqueFd fd(::memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  if (sealed) {
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  return fd;
}

Bench::Bench() {
  connect();
}

void Bench::connect() {
  server.reset();
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  peer.reset(pair[0]);
  server = std::make_unique<VfioUser>(device, memory, base::UniqueFd(pair[1]));
}

void Bench::send(const Bytes& bytes, const std::vector<int>& fds) {
  Bytes copy = bytes;
  iovec part{copy.data(), copy.size()};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  std::vector<uint8_t> control(CMSG_SPACE(fds.size() * sizeof(int)));
  if (!fds.empty()) {
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ASSERT_EQ(::sendmsg(peer.get(), &packet, MSG_NOSIGNAL | MSG_DONTWAIT),
            static_cast<ssize_t>(bytes.size()));
}

std::optional<Reply> Bench::receive() {
  Reply reply;
  Bytes bytes(sizeof(Header));
  size_t got = 0;
  while (got < bytes.size()) {
    std::array<uint8_t, 256> control{};
    iovec part{bytes.data() + got, bytes.size() - got};
    msghdr packet{};
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(peer.get(), &packet, MSG_DONTWAIT);
    if (n < 0 && got > 0 && errno == EAGAIN && serve().ok()) continue;  // the rest comes later
    if (n <= 0) {
      EXPECT_EQ(got, 0u) << "half a message";
      return std::nullopt;
    }
    got += static_cast<size_t>(n);
    for (cmsghdr* each = CMSG_FIRSTHDR(&packet); each != nullptr;
         each = CMSG_NXTHDR(&packet, each)) {
      reply.fds.emplace_back(base::load<int>(CMSG_DATA(each)));
    }
    if (got == sizeof(Header)) bytes.resize(base::load<Header>(bytes.data()).size);
  }
  reply.header = base::load<Header>(bytes.data());
  reply.payload.assign(bytes.begin() + sizeof(Header), bytes.end());
  return reply;
}

Reply Bench::call(Command command, const Bytes& payload, const std::vector<int>& fds,
                  uint32_t flags) {
  send(message(command, payload, flags), fds);
  (void)serve();
  auto reply = receive();
  if (!reply) {
    ADD_FAILURE() << "no reply to command " << static_cast<int>(command);
    return {};
  }
  EXPECT_EQ(reply->header.id, 7);
  EXPECT_EQ(reply->header.command, static_cast<uint16_t>(command));
  EXPECT_EQ(reply->header.flags & vfio::kFlagType, vfio::kTypeReply);
  EXPECT_TRUE(reply->error() == 0 || reply->payload.empty());
  return std::move(*reply);
}

bool Bench::readable() const {
  pollfd wait{server->poll_fd(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

}  // namespace driver::qemu::test
