// The asynchronous API on the fake device, older form: execution and tensor requests, completion,
// error trackers, fatal errors, life cycle (spec/nrt-api.md 11).
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include <nrt/nrt_async.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_sys_trace.h>

#include "driver/ndl/nrt/nds/neuron_ds.h"
#include "tests/runtime/vector_add.h"

namespace {

using vector_add::kBytes;
using vector_add::kElements;

class Async : public vector_add::VectorAdd {
 protected:
  void SetUp() override {
    start({});
    setenv("NEURON_RT_EXEC_TIMEOUT", "1", 1);
    ASSERT_EQ(nrta_error_tracker_create(0, &errors_), NRT_SUCCESS);
  }
  void TearDown() override {
    fake::options().hang = false;
    nrta_error_tracker_destroy(errors_);
    nrt_close();
    unsetenv("NEURON_RT_EXEC_TIMEOUT");
  }
  NRT_STATUS schedule(nrta_seq_t* sequence) {
    return nrta_execute_schedule(model_, inputs_, outputs_, 0, errors_, sequence);
  }
  static void wait(nrta_seq_t sequence) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    bool done = false;
    while (!done && std::chrono::steady_clock::now() < end) {
      ASSERT_EQ(nrta_is_completed(sequence, &done), NRT_SUCCESS);
      std::this_thread::yield();
    }
    ASSERT_TRUE(done);
  }
  static nrta_seq_t last(nrta_xu_t xu, int queue = 0) {
    nrta_seq_t sequence = ~0ull;
    EXPECT_EQ(nrta_get_sequence(0, xu, queue, &sequence), NRT_SUCCESS);
    return sequence;
  }
  std::vector<nrta_error_t> errors() {
    const nrta_error_t* list = nullptr;
    size_t count = ~size_t{0};
    EXPECT_EQ(nrta_error_tracker_get_list(errors_, &list, &count), NRT_SUCCESS);
    return {list, list + count};
  }

  nrta_error_tracker_t* errors_ = nullptr;
};

TEST_F(Async, AnExecutionCompletesWithItsOutputs) {
  load(0);
  fill("a", 2);
  fill("b", 3);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(last(NRTA_XU_COMPUTE)), 0u);
  nrta_seq_t sequence = 0;
  ASSERT_EQ(schedule(&sequence), NRT_SUCCESS);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), 1u);
  EXPECT_NE(NRTA_SEQ_GET_XU_ID(sequence), 0u);
  wait(sequence);
  expect_sum(5);
  EXPECT_EQ(last(NRTA_XU_COMPUTE), sequence);
  EXPECT_TRUE(errors().empty());
  EXPECT_EQ(fake::counter(0, NDS_NC_COUNTER_INFER_COMPLETED), 1u);
}

TEST_F(Async, AFullQueueDrainsAndNumbersStayWithoutGaps) {
  load(0);
  fill("a", 1);
  fill("b", 1);
  constexpr uint64_t kRequests = 150;
  nrta_seq_t sequence = 0;
  for (uint64_t n = 1; n <= kRequests;) {
    const NRT_STATUS status = schedule(&sequence);
    if (status == NRT_QUEUE_FULL) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(status, NRT_SUCCESS);
    ASSERT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), n++);
  }
  wait(sequence);
  expect_sum(2);
  EXPECT_EQ(nrt_tensor_check_output_completion(bound("c"), 0, kRequests), NRT_SUCCESS);
}

