// Ranks that meet: threads and processes, bad texts, garbage on the port, dying peers.
#include "runtime/collectives/bootstrap.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/fd.h"
#include "runtime/collectives/bootstrap_wire.h"
#include "tests/base/sockets.h"

namespace ccl {
namespace {

using sockets::free_port;

std::string root_on(uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
}

base::UniqueFd connect_to(uint16_t port) {
  for (int i = 0; i < 200; ++i) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    ::usleep(10000);
  }
  return {};
}

BootstrapOptions options(uint32_t rank, uint32_t world, const std::string& root) {
  BootstrapOptions o;
  o.rank = rank;
  o.world = world;
  o.root_id = root;
  o.record[0] = static_cast<uint8_t>(rank + 100);
  o.give_up = std::chrono::seconds(20);
  return o;
}

// What every rank does: three all-gathers of different sizes and a barrier. 0 if all is well.
int take_part(uint32_t rank, uint32_t world, const std::string& root) {
  auto b = Bootstrap::open(options(rank, world, root));
  if (!b) return 1;
  if (!(*b)->wait_all()) return 2;
  if ((*b)->table().size() != world) return 3;
  for (uint32_t r = 0; r < world; ++r) {
    if ((*b)->table()[r].record[0] != r + 100) return 4;
  }
  for (size_t size : {size_t{0}, size_t{5}, size_t{300000}}) {
    const auto all = (*b)->all_gather(Blob(size + rank, static_cast<uint8_t>(rank)));
    if (!all) return 5;
    for (uint32_t r = 0; r < world; ++r) {
      if ((*all)[r] != Blob(size + r, static_cast<uint8_t>(r))) return 6;
    }
  }
  return (*b)->barrier() ? 0 : 7;
}

void threads(uint32_t world, const std::string& root) {
  std::vector<std::thread> ranks;
  std::atomic<int> bad{0};
  for (uint32_t r = 0; r < world; ++r) {
    ranks.emplace_back([&, r] {
      const int rc = take_part(r, world, root);
      if (rc != 0) bad = rc;
    });
  }
  for (auto& t : ranks) t.join();
  EXPECT_EQ(bad, 0);
}

TEST(RootId, AcceptsThePublishedForms) {
  EXPECT_EQ(parse_root_id("10.0.0.1:45654")->host, "10.0.0.1");
  EXPECT_EQ(parse_root_id("10.0.0.1:45654")->port, 45654);
  EXPECT_EQ(parse_root_id("[::1]:1")->host, "::1");
  EXPECT_EQ(parse_root_id("localhost:61239")->host, "localhost");
  const std::string longer(70, 'a');
  EXPECT_TRUE(parse_root_id(longer + ".example.com:80"));
}

TEST(RootId, RefusalShowsTheForm) {
  for (const char* text :
       {"", "localhost", "localhost:", ":80", "1.2.3:80", "1.2.3.4:0", "1.2.3.4:65536", "::1:80",
        "[::1]", "[1.2.3.4]:80", "[::g]:80", "a b:80", "host:80x", "host:-1", "host:999999"}) {
    const auto r = parse_root_id(text);
    ASSERT_FALSE(r) << text;
    EXPECT_NE(r.error().what.find("please use format: <ipv4>:<port> or [<ipv6>]:<port>"),
              std::string::npos);
    EXPECT_NE(r.error().what.find(std::string("[") + text + "]"), std::string::npos);
  }
}

TEST(Bootstrap, ThreadsMeetWithoutAnAddress) {
  for (const uint32_t world : {1u, 2u, 3u, 8u}) threads(world, "");
}

TEST(Bootstrap, ThreadsMeetAtAnAddress) {
  threads(2, root_on(free_port()));
  threads(5, "localhost:" + std::to_string(free_port()));
}

TEST(Bootstrap, OneThreadOpensAllRanksInAnyOrder) {
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  std::vector<uint32_t> tickets;
  for (const uint32_t r : {2u, 0u, 1u}) {
    auto b = Bootstrap::open(options(r, 3, ""));
    ASSERT_TRUE(b);
    tickets.push_back(*(*b)->post(Blob{static_cast<uint8_t>(r)}));
    ranks.push_back(std::move(*b));
  }
  for (size_t i = 0; i < 3; ++i) {
    const auto all = ranks[i]->collect(tickets[i]);
    ASSERT_TRUE(all) << all.error().message();
    ASSERT_EQ(all->size(), 3u);
    for (uint8_t r = 0; r < 3; ++r) EXPECT_EQ((*all)[r], Blob{r});
  }
}

TEST(Bootstrap, ProcessesMeet) {
  const std::string root = root_on(free_port());
  constexpr uint32_t kWorld = 3;
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < kWorld; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(take_part(r, kWorld, root));
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

// More ranks than the usual limit of descriptors allows; they share what they all get.
TEST(Bootstrap, AWorldOfManyThreads) {
  constexpr uint32_t kWorld = 400;
  const std::string root = root_on(free_port());
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (uint32_t r = 0; r < kWorld; ++r) {
    auto b = Bootstrap::open(options(r, kWorld, root));
    ASSERT_TRUE(b);
    ranks.push_back(std::move(*b));
  }
  std::vector<uint32_t> tickets;
  for (uint32_t r = 0; r < kWorld; ++r) {
    const auto ticket = ranks[r]->post(Blob(100 + r, static_cast<uint8_t>(r)));
    ASSERT_TRUE(ticket);
    tickets.push_back(*ticket);
  }
  const Blob* first = nullptr;
  for (uint32_t r = 0; r < kWorld; ++r) {
    const auto all = ranks[r]->collect(tickets[r]);
    ASSERT_TRUE(all) << all.error().message();
    ASSERT_EQ(all->size(), kWorld);
    EXPECT_EQ((*all)[399], Blob(499, static_cast<uint8_t>(399)));
    if (first == nullptr) first = &(*all)[0];
    EXPECT_EQ(&(*all)[0], first);
  }
}

TEST(Bootstrap, ProcessesOfSeveralRanks) {
  const std::string root = root_on(free_port());
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<std::thread> ranks;
    std::atomic<int> bad{0};
    for (const uint32_t r : {1u, 3u, 5u}) {
      ranks.emplace_back([&, r] { bad += take_part(r, 6, root); });
    }
    for (auto& t : ranks) t.join();
    ::_exit(bad);
  }
  std::vector<std::thread> ranks;
  std::atomic<int> bad{0};
  for (const uint32_t r : {4u, 2u, 0u}) {
    ranks.emplace_back([&, r] { bad += take_part(r, 6, root); });
  }
  for (auto& t : ranks) t.join();
  EXPECT_EQ(bad, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(Bootstrap, WhatWasCompleteBeforeALeaveIsKept) {
  auto root = Bootstrap::open(options(0, 2, ""));
  auto peer = Bootstrap::open(options(1, 2, ""));
  const auto first = (*root)->post({1});
  const auto second = (*root)->post({2});
  ASSERT_TRUE((*peer)->all_gather({3}));
  peer->reset();
  EXPECT_FALSE((*root)->collect(*second));
  const auto all = (*root)->collect(*first);
  ASSERT_TRUE(all);
  EXPECT_EQ((*all)[1], Blob{3});
}

// A root that breaks the protocol: lengths that do not fit, a reference to nothing, a wrong number.
TEST(Bootstrap, ABrokenRootIsAnError) {
  Blob table = wire::encode(wire::Table{{{0, {}}, {1, {}}}, 7, 0});
  Blob lengths(8, 0xFF);
  const wire::Message cases[] = {
      wire::make_message(wire::Type::kGathered, 0, 0, lengths),
      wire::make_message(wire::Type::kGathered, 0, 0, Blob(3)),
      wire::make_message(wire::Type::kGathered, 0, 1, Blob(8)),
      wire::make_message(wire::Type::kHere, 0, 1, Blob(8)),
      wire::make_message(wire::Type::kTable, 0, 0, table),
  };
  for (const wire::Message& message : cases) {
    base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    auto peer = Bootstrap::open(options(1, 2, root_on(ntohs(address.sin_port))));
    ASSERT_TRUE(peer);
    const base::UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
    for (const auto& m : {wire::make_message(wire::Type::kWelcome, 0, 0),
                          wire::make_message(wire::Type::kTable, 0, 0, table)}) {
      ASSERT_EQ(::send(fd.get(), m->data(), m->size(), 0), static_cast<ssize_t>(m->size()));
    }
    ASSERT_TRUE((*peer)->wait_all());
    const auto ticket = (*peer)->post({1});
    ASSERT_TRUE(ticket);
    ASSERT_EQ(::send(fd.get(), message->data(), message->size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message->size()));
    EXPECT_FALSE((*peer)->collect(*ticket));
  }
}

TEST(Bootstrap, BadOptions) {
  EXPECT_FALSE(Bootstrap::open(options(2, 2, "")));
  EXPECT_FALSE(Bootstrap::open(options(0, 0, "")));
  EXPECT_FALSE(Bootstrap::open(options(0, 2, "nonsense")));
}

TEST(Bootstrap, GarbageOnThePortIsDropped) {
  const uint16_t port = free_port();
  auto root = Bootstrap::open(options(0, 2, root_on(port)));
  ASSERT_TRUE(root);
  std::vector<base::UniqueFd> strangers;
  for (const std::string& text : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string("OCCN"),
                                  std::string(1, 'x'), std::string()}) {
    strangers.push_back(connect_to(port));
    ASSERT_TRUE(strangers.back().valid());
    ASSERT_EQ(::send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  auto peer = Bootstrap::open(options(1, 2, root_on(port)));
  ASSERT_TRUE(peer);
  EXPECT_TRUE((*root)->wait_all());
  EXPECT_TRUE((*peer)->wait_all());
}

// What wait_all() says; empty for success.
std::string meeting(const base::Result<std::unique_ptr<Bootstrap>>& b) {
  const base::Status status = (*b)->wait_all();
  return status ? "" : status.error().what;
}

TEST(Bootstrap, ARankOfAnotherWorldEndsTheJobWithAReason) {
  const std::string root_id = root_on(free_port());
  const std::string reason = "a world of 3 ranks, the root has 4";
  auto root = Bootstrap::open(options(0, 4, root_id));
  auto early = Bootstrap::open(options(1, 4, root_id));
  auto stranger = Bootstrap::open(options(2, 3, root_id));
  EXPECT_EQ(meeting(root), "rank 2 was refused: " + reason);
  EXPECT_NE(meeting(stranger).find(reason), std::string::npos);
  auto late = Bootstrap::open(options(3, 4, root_id));
  EXPECT_NE(meeting(early).find(reason), std::string::npos);
  EXPECT_NE(meeting(late).find(reason), std::string::npos);
}

TEST(Bootstrap, TwoRanksOfOneNumberEndTheJob) {
  const std::string root_id = root_on(free_port());
  auto root = Bootstrap::open(options(0, 3, root_id));
  auto first = Bootstrap::open(options(1, 3, root_id));
  auto second = Bootstrap::open(options(1, 3, root_id));
  for (const auto* b : {&root, &first, &second}) {
    EXPECT_NE(meeting(*b).find("rank 1 is already here"), std::string::npos);
  }
}

TEST(Bootstrap, TwoRootsEndTheJob) {
  const std::string root_id = root_on(free_port());
  auto root = Bootstrap::open(options(0, 3, root_id));
  auto peer = Bootstrap::open(options(1, 3, root_id));
  ::usleep(50000);  // the first one has the port
  BootstrapOptions again = options(0, 3, root_id);
  again.port_in_use = std::chrono::milliseconds(200);
  auto second = Bootstrap::open(again);
  EXPECT_NE(meeting(second).find("is there another rank 0?"), std::string::npos);
  EXPECT_NE(meeting(root).find("rank 0 is already here"), std::string::npos);
  EXPECT_NE(meeting(peer).find("rank 0 is already here"), std::string::npos);
}

TEST(Bootstrap, AKilledPeerIsAnErrorOnEveryRank) {
  const std::string root = root_on(free_port());
  const pid_t victim = ::fork();
  if (victim == 0) {
    auto b = Bootstrap::open(options(2, 3, root));
    (void)(*b)->wait_all();
    ::raise(SIGKILL);
  }
  std::vector<std::thread> ranks;
  std::atomic<int> errors{0};
  for (const uint32_t r : {0u, 1u}) {
    ranks.emplace_back([&, r] {
      auto b = Bootstrap::open(options(r, 3, root));
      const auto all = (*b)->all_gather({1, 2, 3});
      if (!all && all.error().what.find("connection closed by remote peer") != std::string::npos) {
        ++errors;
      }
    });
  }
  for (auto& t : ranks) t.join();
  EXPECT_EQ(errors, 2);
  ::waitpid(victim, nullptr, 0);
}

TEST(Bootstrap, AKilledRootIsAnErrorOnEveryRank) {
  const std::string root = root_on(free_port());
  const pid_t victim = ::fork();
  if (victim == 0) {
    auto b = Bootstrap::open(options(0, 2, root));
    (void)(*b)->wait_all();
    ::raise(SIGKILL);
  }
  auto b = Bootstrap::open(options(1, 2, root));
  const auto all = (*b)->all_gather({1});
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().what.find("connection closed by remote peer"), std::string::npos);
  ::waitpid(victim, nullptr, 0);
}

TEST(Bootstrap, LeavingInGoodOrderEndsWaits) {
  auto root = Bootstrap::open(options(0, 2, ""));
  auto peer = Bootstrap::open(options(1, 2, ""));
  ASSERT_TRUE((*root)->wait_all());
  ASSERT_TRUE((*peer)->wait_all());
  const auto ticket = (*root)->post({1});
  EXPECT_TRUE((*root)->health());
  peer->reset();
  EXPECT_FALSE((*root)->collect(*ticket));
  const base::Status health = (*root)->health();
  ASSERT_FALSE(health);
  EXPECT_EQ(health.error().what, "rank 1 has left");
}

TEST(Bootstrap, MissingPeersWarnAndTimeOut) {
  std::atomic<int> warnings{0};
  BootstrapOptions o = options(0, 4, root_on(free_port()));
  o.warn_every = std::chrono::milliseconds(200);
  o.give_up = std::chrono::milliseconds(900);
  o.alarm = [&](const std::string& text) {
    if (text ==
        "Timeout waiting for incoming connection (waited 0 sec) - retrying; rank 0 of 4 "
        "waits for ranks 1, 3") {
      ++warnings;
    }
  };
  auto here = Bootstrap::open(options(2, 4, o.root_id));
  auto b = Bootstrap::open(o);
  const base::Status status = (*b)->wait_all();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, 5);  // NRT_TIMEOUT
  EXPECT_GE(warnings, 2);
}

TEST(Bootstrap, ARankThatDoesNotContributeIsNamed) {
  std::atomic<bool> root_said{false};
  std::atomic<bool> peer_said{false};
  BootstrapOptions o = options(0, 3, "");
  o.warn_every = std::chrono::milliseconds(200);
  o.alarm = [&](const std::string& text) {
    if (text.find("Timeout waiting for RX") == 0 && text.find("waits for rank 2") != text.npos) {
      root_said = true;
    }
  };
  BootstrapOptions p = options(1, 3, "");
  p.warn_every = o.warn_every;
  p.alarm = [&](const std::string& text) {
    peer_said = text.find("rank 1 of 3 waits") != text.npos;
  };
  auto root = Bootstrap::open(o);
  auto peer = Bootstrap::open(p);
  auto silent = Bootstrap::open(options(2, 3, ""));
  for (const auto* b : {&root, &peer, &silent}) ASSERT_EQ(meeting(*b), "");
  const auto ticket = (*root)->post({1});
  ASSERT_TRUE((*peer)->post({2}));
  for (int i = 0; i < 500 && (!root_said || !peer_said); ++i) ::usleep(10000);
  EXPECT_TRUE(root_said);
  EXPECT_TRUE(peer_said);
  ASSERT_TRUE((*silent)->post({3}));
  EXPECT_TRUE((*root)->collect(*ticket));
}

// A rank that executes so many times; after the second it asks who has not.
std::string missing_of(uint32_t rank, uint32_t world, const std::string& root, int executions) {
  auto b = Bootstrap::open(options(rank, world, root));
  if (!b || !(*b)->barrier()) return "did not meet";
  for (int i = 0; i < executions; ++i) (*b)->begin_execution();
  if (!(*b)->barrier()) return "barrier";
  std::string text = executions == 2 ? (*b)->missing() : "";
  if (!(*b)->barrier()) return "no end";
  return text;
}

TEST(Bootstrap, RanksThatDoNotExecuteAreNamed) {
  for (const std::vector<int>& executions : {std::vector{2, 2, 1, 2}, {1, 2, 0, 2}, {2, 3, 2, 2}}) {
    const std::string root = root_on(free_port());
    std::vector<std::string> texts(executions.size());
    std::vector<std::thread> ranks;
    for (uint32_t r = 0; r < executions.size(); ++r) {
      ranks.emplace_back([&, r] { texts[r] = missing_of(r, 4, root, executions[r]); });
    }
    for (auto& t : ranks) t.join();
    const std::string expected = executions[2] == 2   ? ""
                                 : executions[0] == 2 ? "rank 2 has not begun it"
                                                      : "ranks 0, 2 have not begun it";
    for (size_t r = 0; r < texts.size(); ++r) {
      EXPECT_EQ(texts[r], executions[r] == 2 ? expected : "");
    }
  }
}

// A process that is stopped answers nothing, and goes on afterwards as if nothing had been.
TEST(Bootstrap, RanksThatAreStoppedAreNamed) {
  for (const uint32_t stopped : {1u, 0u}) {
    const std::string root = root_on(free_port());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(missing_of(stopped, 2, root, 0).empty() ? 0 : 1);
    auto b = Bootstrap::open(options(1 - stopped, 2, root));
    ASSERT_TRUE(b);
    ASSERT_TRUE((*b)->barrier() && (*b)->barrier());
    ::kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    (*b)->begin_execution();
    EXPECT_EQ((*b)->missing(), stopped == 1 ? "rank 1 does not answer"
                                            : "rank 0, which knows the others, does not answer");
    ::kill(child, SIGCONT);
    EXPECT_TRUE((*b)->barrier());
    b->reset();
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST(Bootstrap, ARankThatNeverMetAnyoneCloses) {
  auto b = Bootstrap::open(options(1, 2, root_on(free_port())));
  ASSERT_TRUE(b);
  ::usleep(150000);
}

// A rank that breaks the protocol after a correct HELLO ends the job; nobody hangs or crashes.
TEST(Bootstrap, ABrokenPeerEndsTheJob) {
  for (const bool huge : {false, true}) {
    const uint16_t port = free_port();
    auto root = Bootstrap::open(options(0, 2, root_on(port)));
    const base::UniqueFd fd = connect_to(port);
    const wire::Hello hello = wire::make_hello(2, 1, {});
    wire::Header header;
    header.type = static_cast<uint32_t>(huge ? wire::Type::kBlob : wire::Type::kTable);
    header.rank = 1;
    header.length = huge ? 0xFFFFFFFF : 0;
    ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
    ASSERT_EQ(::send(fd.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    EXPECT_FALSE((*root)->barrier());
  }
}

}  // namespace
}  // namespace ccl
