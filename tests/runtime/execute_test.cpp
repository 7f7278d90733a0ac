// Loading and executing NEFFs on the fake device: data, replay of rings, bindings, statuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include <nrt/nrt.h>

#include <nrt/nrt_experimental.h>
#include <nrt/nrt_sys_trace.h>

#include "arch/contract/address_map.h"
#include "arch/contract/cc_program.h"
#include "arch/contract/engine.h"
#include "contract/regs/cc.h"
#include "driver/ndl/ndl.h"
#include "neff_loader/pack.h"
#include "tests/base/sockets.h"
#include "tests/runtime/fake_ndl.h"
#include "tests/runtime/vector_add.h"

namespace {

using vector_add::example;
using vector_add::kBytes;
using vector_add::kElements;
using vector_add::packed;
using Execute = vector_add::VectorAdd;

TEST_F(Execute, NineExecutionsInARowWrapTheRings) {
  load();
  for (int round = 1; round <= 9; ++round) {
    fill("a", static_cast<float>(round));
    fill("b", 2);
    ASSERT_EQ(execute(), NRT_SUCCESS);
    expect_sum(static_cast<float>(round) + 2);
  }
  EXPECT_EQ(fake::counter(0, NDS_NC_COUNTER_INFER_COMPLETED), 9u);
  EXPECT_EQ(nrt_tensor_check_output_completion(bound("c"), 0, 9), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_check_output_completion(bound("c"), 0, 10), NRT_TIMEOUT);
}

// A chip of the third generation: eight physical cores, by default four logical ones.
class ExecuteV3 : public Execute {
 protected:
  void SetUp() override {
    setenv("NEURON_RT_ALLOW_LEGACY_NEFF", "1", 1);
    fake::Options options;
    options.gen = contract::Gen::kV3;
    options.devices = 1;
    start(options);
  }
  void TearDown() override {
    nrt_close();
    for (const char* name : {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_ALLOW_LEGACY_NEFF"}) {
      unsetenv(name);
    }
  }
  void restart_with_lnc(const char* size) {
    nrt_close();
    setenv("NEURON_LOGICAL_NC_CONFIG", size, 1);
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  }
  uint32_t visible() {
    uint32_t count = 0;
    EXPECT_EQ(nrt_get_visible_vnc_count(&count), NRT_SUCCESS);
    return count;
  }
};

TEST_F(ExecuteV3, BothPhysicalCoresOfALogicalCoreRunTheirPart) {
  EXPECT_EQ(visible(), 4u);
  EXPECT_EQ(fake::busy_cores(), 8u);
  const std::vector<uint32_t> brought_up = {NEURON_CINIT_STATE_STARTED,
                                            NEURON_CINIT_STATE_COMPLETED};
  for (uint32_t nc = 0; nc < 8; ++nc) EXPECT_EQ(fake::core_states(nc), brought_up) << nc;
  for (const auto& [core, nc] : {std::pair{0, 4u}, std::pair{3, 0u}}) {
    load(core, "vector_add_lnc2");
    for (int round = 1; round <= 3; ++round) {
      fill("a", static_cast<float>(round));
      fill("b", 4);
      ASSERT_EQ(execute(), NRT_SUCCESS);
      expect_sum(static_cast<float>(round) + 4);
    }
    EXPECT_EQ(fake::counter(nc, NDS_NC_COUNTER_INFER_COMPLETED), 3u);
  }
}

TEST_F(ExecuteV3, TensorsMoveWithBothParts) {
  load(1, "vector_add_lnc2");
  fill("a", 1);
  fill("b", 2);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  bind("c", allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes, 1));
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(3);
}

TEST_F(ExecuteV3, TheFileMustHaveTheSizeOfTheLogicalCore) {
  const std::vector<uint8_t> one = packed(example("vector_add"));
  const std::vector<uint8_t> two = packed(example("vector_add_lnc2"));
  EXPECT_EQ(nrt_load(one.data(), one.size(), 0, -1, &model_), NRT_INVALID);
  restart_with_lnc("1");
  EXPECT_EQ(visible(), 8u);
  EXPECT_EQ(nrt_load(two.data(), two.size(), 0, -1, &model_), NRT_INVALID);
  load(7);
  fill("a", 1);
  fill("b", 1);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(2);
}

TEST_F(ExecuteV3, RunsOfCoresAreAligned) {
  nrt_close();
  fake::mark_core_busy(0);  // by a process with logical cores of one
  setenv("NEURON_RT_NUM_CORES", "2", 1);
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  unsetenv("NEURON_RT_NUM_CORES");
  EXPECT_EQ(fake::busy_cores(), 5u);
  load(0, "vector_add_lnc2");
  fill("a", 1);
  fill("b", 1);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(2);
  EXPECT_EQ(fake::counter(6, NDS_NC_COUNTER_INFER_COMPLETED), 1u);
}

TEST_F(Execute, AnUnchangedBindingCostsNothing) {
  load();
  ASSERT_EQ(execute(), NRT_SUCCESS);
  const size_t uploads = fake::descriptor_uploads();
  const size_t inits = fake::queue_inits();
  EXPECT_EQ(inits, 32u);  // two queue sets of 16 engines
  ASSERT_EQ(execute(), NRT_SUCCESS);
  EXPECT_EQ(fake::descriptor_uploads(), uploads);
  EXPECT_EQ(fake::queue_inits(), inits);
}

TEST_F(Execute, AChangedBindingRewritesItsDescriptorsOnly) {
  load();
  fill("a", 1);
  fill("b", 1);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  const size_t uploads = fake::descriptor_uploads();
  bind("a", allocate());
  fill("a", 5);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(6);
  EXPECT_EQ(fake::descriptor_uploads(), uploads + 16);  // the reading rings of the input queue
}

TEST_F(Execute, InPlaceAndHostTensors) {
  load();
  bind("c", bound("a"));
  fill("a", 3);
  fill("b", 4);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(7);
  bind("b", allocate(NRT_TENSOR_PLACEMENT_VIRTUAL));
  bind("c", allocate(NRT_TENSOR_PLACEMENT_VIRTUAL));
  bind("a", allocate(NRT_TENSOR_PLACEMENT_HOST));
  fill("a", 10);
  fill("b", 20);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  expect_sum(30);
}

TEST_F(Execute, TwoModelsShareACore) {
  load(0);
  fill("a", 1);
  fill("b", 2);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  nrt_model_t* first = model_;
  const std::vector<uint8_t> file = packed(example("vector_add"));
  ASSERT_EQ(nrt_load(file.data(), file.size(), 0, 1, &model_), NRT_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(execute(), NRT_SUCCESS);
    std::swap(first, model_);
  }
  expect_sum(3);
  EXPECT_EQ(nrt_unload(first), NRT_SUCCESS);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  EXPECT_EQ(nrt_unload(first), NRT_INVALID_HANDLE);
}

TEST_F(Execute, UnloadFreesEverything) {
  const size_t before = fake::live_chunks();
  load();
  nrt_tensor_info_array_t* info = nullptr;
  ASSERT_EQ(nrt_get_model_tensor_info(model_, &info), NRT_SUCCESS);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  ASSERT_EQ(nrt_unload(model_), NRT_SUCCESS);
  for (const char* name : {"a", "b", "c"}) {  // after the unload, by name, as clients do
    nrt_tensor_t* t = bound(name);
    nrt_tensor_free(&t);
  }
  EXPECT_EQ(fake::live_chunks(), before);
  ASSERT_EQ(info->tensor_count, 3u);
  EXPECT_STREQ(info->tensor_array[2].name, "c");
  EXPECT_EQ(info->tensor_array[2].usage, NRT_TENSOR_USAGE_OUTPUT);
  EXPECT_EQ(info->tensor_array[0].dtype, NRT_DTYPE_FLOAT32);
  ASSERT_EQ(info->tensor_array[0].ndim, 2u);
  EXPECT_EQ(info->tensor_array[0].shape[1], 64u);
  nrt_free_model_tensor_info(info);
}

TEST_F(Execute, ArgumentErrors) {
  load();
  EXPECT_EQ(nrt_execute(nullptr, inputs_, outputs_), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_execute(model_, nullptr, outputs_), NRT_INVALID);
  EXPECT_EQ(nrt_execute_repeat(model_, inputs_, outputs_, 0), NRT_INVALID);
  bind("a", allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes - 4));
  EXPECT_EQ(execute(), NRT_INVALID);
  nrt_tensor_t* empty = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("", &empty), NRT_SUCCESS);
  bind("a", empty);
  EXPECT_EQ(execute(), NRT_EXEC_BAD_INPUT);
  bind("a", allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes, 1));  // the other core's memory
  EXPECT_EQ(execute(), NRT_EXEC_BAD_INPUT);
  nrt_tensor_t* freed = allocate();
  bind("a", freed);
  nrt_tensor_free(&freed);
  EXPECT_EQ(execute(), NRT_INVALID);
  bind("a", allocate());
  EXPECT_EQ(nrt_execute_repeat(model_, inputs_, outputs_, 3), NRT_SUCCESS);
}