TEST_F(Async, TensorRequestsMoveBytes) {
  nrt_tensor_t* from = allocate();
  nrt_tensor_t* to = allocate();
  std::vector<uint8_t> data(kBytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  std::vector<uint8_t> back(kBytes);
  nrta_seq_t wrote = 0;
  nrta_seq_t copied = 0;
  nrta_seq_t read = 0;
  for (const int queue : {0, 1}) {
    ASSERT_EQ(nrta_tensor_write(from, data.data(), 0, kBytes, queue, errors_, &wrote), NRT_SUCCESS);
    wait(wrote);
    ASSERT_EQ(nrta_tensor_copy(from, 4, to, 0, kBytes - 4, queue, errors_, &copied), NRT_SUCCESS);
    wait(copied);
    ASSERT_EQ(nrta_tensor_read(back.data(), to, 8, 100, queue, errors_, &read), NRT_SUCCESS);
    wait(read);
    EXPECT_EQ(std::memcmp(back.data(), data.data() + 12, 100), 0);
    for (const auto& [xu, sequence] : {std::pair{NRTA_XU_TENSOR_WRITE, wrote},
                                       {NRTA_XU_TENSOR_OP, copied},
                                       {NRTA_XU_TENSOR_READ, read}}) {
      EXPECT_EQ(last(xu, queue), sequence);
    }
  }
  EXPECT_NE(NRTA_SEQ_GET_XU_ID(wrote), NRTA_SEQ_GET_XU_ID(read));
  EXPECT_TRUE(errors().empty());
}

TEST_F(Async, BadArgumentsQueueNothing) {
  load(0);
  nrt_tensor_t* near = allocate();
  nrt_tensor_t* far = allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes, 1);
  nrt_tensor_t* host = allocate(NRT_TENSOR_PLACEMENT_VIRTUAL);
  uint8_t data[16] = {};
  nrta_seq_t sequence = 0;
  const auto execute = [&](nrt_model_t* model, void* in, void* out, int queue) {
    return nrta_execute_schedule(model, in, out, queue, nullptr, &sequence);
  };
  EXPECT_EQ(execute(nullptr, inputs_, outputs_, 0), NRT_INVALID_HANDLE);
  EXPECT_EQ(execute(model_, nullptr, outputs_, 0), NRT_INVALID);
  EXPECT_EQ(execute(model_, inputs_, outputs_, 1), NRT_INVALID);
  EXPECT_EQ(execute(model_, inputs_, outputs_, -1), NRT_INVALID);
  EXPECT_EQ(nrta_execute_schedule(model_, inputs_, outputs_, 0, nullptr, nullptr), NRT_INVALID);
  bind("a", far);
  EXPECT_EQ(execute(model_, inputs_, outputs_, 0), NRT_EXEC_BAD_INPUT);
  EXPECT_EQ(nrta_tensor_write(near, nullptr, 0, 1, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_write(near, data, kBytes - 8, 16, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_write(near, data, ~0ull, 16, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_write(near, data, 0, 16, 2, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_write(nullptr, data, 0, 16, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_read(nullptr, near, 0, 16, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_copy(near, 0, far, 0, 16, 0, nullptr, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_copy(near, 0, nullptr, 0, 16, 0, nullptr, &sequence), NRT_INVALID);
  auto* stranger = reinterpret_cast<nrta_error_tracker_t*>(data);
  EXPECT_EQ(nrta_tensor_write(near, data, 0, 16, 0, stranger, &sequence), NRT_INVALID);
  EXPECT_EQ(sequence, 0u);
  ASSERT_EQ(nrta_tensor_copy(host, 0, near, 0, 16, 0, nullptr, &sequence), NRT_SUCCESS);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), 1u);
  wait(sequence);
}

TEST_F(Async, QueriesCheckTheirArguments) {
  bool done = false;
  nrta_seq_t sequence = 0;
  int fd = -1;
  EXPECT_EQ(nrta_is_completed(0, &done), NRT_INVALID);
  EXPECT_EQ(nrta_is_completed(~0ull, &done), NRT_INVALID);
  EXPECT_EQ(nrta_get_completion_handle(1, &fd), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(2, NRTA_XU_COMPUTE, 0, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TYPE_NUM, 0, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 1, &sequence), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, nullptr), NRT_INVALID);
  nrta_error_tracker_t* tracker = nullptr;
  EXPECT_EQ(nrta_error_tracker_create(2, &tracker), NRT_INVALID);
  EXPECT_EQ(nrta_error_tracker_create(0, nullptr), NRT_INVALID);
  nrta_error_tracker_destroy(nullptr);
}

TEST_F(Async, AHangKillsTheUnitAndItsQueue) {
  load(0);
  fake::options().hang = true;
  std::vector<nrta_seq_t> sent;
  nrta_seq_t sequence = 0;
  NRT_STATUS status = NRT_SUCCESS;
  while ((status = schedule(&sequence)) == NRT_SUCCESS) sent.push_back(sequence);
  EXPECT_EQ(status, NRT_QUEUE_FULL);
  EXPECT_GE(sent.size(), 64u);
  wait(sent.back());
  const std::vector<nrta_error_t> list = errors();
  ASSERT_EQ(list.size(), sent.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].seq_id, sent[i]);
    EXPECT_EQ(list[i].error_code, i == 0 ? NRT_TIMEOUT : NRT_EXEC_UNIT_UNRECOVERABLE);
  }
  EXPECT_TRUE(errors().empty());  // each is returned once
  EXPECT_EQ(schedule(&sequence), NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(execute(), NRT_EXEC_UNIT_UNRECOVERABLE);
  // Other units go on.
  uint8_t byte = 1;
  nrta_seq_t write = 0;
  ASSERT_EQ(nrta_tensor_write(bound("a"), &byte, 0, 1, 0, errors_, &write), NRT_SUCCESS);
  wait(write);
  EXPECT_TRUE(errors().empty());
}

TEST_F(Async, AnErrorGoesToItsTrackerEvenIfThatIsGone) {
  load(0);
  fake::options().hang = true;
  nrta_error_tracker_t* gone = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &gone), NRT_SUCCESS);
  nrta_seq_t first = 0;
  nrta_seq_t second = 0;
  ASSERT_EQ(nrta_execute_schedule(model_, inputs_, outputs_, 0, gone, &first), NRT_SUCCESS);
  ASSERT_EQ(schedule(&second), NRT_SUCCESS);
  nrta_error_tracker_destroy(gone);
  const nrta_error_t* list = nullptr;
  size_t count = 0;
  EXPECT_EQ(nrta_error_tracker_get_list(gone, &list, &count), NRT_INVALID);
  wait(second);
  ASSERT_EQ(errors().size(), 1u);
}

TEST_F(Async, SetsAndTensorsMayGoWhileTheRequestWaits) {
  load(0);
  fill("a", 1);
  fill("b", 2);
  nrt_tensor_t* output = allocate();
  nrt_tensor_t* input = allocate();
  const std::vector<float> ones(kElements, 1);
  ASSERT_EQ(nrt_tensor_write(input, ones.data(), 0, kBytes), NRT_SUCCESS);
  std::vector<nrta_seq_t> sent(2);
  ASSERT_EQ(schedule(&sent[0]), NRT_SUCCESS);
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(set, "a", input), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(set, "b", input), NRT_SUCCESS);
  bind("c", output);
  ASSERT_EQ(nrta_execute_schedule(model_, set, outputs_, 0, errors_, &sent[1]), NRT_SUCCESS);
  nrt_destroy_tensor_set(&set);
  nrt_tensor_free(&input);
  wait(sent[1]);
  std::vector<float> sum(kElements);
  ASSERT_EQ(nrt_tensor_read(output, sum.data(), 0, kBytes), NRT_SUCCESS);
  EXPECT_EQ(sum, std::vector<float>(kElements, 2));
  EXPECT_TRUE(errors().empty());
}

