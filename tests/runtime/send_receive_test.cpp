// Send and receive between the cores of one process, on the fake device: both ends are polled by
// one thread (spec/nrt-api.md 12).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nrt/nrt_async_sendrecv.h>

#include "runtime/nrt/send_receive.h"
#include "runtime/nrt/status.h"
#include "tests/base/sockets.h"
#include "tests/runtime/vector_add.h"

namespace {

using Comm = nrt_async_sendrecv_comm_t*;
using Request = nrt_async_sendrecv_request_t*;
constexpr const char* kHere = "127.0.0.1";

class SendReceiveTest : public vector_add::VectorAdd {
 protected:
  void SetUp() override {
    port_ = sockets::free_ports();
    setenv("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "1", 1);
    setenv("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", std::to_string(port_).c_str(), 1);
    start({});
  }
  void TearDown() override {
    VectorAdd::TearDown();
    unsetenv("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED");
    unsetenv("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT");
  }
  void enable() {
    ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS);
    ASSERT_EQ(nrt_async_sendrecv_init(1), NRT_SUCCESS);
  }
  // Until `step` says so, or for half a minute.
  static bool poll(const std::function<bool()>& step) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!step()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static bool connected(Comm comm) {
    bool done = false;
    EXPECT_EQ(nrt_async_sendrecv_test_comm(comm, &done), NRT_SUCCESS);
    return done;
  }
  // A pair from core 0 to core 1.
  void join(const char* ip = kHere) {
    ASSERT_EQ(nrt_async_sendrecv_connect(ip, 1, 0, &out_), NRT_SUCCESS);
    ASSERT_EQ(nrt_async_sendrecv_accept(ip, 0, 1, &in_), NRT_SUCCESS);
    ASSERT_TRUE(poll([&] {
      const bool one = connected(out_);
      return connected(in_) && one;
    }));
  }
  // Statuses of a transfer at its ends; sizes in sent_ and received_.
  std::pair<NRT_STATUS, NRT_STATUS> finish(Request send, Request receive) {
    NRT_STATUS statuses[2] = {NRT_COLL_PENDING, NRT_COLL_PENDING};
    const bool ended = poll([&] {
      bool all = true;
      for (const int side : {0, 1}) {
        if (statuses[side] != NRT_COLL_PENDING) continue;
        bool done = false;
        const NRT_STATUS status = nrt_async_sendrecv_test_request(side == 0 ? send : receive, &done,
                                                                  side == 0 ? &sent_ : &received_);
        if (status != NRT_SUCCESS || done) {
          statuses[side] = status;
        } else {
          all = false;
        }
      }
      return all;
    });
    EXPECT_TRUE(ended);
    return {statuses[0], statuses[1]};
  }
  Request send(nrt_tensor_t* tensor, size_t offset, size_t length) {
    Request request = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_send_tensor(tensor, offset, length, out_, &request), NRT_SUCCESS);
    return request;
  }
  Request receive(nrt_tensor_t* tensor, size_t offset, size_t length) {
    Request request = nullptr;
    EXPECT_EQ(nrt_async_sendrecv_recv_tensor(tensor, offset, length, in_, &request), NRT_SUCCESS);
    return request;
  }
  nrt_tensor_t* tensor(int core, size_t size) {
    return allocate(NRT_TENSOR_PLACEMENT_DEVICE, size, core);
  }

  uint16_t port_ = 0;
  Comm out_ = nullptr;
  Comm in_ = nullptr;
  size_t sent_ = 0;
  size_t received_ = 0;
};

using Pair = std::pair<NRT_STATUS, NRT_STATUS>;

TEST_F(SendReceiveTest, BytesGoFromOneCoreToTheOther) {
  enable();
  join();
  constexpr size_t kSize = (20u << 20) + 12345;  // more than sockets and one call hold
  std::vector<uint8_t> data(kSize);
  for (size_t i = 0; i < kSize; ++i) data[i] = static_cast<uint8_t>(i * 31 + (i >> 13));
  nrt_tensor_t* from = tensor(0, kSize);
  nrt_tensor_t* to = tensor(1, kSize + 16);
  ASSERT_EQ(nrt_tensor_write(from, data.data(), 0, kSize), NRT_SUCCESS);
  Request sending = send(from, 5, kSize - 5);
  Request receiving = receive(to, 16, kSize - 5);
  EXPECT_EQ(finish(sending, receiving), Pair(NRT_SUCCESS, NRT_SUCCESS));
  EXPECT_EQ(sent_, kSize - 5);
  EXPECT_EQ(received_, kSize - 5);
  EXPECT_EQ(nrt_async_sendrecv_flush(1), NRT_SUCCESS);
  std::vector<uint8_t> back(kSize - 5);
  ASSERT_EQ(nrt_tensor_read(to, back.data(), 16, back.size()), NRT_SUCCESS);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin() + 5));
  bool done = false;
  EXPECT_EQ(nrt_async_sendrecv_test_request(sending, &done, &sent_), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS);
  EXPECT_EQ(nrt_async_sendrecv_close(1), NRT_SUCCESS);
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS);
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_SUCCESS);
}