TEST_F(Execute, LoadErrors) {
  std::vector<uint8_t> file = packed(example("vector_add"));
  EXPECT_EQ(nrt_load(nullptr, 1, -1, -1, &model_), NRT_INVALID);
  EXPECT_EQ(nrt_load(file.data(), 1023, -1, -1, &model_), NRT_INVALID);
  EXPECT_EQ(nrt_load(file.data(), file.size(), 2, -1, &model_), NRT_INVALID);
  EXPECT_EQ(nrt_load(file.data(), file.size(), -1, 7, &model_), NRT_INVALID);
  EXPECT_EQ(nrt_load_collectives(file.data(), file.size(), 0, 1, 2, 2, &model_), NRT_INVALID);
  const std::vector<uint8_t> collective = packed(example("allreduce_two_ranks"));
  EXPECT_EQ(nrt_load(collective.data(), collective.size(), 0, 1, &model_), NRT_INVALID);
  unsetenv("NEURON_RT_ROOT_COMM_ID");
  EXPECT_EQ(nrt_barrier(0, 0, 3), NRT_FAILURE);  // two cores have no room for three ranks
  const size_t before = fake::live_chunks();
  fake::options().memory_limit = 1 << 17;
  EXPECT_EQ(nrt_load(file.data(), file.size(), 0, -1, &model_), NRT_RESOURCE);
  EXPECT_EQ(fake::live_chunks(), before);
  EXPECT_EQ(model_, nullptr);
}

