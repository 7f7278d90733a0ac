// The server against clients that speak the protocol badly, die, or leave in the middle.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <random>

#include "driver/node/connection.h"
#include "driver/node/protocol.h"
#include "tests/driver_node/bench.h"

namespace {

namespace wire = driver::wire;
using bench::Bench;

class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    timeval limit = {5, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

  static wire::Header header(wire::Kind kind, size_t body, uint64_t token = 0) {
    wire::Header header = {};
    header.magic = wire::kMagic;
    header.version = wire::kVersion;
    header.length = static_cast<uint32_t>(sizeof header + body);
    header.kind = kind;
    header.pid = getpid();
    header.tid = getpid();
    header.token = token;
    return header;
  }
  bool send_raw(const void* data, size_t size) {
    return ::send(fd_.get(), data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  template <typename Body>
  bool send(wire::Kind kind, const Body& body, uint64_t token = 0) {
    std::vector<uint8_t> message(sizeof(wire::Header) + sizeof body);
    const wire::Header head = header(kind, sizeof body, token);
    memcpy(message.data(), &head, sizeof head);
    memcpy(message.data() + sizeof head, &body, sizeof body);
    return send_raw(message.data(), message.size());
  }
  bool send(wire::Kind kind, uint64_t token = 0) {
    const wire::Header head = header(kind, 0, token);
    return send_raw(&head, sizeof head);
  }
  // The next message's kind, or 0 at the end of the connection.
  uint32_t receive() {
    buffer_.resize(wire::kMaxMessage);
    const ssize_t got = recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(wire::Header))) return 0;
    buffer_.resize(static_cast<size_t>(got));
    return base::load<wire::Header>(buffer_.data()).kind;
  }
  template <typename Body>
  Body body() const {
    Body body = {};
    memcpy(&body, buffer_.data() + sizeof(wire::Header),
           std::min(sizeof body, buffer_.size() - sizeof(wire::Header)));
    return body;
  }
  int64_t result() const { return body<wire::ReplyBody>().result; }
  bool ended() { return receive() == 0; }

 private:
  base::UniqueFd fd_;
  bool connected_ = false;
  std::vector<uint8_t> buffer_;
};

class Protocol : public testing::Test {
 protected:
  RawClient client() { return RawClient(bench_.server().socket_path()); }
  RawClient channel() {
    RawClient made = client();
    EXPECT_TRUE(made.send(wire::kHello));
    EXPECT_EQ(made.receive(), wire::kReply);
    return made;
  }
  RawClient open_file(uint64_t* token, int flags = O_RDWR) {
    RawClient made = client();
    EXPECT_TRUE(made.send(wire::kOpen, wire::OpenBody{0, flags}));
    EXPECT_EQ(made.receive(), wire::kReply);
    EXPECT_EQ(made.result(), 0);
    *token = made.body<wire::OpenReply>().token;
    return made;
  }
  Bench bench_;
};

TEST_F(Protocol, HelloDescribesTheNode) {
  RawClient made = channel();
  const auto hello = made.body<wire::HelloReply>();
  EXPECT_EQ(hello.minors, 0b1001u);
  EXPECT_EQ(hello.server_pid, getpid());
  EXPECT_GE(hello.major, 1u);
  EXPECT_STREQ(hello.host_name, "node-0.test");
  EXPECT_EQ(hello.path_count, 11u);  // one of InfiniBand, five of DMI by two names
  EXPECT_STREQ(hello.paths, "/sys/class/infiniband/efa_0/node_desc");
}

TEST_F(Protocol, OpenIoctlCloseRelease) {
  uint64_t token = 0;
  RawClient file = open_file(&token);
  RawClient made = channel();
  uint64_t words[2] = {1, 2};
  ASSERT_TRUE(made.send(
      wire::kIoctl, wire::IoctlBody{bench::kSwap, 0, reinterpret_cast<uint64_t>(words)}, token));
  ASSERT_EQ(made.receive(), wire::kReply);
  EXPECT_EQ(made.result(), 0);
  EXPECT_EQ(words[0], 2u);
  ASSERT_TRUE(made.send(wire::kFlush, token));
  ASSERT_EQ(made.receive(), wire::kReply);
  file.close();
  ASSERT_TRUE(Bench::eventually([&] { return bench_.device().count("release") == 1; }));
  const std::vector<std::string> expected = {"open 0", "flush 0", "release 0"};
  EXPECT_EQ(bench_.device().log(), expected);
  // The token died with the file.
  ASSERT_TRUE(made.send(wire::kFlush, token));
  ASSERT_EQ(made.receive(), wire::kReply);
  EXPECT_EQ(made.result(), -EBADF);
}

TEST_F(Protocol, FileClosedWithoutFlushGetsTheMissingOne) {
  uint64_t token = 0;
  RawClient file = open_file(&token);
  file.close();
  ASSERT_TRUE(Bench::eventually([&] { return bench_.device().count("release") == 1; }));
  const std::vector<std::string> expected = {"open 0", "flush 0", "release 0"};
  EXPECT_EQ(bench_.device().log(), expected);
  EXPECT_EQ(bench_.device().attached(), 0);
}

TEST_F(Protocol, DuplicatedDescriptorKeepsTheFile) {
  uint64_t token = 0;
  RawClient file = open_file(&token);
  const base::UniqueFd copy(dup(file.fd()));
  file.close();
  RawClient made = channel();
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kWho, 0, 0}, token));
  ASSERT_EQ(made.receive(), wire::kReply);
  EXPECT_EQ(made.result(), getpid());
  EXPECT_EQ(bench_.device().count("release"), 0u);
}