TEST_F(SendReceiveTest, RequestsMatchInOrderWhateverTheirLengths) {
  enable();
  join("::1");
  nrt_tensor_t* from = tensor(0, 4096);
  nrt_tensor_t* to = tensor(1, 4096);
  for (uint8_t i = 0; i < 4; ++i) {
    const std::vector<uint8_t> bytes(1024, static_cast<uint8_t>(i + 1));
    ASSERT_EQ(nrt_tensor_write(from, bytes.data(), i * 1024u, 1024), NRT_SUCCESS);
  }
  // Equal; a longer receive; a shorter one; nothing; equal.
  const size_t lengths[][2] = {{1024, 1024}, {100, 500}, {1024, 1023}, {0, 0}, {1, 1}};
  std::vector<std::pair<Request, Request>> requests;
  for (size_t i = 0; i < 5; ++i) {
    Request receiving = receive(to, i * 512, lengths[i][1]);
    requests.push_back({send(from, i % 4 * 1024, lengths[i][0]), receiving});
  }
  EXPECT_EQ(finish(requests[4].first, requests[4].second), Pair(NRT_SUCCESS, NRT_SUCCESS));
  EXPECT_EQ(received_, 1u);
  EXPECT_EQ(finish(requests[1].first, requests[1].second), Pair(NRT_SUCCESS, NRT_SUCCESS));
  EXPECT_EQ(received_, 100u);
  for (int again = 0; again < 2; ++again) {  // failed ones stay
    EXPECT_EQ(finish(requests[2].first, requests[2].second), Pair(NRT_FAILURE, NRT_FAILURE));
  }
  EXPECT_EQ(finish(requests[3].first, requests[3].second), Pair(NRT_SUCCESS, NRT_SUCCESS));
  EXPECT_EQ(received_, 0u);
  uint8_t byte = 0;
  ASSERT_EQ(nrt_tensor_read(to, &byte, 4 * 512, 1), NRT_SUCCESS);
  EXPECT_EQ(byte, 1);
}

TEST_F(SendReceiveTest, CommunicatorsOfAPairMatchInOrder) {
  enable();
  constexpr int kPairs = 5;
  Comm senders[kPairs];
  Comm receivers[kPairs];
  for (Comm& comm : senders) ASSERT_EQ(nrt_async_sendrecv_connect(kHere, 1, 0, &comm), NRT_SUCCESS);
  for (Comm& comm : receivers) {
    ASSERT_EQ(nrt_async_sendrecv_accept(kHere, 0, 1, &comm), NRT_SUCCESS);
  }
  ASSERT_TRUE(poll([&] {  // the last ones are asked first
    bool all = true;
    for (int i = kPairs - 1; i >= 0; --i) {
      all = connected(senders[i]) && all;
      all = connected(receivers[i]) && all;
    }
    return all;
  }));
  nrt_tensor_t* from = tensor(0, kPairs);
  nrt_tensor_t* to = tensor(1, kPairs);
  const uint8_t data[kPairs] = {1, 2, 3, 4, 5};
  ASSERT_EQ(nrt_tensor_write(from, data, 0, kPairs), NRT_SUCCESS);
  for (int i = kPairs - 1; i >= 0; --i) {
    out_ = senders[i];
    in_ = receivers[i];
    const auto at = static_cast<size_t>(i);
    Request sending = send(from, at, 1);
    EXPECT_EQ(finish(sending, receive(to, at, 1)), Pair(NRT_SUCCESS, NRT_SUCCESS));
  }
  uint8_t back[kPairs] = {};
  ASSERT_EQ(nrt_tensor_read(to, back, 0, kPairs), NRT_SUCCESS);
  EXPECT_TRUE(std::equal(std::begin(back), std::end(back), data));
}

