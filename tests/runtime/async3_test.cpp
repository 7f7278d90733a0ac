// Generation 3 of the asynchronous API on the fake device: status words, cores by number, eventfds
// of the client's (spec/nrt-api.md 11.10). A program of its own: the
// functions have the names of the older form.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <chrono>
#include <cstring>
#include <thread>

#include <nrt/nrt_async.h>

#include "tests/runtime/vector_add.h"

namespace {

using vector_add::kBytes;

constexpr NRT_STATUS kPending = NRT_COLL_PENDING;  // no request ends like that

class Async3 : public vector_add::VectorAdd {
 protected:
  void SetUp() override {
    start({});
    setenv("NEURON_RT_EXEC_TIMEOUT", "1", 1);
  }
  void TearDown() override {
    fake::options().hang = false;
    nrt_close();
    unsetenv("NEURON_RT_EXEC_TIMEOUT");
  }
  static nrta_seq_t last(nrta_xu_t xu) {
    nrta_seq_t sequence = ~0ull;
    EXPECT_EQ(nrta_get_sequence(0, xu, 0, &sequence), NRT_SUCCESS);
    return sequence;
  }
  static int event() { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
  static bool readable(int fd, int timeout_ms) {
    pollfd waiting{fd, POLLIN, 0};
    return ::poll(&waiting, 1, timeout_ms) == 1;
  }
  static uint64_t count(int fd) {
    uint64_t value = 0;
    return ::read(fd, &value, sizeof value) == sizeof value ? value : 0;
  }
};

// The last number stands for those before it.
TEST_F(Async3, StatusWordsOfABatchAreThereWithTheLastNumber) {
  load(0);
  fill("a", 1);
  fill("b", 4);
  constexpr size_t kBatch = 32;
  std::vector<NRT_STATUS> results(kBatch, kPending);
  nrta_seq_t sequence = 0;
  for (size_t i = 0; i < kBatch; ++i) {
    ASSERT_EQ(nrta_execute_schedule(model_, inputs_, outputs_, 0, &results[i], &sequence),
              NRT_SUCCESS);
    ASSERT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), i + 1);
  }
  const int fd = event();
  ASSERT_EQ(nrta_event_register_seq_id_completion(sequence, fd), NRT_SUCCESS);
  ASSERT_TRUE(readable(fd, 30000));
  EXPECT_EQ(last(NRTA_XU_COMPUTE), sequence);
  EXPECT_EQ(results, std::vector<NRT_STATUS>(kBatch, NRT_SUCCESS));
  expect_sum(5);
  EXPECT_EQ(count(fd), 1u);
  ASSERT_EQ(nrta_event_register_seq_id_completion(sequence, fd), NRT_SUCCESS);
  EXPECT_EQ(count(fd), 1u);  // it has completed: at once
  EXPECT_EQ(nrta_event_register_seq_id_completion(sequence, -1), NRT_SUCCESS);
  EXPECT_EQ(nrta_event_register_seq_id_completion(sequence + 1, fd), NRT_INVALID);
  ::close(fd);
}

TEST_F(Async3, AllTensorRequestsAreOfOneUnit) {
  nrt_tensor_t* tensor = allocate();
  nrt_tensor_t* far = allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes, 1);
  char text[] = "0123456789";
  char back[sizeof text] = {};
  NRT_STATUS results[4] = {kPending, kPending, kPending, kPending};
  nrta_seq_t sequence = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, text, 0, sizeof text, 0, 0, &results[0], &sequence),
            NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_copy(tensor, 0, tensor, 64, sizeof text, 0, 0, &results[1], &sequence),
            NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_read(back, tensor, 64, sizeof text, 0, 0, &results[2], &sequence),
            NRT_SUCCESS);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), 3u);
  EXPECT_EQ(nrta_tensor_read(back, far, 0, 1, 0, 0, &results[3], &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_read(back, tensor, 0, 1, 2, 0, &results[3], &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_read(back, tensor, 0, 1, 0, 2, &results[3], &sequence), NRT_INVALID);
  while (last(NRTA_XU_TENSOR_OP) < sequence) std::this_thread::yield();
  EXPECT_STREQ(back, text);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(results[i], NRT_SUCCESS) << i;
  EXPECT_EQ(results[3], kPending);  // written on completion only
  nrt_tensor_t* host = allocate(NRT_TENSOR_PLACEMENT_VIRTUAL);
  ASSERT_EQ(nrta_tensor_write(host, text, 0, 4, -1, 0, nullptr, &sequence), NRT_SUCCESS);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), 4u);
}