TEST_F(Protocol, IdentifyTellsTheTokenToHoldersOnly) {
  uint64_t token = 0;
  RawClient file = open_file(&token, O_RDONLY);
  ASSERT_TRUE(file.send(wire::kIdentify));
  ASSERT_EQ(file.receive(), wire::kReply);
  EXPECT_EQ(file.body<wire::OpenReply>().token, token);
  EXPECT_EQ(file.body<wire::OpenReply>().flags, O_RDONLY);
  // A file takes no requests.
  ASSERT_TRUE(file.send(wire::kFlush, token));
  EXPECT_TRUE(file.ended());
}

TEST_F(Protocol, UnknownMinorAndToken) {
  RawClient file = client();
  ASSERT_TRUE(file.send(wire::kOpen, wire::OpenBody{1, O_RDWR}));
  ASSERT_EQ(file.receive(), wire::kReply);
  EXPECT_EQ(file.result(), -ENOENT);
  RawClient made = channel();
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kWho, 0, 0}, 42));
  ASSERT_EQ(made.receive(), wire::kReply);
  EXPECT_EQ(made.result(), -EBADF);
}

TEST_F(Protocol, ViolationsCloseTheConnection) {
  const auto violates = [&](auto&& change, bool greeted) {
    RawClient made = greeted ? channel() : client();
    wire::Header header = RawClient::header(greeted ? wire::kFlush : wire::kHello, 0);
    change(header);
    made.send_raw(&header, sizeof header);
    return made.ended();
  };
  for (const bool greeted : {false, true}) {
    EXPECT_TRUE(violates([](wire::Header& h) { h.magic ^= 1; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.version = 9; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.length = 0; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.length = 0xffffffff; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.kind = 0; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.kind = wire::kReply; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.kind = wire::kIoctl; }, greeted));  // no body
    EXPECT_TRUE(violates([](wire::Header& h) { h.pid = 1; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.tid = -5; }, greeted));
    EXPECT_TRUE(violates([](wire::Header& h) { h.node = 1; }, greeted));
  }
  EXPECT_TRUE(violates([](wire::Header& h) { h.kind = wire::kHello; }, true));  // twice
  // An answer that nobody asked for.
  RawClient made = channel();
  made.send(wire::kMemoryData, wire::MemoryBody{0, 0, 1});
  EXPECT_TRUE(made.ended());
  EXPECT_GE(bench_.server().protocol_errors(), 20u);
  // And the server still serves.
  uint64_t token = 0;
  open_file(&token);
}

TEST_F(Protocol, OneRequestAtATimePerChannel) {
  uint64_t token = 0;
  RawClient file = open_file(&token);
  RawClient made = channel();
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kBlock, 0, 0}, token));
  ASSERT_TRUE(Bench::eventually([&] { return bench_.device().count("block") == 1; }));
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kWho, 0, 0}, token));
  EXPECT_TRUE(made.ended());
  RawClient other = channel();
  ASSERT_TRUE(other.send(wire::kIoctl, wire::IoctlBody{bench::kWake, 0, 0}, token));
  EXPECT_EQ(other.receive(), wire::kReply);
}