TEST_F(Async, CompletionHandlesBecomeReadableAndStaySo) {
  load(0);
  nrta_seq_t first = 0;
  nrta_seq_t second = 0;
  ASSERT_EQ(schedule(&first), NRT_SUCCESS);
  ASSERT_EQ(schedule(&second), NRT_SUCCESS);
  int closed = -1;
  int fd = -1;
  ASSERT_EQ(nrta_get_completion_handle(second, &closed), NRT_SUCCESS);
  ::close(closed);
  ASSERT_EQ(nrta_get_completion_handle(second, &fd), NRT_SUCCESS);
  pollfd waiting{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 30000), 1);
  ASSERT_EQ(::poll(&waiting, 1, 0), 1);
  bool done = false;
  ASSERT_EQ(nrta_is_completed(second, &done), NRT_SUCCESS);
  EXPECT_TRUE(done);
  ::close(fd);
  ASSERT_EQ(nrta_get_completion_handle(first, &fd), NRT_SUCCESS);
  waiting.fd = fd;
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  ::close(fd);
}

TEST_F(Async, SynchronousExecutionsComeBehindTheQueue) {
  load(0);
  nrta_seq_t sequence = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(schedule(&sequence), NRT_SUCCESS);
    ASSERT_EQ(execute(), NRT_SUCCESS);
    EXPECT_EQ(last(NRTA_XU_COMPUTE), sequence);
  }
  EXPECT_EQ(nrt_tensor_check_output_completion(bound("c"), 0, 30), NRT_SUCCESS);
}