TEST_F(SendReceiveTest, ArgumentsAndLimits) {
  int number = 0;
  EXPECT_EQ(nrt_async_sendrecv_get_max_num_communicators_per_lnc(&number), NRT_SUCCESS);
  EXPECT_EQ(number, 64);
  EXPECT_EQ(nrt_async_sendrecv_get_max_num_pending_request(&number), NRT_SUCCESS);
  EXPECT_EQ(number, 64);
  EXPECT_EQ(nrt_async_sendrecv_get_max_num_pending_request(nullptr), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_connect(kHere, 1, 0, &out_), NRT_FAILURE);  // not initialized
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_flush(0), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_init(2), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_init(-1), NRT_FAILURE);
  unsetenv("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED");
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_FAILURE);
  setenv("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "1", 1);
  enable();
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_FAILURE);
  for (const char* ip : {"", "host", "1.2.3", "127.0.0.1:80", "[::1]"}) {
    EXPECT_EQ(nrt_async_sendrecv_connect(ip, 1, 0, &out_), NRT_FAILURE) << ip;
  }
  EXPECT_EQ(nrt_async_sendrecv_connect(nullptr, 1, 0, &out_), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_connect(kHere, -1, 0, &out_), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_connect(kHere, 1, 0, nullptr), NRT_FAILURE);
  bool done = false;
  EXPECT_EQ(nrt_async_sendrecv_test_comm(nullptr, &done), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_test_request(nullptr, &done, nullptr), NRT_INVALID_HANDLE);
  join();
  nrt_tensor_t* near = tensor(0, 64);
  Request request = nullptr;
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(near, 60, 5, out_, &request), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(nullptr, 0, 1, out_, &request), NRT_FAILURE);
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(near, 0, 1, in_, &request), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(near, 0, 1, nullptr, &request), NRT_INVALID_HANDLE);
  for (int i = 0; i < 64; ++i) send(near, 0, 1);
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(near, 0, 1, out_, &request), NRT_RESOURCE);
  Comm more = nullptr;
  for (int i = 1; i < 64; ++i) {
    ASSERT_EQ(nrt_async_sendrecv_connect(kHere, 1, 0, &more), NRT_SUCCESS);
  }
  EXPECT_EQ(nrt_async_sendrecv_connect(kHere, 1, 0, &more), NRT_RESOURCE);
  EXPECT_EQ(nrt_async_sendrecv_send_tensor(near, 0, 1, more, &request), NRT_FAILURE);  // too early
}

TEST_F(SendReceiveTest, ClosingSomethingUnfinishedIsAnErrorAndFreesIt) {
  enable();
  join();
  send(tensor(0, 64), 0, 64);
  EXPECT_EQ(nrt_async_sendrecv_close(0), NRT_FAILURE);
  bool done = false;
  EXPECT_EQ(nrt_async_sendrecv_test_comm(out_, &done), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_FAILURE);
  // The other end learns it.
  nrt_tensor_t* to = tensor(1, 64);
  Request request = nullptr;
  ASSERT_TRUE(poll([&] {
    if (request == nullptr &&
        nrt_async_sendrecv_recv_tensor(to, 0, 64, in_, &request) != NRT_SUCCESS) {
      return true;
    }
    size_t size = 0;
    return nrt_async_sendrecv_test_request(request, &done, &size) == NRT_FAILURE;
  }));
  EXPECT_EQ(nrt_async_sendrecv_test_comm(in_, &done), NRT_FAILURE);
  nrt_close();
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS);
}

TEST_F(SendReceiveTest, StrangersAtThePortAreIgnored) {
  enable();
  std::vector<base::UniqueFd> strangers;
  for (const char* text : {"", "GET / HTTP/1.1\r\n\r\n and more of that"}) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_ + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::write(fd.get(), text, std::char_traits<char>::length(text)),
              static_cast<ssize_t>(std::char_traits<char>::length(text)));
    strangers.push_back(std::move(fd));
  }
  join();
  nrt_tensor_t* from = tensor(0, 64);
  Request sending = send(from, 0, 64);
  EXPECT_EQ(finish(sending, receive(tensor(1, 64), 0, 64)), Pair(NRT_SUCCESS, NRT_SUCCESS));
}

// Limits of a minute, made short.
TEST(SendReceiveLimits, WaitingHasAnEnd) {
  nrt::PeerLimits limits;
  limits.port = sockets::free_ports();
  limits.connect = std::chrono::milliseconds(300);
  {
    nrt::SendReceive ends(0, 2, limits);
    ASSERT_TRUE(ends.enable(0).ok());
    auto alone = ends.open(true, kHere, 1, 0);
    ASSERT_TRUE(alone.ok());
    base::Result<bool> ready(false);
    while ((ready = ends.connected(*alone)) && !*ready) std::this_thread::yield();
    ASSERT_FALSE(ready.ok());
    EXPECT_EQ(nrt::status_of(ready.error()), NRT_TIMEOUT);
    EXPECT_EQ(nrt::status_of(ends.connected(*alone).error()), NRT_TIMEOUT);
  }

  limits = {};
  limits.port = sockets::free_ports();
  limits.stall = std::chrono::milliseconds(300);
  nrt::SendReceive ends(0, 2, limits);
  ASSERT_TRUE(ends.enable(0).ok());
  ASSERT_TRUE(ends.enable(1).ok());
  auto out = ends.open(true, kHere, 1, 0);
  auto in = ends.open(false, kHere, 0, 1);
  ASSERT_TRUE(out.ok() && in.ok());
  for (bool all = false; !all;) {
    const base::Result<bool> one = ends.connected(*out);
    const base::Result<bool> other = ends.connected(*in);
    ASSERT_TRUE(one.ok() && other.ok());
    all = *one && *other;
  }
  auto view = nrt::allocate_tensor(nrt::Placement::kVirtual, nullptr, 16);
  auto request = ends.start(*in, false, *view, 0, 16);
  ASSERT_TRUE(request.ok());
  base::Result<std::optional<uint64_t>> end(std::optional<uint64_t>{});
  while ((end = ends.finished(*request)) && !*end) std::this_thread::yield();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(nrt::status_of(end.error()), NRT_TIMEOUT);
}

}  // namespace