TEST_F(Protocol, OversizedAndTruncatedPackets) {
  std::vector<uint8_t> huge(150'000, 0x5a);
  wire::Header header = RawClient::header(wire::kHello, huge.size() - sizeof(wire::Header));
  memcpy(huge.data(), &header, sizeof header);
  RawClient made = client();
  made.send_raw(huge.data(), huge.size());
  EXPECT_TRUE(made.ended());
  for (size_t size : {size_t{1}, size_t{8}, sizeof(wire::Header) - 1}) {
    RawClient brief = client();
    brief.send_raw(&header, size);
    EXPECT_TRUE(brief.ended());
  }
  // A path without its terminator.
  RawClient path = channel();
  wire::SysfsBody body;
  memset(body.path, 'a', sizeof body.path);
  body.path[0] = '/';
  path.send(wire::kSysfsRefresh, body);
  EXPECT_TRUE(path.ended());
}

TEST_F(Protocol, RandomBytesAndRandomHeaders) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    RawClient made = round % 3 == 0 ? client() : channel();
    std::vector<uint8_t> message(random() % 200);
    for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
    if (message.size() >= sizeof(wire::Header) && round % 2 == 0) {
      // A valid frame around noise, so that the bodies are reached.
      wire::Header header = RawClient::header(static_cast<wire::Kind>(random() % 13),
                                              message.size() - sizeof(wire::Header), random());
      memcpy(message.data(), &header, sizeof header);
    }
    made.send_raw(message.data(), message.size());
  }
  uint64_t token = 0;
  RawClient file = open_file(&token);
  RawClient made = channel();
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kWho, 0, 0}, token));
  EXPECT_EQ(made.receive(), wire::kReply);
  file.close();
  made.close();
  EXPECT_TRUE(Bench::eventually([&] { return bench_.server().connections() == 0; }));
}

TEST_F(Protocol, RandomRequestsOnARealFile) {
  std::mt19937_64 random(11);
  uint64_t token = 0;
  RawClient file = open_file(&token);
  for (int round = 0; round < 300; ++round) {
    RawClient made = channel();
    switch (random() % 4) {
      case 0:
        made.send(wire::kIoctl,
                  wire::IoctlBody{static_cast<uint32_t>(0x4e00 | (random() & 0xff)), 0, random()},
                  token);
        // A request that waits for ever is as good as one that answers.
        break;
      case 1:
        made.send(wire::kMmap,
                  wire::MmapBody{random(), random(), random(), static_cast<int32_t>(random()),
                                 static_cast<int32_t>(random())},
                  token);
        break;
      case 2:
        made.send(wire::kMunmap, wire::MunmapBody{random(), random()}, token);
        break;
      default:
        made.send(wire::kMmap,
                  wire::MmapBody{0, bench::kPlainOffset + (random() % 16) * 4096, random() % 0x4000,
                                 PROT_READ, MAP_SHARED},
                  token);
    }
  }
  RawClient made = channel();
  ASSERT_TRUE(made.send(wire::kIoctl, wire::IoctlBody{bench::kWake, 0, 0}, token));
  EXPECT_EQ(made.receive(), wire::kReply);
}