// An eventfd per unit in a level-triggered epoll.
TEST_F(Async3, UnitsSignalEveryCompletion) {
  load(0);
  const int compute = event();
  const int tensors = event();
  ASSERT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_COMPUTE, 0, compute), NRT_SUCCESS);
  ASSERT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_TENSOR_OP, 0, tensors), NRT_SUCCESS);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {compute, tensors}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.fd = fd;
    ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest), 0);
  }
  constexpr uint64_t kEach = 100;
  uint64_t sent[2] = {};
  uint64_t signals[2] = {};
  nrta_seq_t numbers[2] = {};
  uint8_t byte = 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (signals[0] + signals[1] < 2 * kEach && std::chrono::steady_clock::now() < end) {
    if (sent[0] < kEach &&
        nrta_execute_schedule(model_, inputs_, outputs_, 0, nullptr, &numbers[0]) == NRT_SUCCESS) {
      ++sent[0];
    }
    if (sent[1] < kEach &&
        nrta_tensor_write(bound("a"), &byte, 0, 1, 0, 0, nullptr, &numbers[1]) == NRT_SUCCESS) {
      ++sent[1];
    }
    epoll_event ready[2];
    const int n = ::epoll_wait(epoll, ready, 2, 0);
    for (int i = 0; i < n; ++i) {
      const int unit = ready[i].data.fd == compute ? 0 : 1;
      signals[unit] += count(ready[i].data.fd);
      const nrta_seq_t now = last(unit == 0 ? NRTA_XU_COMPUTE : NRTA_XU_TENSOR_OP);
      EXPECT_GE(NRTA_SEQ_GET_SEQ_NUM(now), signals[unit]);  // early perhaps, never lost
    }
  }
  EXPECT_EQ(signals[0], kEach);
  EXPECT_EQ(signals[1], kEach);
  for (const nrta_xu_t xu : {NRTA_XU_COMPUTE, NRTA_XU_TENSOR_OP, NRTA_XU_COLLECTIVES}) {
    EXPECT_EQ(nrta_event_register_xu_completion(0, xu, 0, -1), NRT_SUCCESS);
  }
  nrta_seq_t sequence = 0;
  ASSERT_EQ(nrta_tensor_write(bound("a"), &byte, 0, 1, 0, 0, nullptr, &sequence), NRT_SUCCESS);
  while (last(NRTA_XU_TENSOR_OP) < sequence) std::this_thread::yield();
  EXPECT_FALSE(readable(tensors, 0));
  for (const int fd : {compute, tensors, epoll}) ::close(fd);
}

TEST_F(Async3, OnlyEventfdsAreSignalled) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  EXPECT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_COMPUTE, 0, pipe_ends[1]), NRT_INVALID);
  EXPECT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_COMPUTE, 0, 1 << 20), NRT_INVALID);
  EXPECT_EQ(nrta_event_register_xu_completion(2, NRTA_XU_COMPUTE, 0, -1), NRT_INVALID);
  EXPECT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_TYPE_NUM, 0, -1), NRT_INVALID);
  for (const int fd : pipe_ends) ::close(fd);
}

TEST_F(Async3, AHangIsInTheStatusWords) {
  load(0);
  fake::options().hang = true;
  NRT_STATUS results[2] = {kPending, kPending};
  nrta_seq_t sequence = 0;
  for (NRT_STATUS& result : results) {
    ASSERT_EQ(nrta_execute_schedule(model_, inputs_, outputs_, 0, &result, &sequence), NRT_SUCCESS);
  }
  while (last(NRTA_XU_COMPUTE) < sequence) std::this_thread::yield();
  EXPECT_EQ(results[0], NRT_TIMEOUT);
  EXPECT_EQ(results[1], NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(nrta_execute_schedule(model_, inputs_, outputs_, 0, nullptr, &sequence),
            NRT_EXEC_UNIT_UNRECOVERABLE);
}

}  // namespace