struct BarrierRecord {
  uint64_t cell = 0;  // its address; 0: there is no such record
  uint32_t topsp = 0;
  uint32_t index = 0;  // in the program memory
};

// The barrier record that some program in a CC-core has. Programs are written word by word.
BarrierRecord barrier_record() {
  for (const auto& [at, value] : fake::writes()) {
    if ((value & 0xFF) != static_cast<uint32_t>(contract::cc_program::Op::kBarrier)) continue;
    const contract::AddressMap map{fake::options().gen};
    for (uint32_t t = 0; t < map.topsps(); ++t) {
      const uint64_t program = map.topsp(t).bar0 + contract::topsp::kProgram;
      const uint64_t offset = at - program;
      if (at < program || offset >= contract::topsp::kProgramBytes || offset % 16 != 0) continue;
      return {fake::register_value(at + 8) | uint64_t{fake::register_value(at + 12)} << 32, t,
              static_cast<uint32_t>(offset / 16)};
    }
  }
  return {};
}

// Some operation of the CC-core begins at the record.
bool entered(uint32_t topsp, uint32_t record) {
  const contract::AddressMap map{fake::options().gen};
  const uint64_t table = map.topsp(topsp).bar0 + contract::cc::kOp;
  const uint64_t size = uint64_t{contract::cc::kOpCount} * contract::cc::kOpStride;
  return std::any_of(fake::writes().begin(), fake::writes().end(), [&](const auto& write) {
    const uint64_t in = write.first - table;
    return in < size && in % contract::cc::kOpStride == contract::cc::kOpEntry &&
           write.second == record;
  });
}