TEST_F(Async, ThreadsShareAUnit) {
  load(0);
  std::atomic<uint64_t> highest{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        nrta_seq_t sequence = 0;
        NRT_STATUS status = NRT_QUEUE_FULL;
        while ((status = schedule(&sequence)) == NRT_QUEUE_FULL) std::this_thread::yield();
        ASSERT_EQ(status, NRT_SUCCESS);
        wait(sequence);
        uint64_t seen = highest;
        while (seen < sequence && !highest.compare_exchange_weak(seen, sequence)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(highest.load()), 80u);
  EXPECT_EQ(last(NRTA_XU_COMPUTE), highest);
}

TEST_F(Async, UnloadingMakesQueuedExecutionsFail) {
  load(0);
  fake::options().hang = true;
  nrta_seq_t first = 0;
  ASSERT_EQ(schedule(&first), NRT_SUCCESS);
  ASSERT_EQ(nrt_unload(model_), NRT_SUCCESS);  // waits for a running execution
  nrta_seq_t sequence = 0;
  EXPECT_EQ(schedule(&sequence), NRT_INVALID_HANDLE);
  wait(first);
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(Async, ClosingEndsWhatIsQueued) {
  load(0);
  fill("a", 1);
  fill("b", 1);
  nrt_tensor_t* host = allocate(NRT_TENSOR_PLACEMENT_VIRTUAL);
  bind("c", host);
  const auto* sums = static_cast<const float*>(nrt_tensor_get_va(host));
  nrta_seq_t sequence = 0;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(schedule(&sequence), NRT_SUCCESS);
  nrt_close();
  EXPECT_EQ(sums[3], 6.0f);
  bool done = false;
  EXPECT_EQ(nrta_is_completed(sequence, &done), NRT_CLOSED);
  EXPECT_EQ(schedule(&sequence), NRT_CLOSED);
  nrt_tensor_free(&host);
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(last(NRTA_XU_COMPUTE)), 0u);
}

TEST_F(Async, TheTraceCarriesTheSequenceNumber) {
  load(0);
  ASSERT_EQ(nrt_sys_trace_start(nullptr), NRT_SUCCESS);
  nrta_seq_t sequence = 0;
  ASSERT_EQ(schedule(&sequence), NRT_SUCCESS);
  wait(sequence);
  char* text = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrt_sys_trace_fetch_events(&text, &size, nullptr), NRT_SUCCESS);
  const auto document = nlohmann::json::parse(text, text + size);
  nrt_sys_trace_buffer_free(text);
  nrt_sys_trace_stop();
  int found = 0;
  for (const auto& event : document["events"]) {
    const std::string type = event["event_type"];
    if (type != "nc_exec_running" && type != "nrta_execute_schedule") continue;
    EXPECT_EQ(event["data"].value("seq_id", uint64_t{0}), sequence);
    ++found;
  }
  EXPECT_EQ(found, 4);
}

// The root id is for ranks of other processes; loading one rank waits for no other.
TEST_F(Async, OneThreadLoadsAllRanksWithoutARootId) {
  unsetenv("NEURON_RT_ROOT_COMM_ID");
  const std::vector<uint8_t> file = vector_add::packed(vector_add::example("allreduce_two_ranks"));
  for (const uint32_t rank : {1u, 0u}) {
    nrt_model_t* model = nullptr;
    ASSERT_EQ(nrt_load_collectives(file.data(), file.size(), static_cast<int32_t>(rank), 1, rank, 2,
                                   &model),
              NRT_SUCCESS);
  }
  std::thread other([] { EXPECT_EQ(nrt_barrier(1, 1, 2), NRT_SUCCESS); });
  EXPECT_EQ(nrt_barrier(0, 0, 2), NRT_SUCCESS);
  other.join();
}

TEST_F(Async, TensorsKnowTheirCore) {
  int core = 7;
  ASSERT_EQ(nrt_tensor_get_lnc_index(allocate(NRT_TENSOR_PLACEMENT_DEVICE, 64, 1), &core),
            NRT_SUCCESS);
  EXPECT_EQ(core, 1);
  for (const auto placement : {NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    ASSERT_EQ(nrt_tensor_get_lnc_index(allocate(placement, 64, 1), &core), NRT_SUCCESS);
    EXPECT_EQ(core, -1);
  }
  EXPECT_EQ(nrt_tensor_get_lnc_index(nullptr, &core), NRT_INVALID);
}

}  // namespace
