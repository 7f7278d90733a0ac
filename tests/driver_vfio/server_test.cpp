// The listening socket: one client at a time, what is left of one that goes, the path.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/qemu/vfio_user_server.h"
#include "tests/driver_vfio/vfio_bench.h"

namespace driver::qemu::test {
namespace {

namespace fs = std::filesystem;

class Server : public ::testing::Test {
 protected:
  Server() {
    char name[] = "/tmp/vfio_server.XXXXXX";
    directory_ = ::mkdtemp(name);
    path = directory_ + "/socket";
  }
  ~Server() override {
    server.reset();
    fs::remove_all(directory_);
  }
  base::Status listen() { return listen_at(path); }
  base::Status listen_at(const std::string& where) {
    auto made = VfioUserServer::listen(
        {where, device, memory, [this](const base::Error& error) { troubles.push_back(error); }});
    if (!made) return made.error();
    server = std::move(*made);
    return {};
  }
  base::UniqueFd connect() {
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      fd.reset();
    }
    return fd;
  }
  // Serves while there is something to do.
  void serve() {
    for (int i = 0; i < 20; ++i) {
      pollfd wait{server->poll_fd(), POLLIN, 0};
      if (::poll(&wait, 1, 0) != 1) return;
      const auto served = server->serve();
      ASSERT_TRUE(served.ok() && *served);
    }
    FAIL() << "always something to do";
  }
  bool agrees(const base::UniqueFd& fd) {
    const Bytes proposal = message(Command::kVersion, version_payload("{}"));
    if (::send(fd.get(), proposal.data(), proposal.size(), MSG_NOSIGNAL) < 0) return false;
    serve();
    uint8_t answer[256];
    return ::recv(fd.get(), answer, sizeof answer, MSG_DONTWAIT) > 0;
  }
  void map_page(const base::UniqueFd& fd) {
    const Bytes map = message(Command::kDmaMap, dma_map_payload(0, 4096));
    ASSERT_GT(::send(fd.get(), map.data(), map.size(), MSG_NOSIGNAL), 0);
    serve();
    ASSERT_EQ(memory.ranges(), 1u);
  }

  std::string directory_, path;
  RecordingDevice device;
  vfio::ClientMemory memory;
  std::unique_ptr<VfioUserServer> server;
  std::vector<base::Error> troubles;
};

TEST_F(Server, ClientsComeOneAfterTheOther) {
  ASSERT_TRUE(listen().ok());
  for (int i = 1; i <= 3; ++i) {
    base::UniqueFd client = connect();
    ASSERT_TRUE(agrees(client));
    map_page(client);
    client.reset();
    serve();
    EXPECT_EQ(memory.ranges(), 0u);
    EXPECT_EQ(device.resets, i);
  }
  EXPECT_TRUE(troubles.empty());
}

TEST_F(Server, ASecondClientIsTurnedAway) {
  ASSERT_TRUE(listen().ok());
  base::UniqueFd first = connect();
  ASSERT_TRUE(agrees(first));
  base::UniqueFd second = connect();
  EXPECT_FALSE(agrees(second));
  EXPECT_EQ(troubles.size(), 1u);
  map_page(first);
  EXPECT_EQ(device.resets, 0);
  // Who leaves and comes back at once is no second client.
  first.reset();
  base::UniqueFd third = connect();
  EXPECT_TRUE(agrees(third));
  EXPECT_EQ(device.resets, 1);
}

TEST_F(Server, ASilentClientKeepsNobodyAway) {
  ASSERT_TRUE(listen().ok());
  const base::UniqueFd silent = connect();
  serve();
  const base::UniqueFd half = connect();  // says something, but no whole word
  ASSERT_EQ(::send(half.get(), "\1", 1, MSG_NOSIGNAL), 1);
  serve();
  EXPECT_EQ(troubles.size(), 1u);
  const base::UniqueFd client = connect();
  EXPECT_TRUE(agrees(client));
  EXPECT_EQ(troubles.size(), 2u);
  for (const base::Error& each : troubles) {
    EXPECT_EQ(each.message().find(path), std::string::npos) << "the path is the receiver's";
  }
  uint8_t byte = 0;
  EXPECT_EQ(::recv(silent.get(), &byte, 1, MSG_DONTWAIT), 0) << "not closed";
  EXPECT_EQ(::recv(half.get(), &byte, 1, MSG_DONTWAIT), 0) << "not closed";
  map_page(client);
}

TEST_F(Server, AClientThatBreaksTheProtocolIsDropped) {
  ASSERT_TRUE(listen().ok());
  base::UniqueFd client = connect();
  ASSERT_TRUE(agrees(client));
  map_page(client);
  const Bytes garbage(16, 0xFF);
  ASSERT_GT(::send(client.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  serve();
  EXPECT_EQ(memory.ranges(), 0u);
  EXPECT_EQ(device.resets, 1);
  EXPECT_EQ(troubles.size(), 1u);
  uint8_t answer[256];
  ssize_t n = 1;
  while (n > 0) n = ::recv(client.get(), answer, sizeof answer, MSG_DONTWAIT);
  EXPECT_EQ(n, 0) << "not closed";
  base::UniqueFd next = connect();
  EXPECT_TRUE(agrees(next));
}

TEST_F(Server, TheSocketIsTheOwnersAndGoesWithTheServer) {
  ASSERT_TRUE(listen().ok());
  struct stat info {};
  ASSERT_EQ(::lstat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0077, 0u);
  base::UniqueFd client = connect();
  ASSERT_TRUE(agrees(client));
  server.reset();
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(connect().valid());
}

TEST_F(Server, OnlyAStaleSocketIsReplaced) {
  { std::ofstream file(path); }
  EXPECT_EQ(listen().error().fault, base::Fault::kConfig);
  EXPECT_TRUE(fs::exists(path));
  fs::remove(path);

  ASSERT_TRUE(listen().ok());
  std::unique_ptr<VfioUserServer> running = std::move(server);
  EXPECT_EQ(listen().error().code, EADDRINUSE);
  EXPECT_TRUE(connect().valid()) << "the one in use is gone";
  running.reset();

  const base::UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(listen().ok());
  EXPECT_TRUE(connect().valid());
}

TEST_F(Server, PathsThatNoSocketCanHaveAreRefused) {
  EXPECT_FALSE(listen_at("").ok());
  EXPECT_EQ(listen_at(std::string(108, 'x')).error().code, ENAMETOOLONG);
  EXPECT_EQ(listen_at(directory_ + "/missing/socket").error().fault, base::Fault::kConfig);
}

}  // namespace
}  // namespace driver::qemu::test