// The number of ranks picks the cell, so that small worlds do not meet in one. The fake device has
// no CC-cores: the programs arrive there with the first execution, which then times out.
TEST_F(Execute, RanksMeetAtTheBarrierCellOfTheirNumber) {
  const std::string root = "127.0.0.1:" + std::to_string(sockets::free_port());
  setenv("NEURON_RT_ROOT_COMM_ID", root.c_str(), 1);
  setenv("NEURON_RT_EXEC_TIMEOUT", "1", 1);
  const std::vector<uint8_t> file = packed(example("allreduce_two_ranks"));
  const auto run = [&](int r) {
    nrt_model_t* model = nullptr;
    ASSERT_EQ(
        nrt_load_collectives(file.data(), file.size(), r, 1, static_cast<uint32_t>(r), 2, &model),
        NRT_SUCCESS);
    nrt_tensor_set_t* inputs = nullptr;
    nrt_tensor_set_t* outputs = nullptr;
    ASSERT_EQ(nrt_allocate_tensor_set(&inputs), NRT_SUCCESS);
    ASSERT_EQ(nrt_allocate_tensor_set(&outputs), NRT_SUCCESS);
    constexpr size_t kSize = 4096;
    nrt_tensor_t* x = allocate(NRT_TENSOR_PLACEMENT_DEVICE, kSize, r);
    nrt_tensor_t* y = allocate(NRT_TENSOR_PLACEMENT_DEVICE, kSize, r);
    ASSERT_EQ(nrt_add_tensor_to_tensor_set(inputs, "x", x), NRT_SUCCESS);
    ASSERT_EQ(nrt_add_tensor_to_tensor_set(outputs, "y", y), NRT_SUCCESS);
    EXPECT_EQ(nrt_execute(model, inputs, outputs), NRT_EXEC_HW_ERR_COLLECTIVES);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  unsetenv("NEURON_RT_ROOT_COMM_ID");
  const contract::AddressMap map{fake::options().gen};
  const BarrierRecord barrier = barrier_record();
  EXPECT_EQ(barrier.cell, map.topsp(map.topsps_per_nc() - 1).device + contract::cc::kBarrier +
                              2 * contract::cc::kBarrierStride);
  EXPECT_TRUE(entered(barrier.topsp, barrier.index));
}

// The test is the root: it lets a rank connect, so that this waits, and never answers.
TEST_F(Execute, CloseEndsTheWaitForPeers) {
  const base::UniqueFd root = sockets::bound();
  ASSERT_EQ(::listen(root.get(), 1), 0);
  const std::string id = "127.0.0.1:" + std::to_string(sockets::port_of(root));
  setenv("NEURON_RT_ROOT_COMM_ID", id.c_str(), 1);
  NRT_STATUS status = NRT_SUCCESS;
  std::thread peer([&] { status = nrt_barrier(0, 1, 2); });
  const base::UniqueFd connection(::accept(root.get(), nullptr, nullptr));
  EXPECT_GE(connection.get(), 0);
  nrt_close();
  peer.join();
  EXPECT_EQ(status, NRT_FAILURE);
  unsetenv("NEURON_RT_ROOT_COMM_ID");
}

TEST_F(Execute, EngineErrorsBecomeStatusesAndStopTheCore) {
  load();
  const struct {
    contract::EngineError error;
    NRT_STATUS status;
  } kCases[] = {{contract::EngineError::kBadInstruction, NRT_INVALID},
                {contract::EngineError::kBadOperand, NRT_EXEC_COMPLETED_WITH_ERR},
                {contract::EngineError::kBusError, NRT_HW_ERROR}};
  for (const auto& c : kCases) {
    fake::options().error_engine = 4;
    fake::options().error_code = static_cast<uint32_t>(c.error);
    EXPECT_EQ(execute(), c.status);
    EXPECT_EQ(execute(), NRT_EXEC_UNIT_UNRECOVERABLE);
    nrt_close();
    fake::reset();
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    load();
  }
  EXPECT_EQ(execute(), NRT_SUCCESS);
}

TEST_F(Execute, HangsEndWithTheirCause) {
  setenv("NEURON_RT_EXEC_TIMEOUT", "1", 1);
  load();
  fake::options().hang = true;
  EXPECT_EQ(execute(), NRT_TIMEOUT);
  EXPECT_EQ(fake::counter(0, NDS_NC_COUNTER_INFER_TIMED_OUT), 1u);
  EXPECT_EQ(execute(), NRT_EXEC_UNIT_UNRECOVERABLE);
}

TEST_F(Execute, AnAbortedDmaEngineIsFoundBeforeTheTimeout) {
  load();  // the default limit: half a minute
  fake::options().hang = true;
  fake::options().dma_abort = true;
  EXPECT_EQ(execute(), NRT_EXEC_HW_ERR_DMA_ABORT);
}

TEST_F(Execute, SystemTraceGivesOnePairPerExecution) {
  load();
  ASSERT_EQ(execute(), NRT_SUCCESS);  // not captured
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  nrt_sys_trace_config_set_capture_enabled_for_nc(config, 1, false);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS);
  nrt_sys_trace_config_free(config);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(execute(), NRT_SUCCESS);
  char* text = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrt_sys_trace_fetch_events(&text, &size, nullptr), NRT_SUCCESS);
  EXPECT_EQ(std::strlen(text), size);
  const auto document = nlohmann::json::parse(text, text + size);
  nrt_sys_trace_buffer_free(text);
  std::map<uint64_t, std::vector<nlohmann::json>> running;
  for (const auto& event : document["events"]) {
    if (event["event_type"] == "nc_exec_running") running[event["tracking_id"]].push_back(event);
  }
  ASSERT_EQ(running.size(), 3u);
  for (const auto& [id, pair] : running) {
    ASSERT_EQ(pair.size(), 2u);
    EXPECT_EQ(pair[0]["phase"], "start");
    EXPECT_EQ(pair[1]["phase"], "stop");
    const uint64_t start = pair[0]["data"]["nc_timestamp_ps"];
    const uint64_t stop = pair[1]["data"]["nc_timestamp_ps"];
    EXPECT_LT(start, stop);
    EXPECT_EQ(pair[0]["data"]["nc_timestamp_ns"], start / 1000);
  }
  ASSERT_EQ(nrt_sys_trace_fetch_events(&text, &size, nullptr), NRT_SUCCESS);
  EXPECT_TRUE(nlohmann::json::parse(text)["events"].empty());  // delivered once
  nrt_sys_trace_buffer_free(text);
  EXPECT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  EXPECT_EQ(nrt_sys_trace_fetch_events(&text, &size, nullptr), NRT_FAILURE);
}

TEST_F(Execute, SystemTraceQuotesNames) {
  const std::string name = "a \"name\" \\ with\na line";
  load(-1, "vector_add", name);
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS);
  nrt_sys_trace_config_free(config);
  ASSERT_EQ(execute(), NRT_SUCCESS);
  char* text = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrt_sys_trace_fetch_events(&text, &size, nullptr), NRT_SUCCESS);
  const auto document = nlohmann::json::parse(text, text + size, nullptr, false);
  nrt_sys_trace_buffer_free(text);
  ASSERT_FALSE(document.is_discarded());
  for (const auto& event : document["events"]) {
    if (event["event_type"] != "nc_exec_running") continue;
    EXPECT_EQ(event["data"]["model_name"], name);
  }
}

}  // namespace