TEST(ClientMemory, ServedByTheClientWhereTheHostRefuses) {
  // Turn the direct way off for this process.
  driver::ClientProcess self(getpid(), base::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  self.direct_memory = false;
  driver::ClientMemory no_channel(self, nullptr);
  uint8_t byte = 0;
  EXPECT_FALSE(no_channel.read(reinterpret_cast<uint64_t>(&byte), {&byte, 1}));

  // Two ends of a socket stand for client and server.
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto process = std::make_shared<driver::ClientProcess>(getpid(), base::UniqueFd());
  driver::Connection connection(1, base::UniqueFd(ends[0]), process);
  std::vector<uint8_t> memory(100'000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint8_t>(i * 5);
  std::thread client([&, end = base::UniqueFd(ends[1])] {
    std::vector<uint8_t> message(wire::kMaxMessage);
    for (;;) {
      const ssize_t got = recv(end.get(), message.data(), message.size(), 0);
      if (got <= 0) return;
      const auto header = base::load<wire::Header>(message.data());
      auto body = base::load<wire::MemoryBody>(message.data() + sizeof header);
      const uint64_t at = body.address - 0x1000;
      body.ok = at + body.size <= memory.size() ? 1 : 0;
      base::ConstByteSpan bytes;
      if (body.ok != 0 && header.kind == wire::kMemoryRead) bytes = {&memory[at], body.size};
      if (body.ok != 0 && header.kind == wire::kMemoryWrite) {
        memcpy(&memory[at], message.data() + sizeof header + sizeof body, body.size);
      }
      connection.deliver_memory(body, bytes);
    }
  });
  self.direct_memory = false;
  driver::ClientMemory remote(self, &connection);
  std::vector<uint8_t> copy(memory.size());
  EXPECT_TRUE(remote.read(0x1000, copy));
  EXPECT_EQ(copy, memory);
  copy.assign(70'001, 0xee);
  EXPECT_TRUE(remote.write(0x1000 + 5, copy));
  EXPECT_EQ(memory[5], 0xee);
  EXPECT_EQ(memory[5 + 70'000], 0xee);
  EXPECT_NE(memory[5 + 70'001], 0xee);
  EXPECT_FALSE(remote.read(0x1000 + memory.size() - 4, {copy.data(), 8}));
  connection.shut_down();
  client.join();
}

TEST_F(Protocol, TextOfASysfsWriterIsBounded) {
  RawClient writer(bench_.server().socket_path() + "-rw");
  wire::SysfsBody body = {};
  strcpy(body.path, "/sys/class/neuron_device/neuron0/reset");
  ASSERT_TRUE(writer.send(wire::kSysfsOpen, body));
  ASSERT_EQ(writer.receive(), wire::kReply);
  ASSERT_EQ(writer.result(), 0);
  ASSERT_TRUE(writer.send_raw("go", 2));
  EXPECT_TRUE(Bench::eventually([&] { return bench_.device().count("sysfs write go") == 1; }));
  const std::string page(5000, 'x');
  writer.send_raw(page.data(), page.size());
  EXPECT_TRUE(writer.ended());
  // The attribute socket takes nothing else, the main one no writers.
  RawClient confused(bench_.server().socket_path() + "-rw");
  confused.send(wire::kHello);
  EXPECT_TRUE(confused.ended());
  RawClient other = client();
  other.send(wire::kSysfsOpen, body);
  EXPECT_TRUE(other.ended());
}

TEST_F(Protocol, WatchersOfAttributesOnlyListen) {
  wire::SysfsBody body = {};
  strcpy(body.path, "/sys/class/neuron_device/neuron0/reset");
  RawClient watcher(bench_.server().socket_path() + "-rw");
  ASSERT_TRUE(watcher.send(wire::kSysfsWatch, body, 7));
  ASSERT_EQ(watcher.receive(), wire::kReply);
  EXPECT_EQ(watcher.result(), 0) << "the fake announces nothing";
  watcher.send_raw("x", 1);
  EXPECT_TRUE(watcher.ended());
  RawClient gone(bench_.server().socket_path() + "-rw");
  ASSERT_TRUE(gone.send(wire::kSysfsWatch, body));
  gone.close();
  RawClient other = client();
  other.send(wire::kSysfsWatch, body);
  EXPECT_TRUE(other.ended());
  body.path[0] = 'x';
  RawClient relative(bench_.server().socket_path() + "-rw");
  relative.send(wire::kSysfsWatch, body);
  EXPECT_TRUE(relative.ended());
}

TEST(NodeServer, DirectoryIsPrivateAndRemoved) {
  std::string directory;
  {
    Bench bench;
    directory = bench.server().directory();
    struct stat info = {};
    ASSERT_EQ(stat(directory.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_NE(access(directory.c_str(), F_OK), 0);
}

TEST(NodeServer, RefusesALongSocketPath) {
  bench::BatonExecutor executor;
  bench::FakeDevice device(executor);
  const std::string directory = "/tmp/" + std::string(120, 'n');
  auto server = driver::NodeServer::start({{&device}, {}, &executor, directory});
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ENAMETOOLONG);
  EXPECT_NE(access(directory.c_str(), F_OK), 0);
}

}  // namespace
