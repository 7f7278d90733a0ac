// Life cycle, tensors and tensor sets through the public API.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <nrt/nrt.h>

#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/nrt_version.h>

#include "tests/runtime/fake_ndl.h"

extern "C" const char* headers_c_status(void);

namespace {

class Api : public testing::Test {
 protected:
  void SetUp() override {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    unsetenv("NEURON_RT_VISIBLE_CORES");
    unsetenv("NEURON_RT_NUM_CORES");
    fake::reset();
  }
  void TearDown() override { nrt_close(); }

  static NRT_STATUS init() { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "any text", "1.2"); }
  static nrt_tensor_t* tensor(size_t size, int core = 0,
                              nrt_tensor_placement_t placement = NRT_TENSOR_PLACEMENT_DEVICE) {
    nrt_tensor_t* t = nullptr;
    EXPECT_EQ(nrt_tensor_allocate(placement, core, size, "t", &t), NRT_SUCCESS);
    return t;
  }
};

TEST_F(Api, StatesGateTheCalls) {
  nrt_tensor_t* t = nullptr;
  const bool never =
      nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4, nullptr, &t) == NRT_UNINITIALIZED;
  ASSERT_EQ(init(), NRT_SUCCESS);
  EXPECT_EQ(init(), NRT_FAILURE);  // a second instance; the first one goes on
  t = tensor(4);
  nrt_close();
  nrt_close();
  EXPECT_EQ(nrt_tensor_memset(t, 0, 1, 4), NRT_CLOSED);
  nrt_tensor_free(&t);  // a handle that outlived the runtime
  EXPECT_EQ(t, nullptr);
  ASSERT_EQ(init(), NRT_SUCCESS);
  EXPECT_EQ(fake::busy_cores(), 2u);
  nrt_close();
  EXPECT_EQ(fake::busy_cores(), 0u);
  (void)never;  // only in the first test of the process
}

TEST_F(Api, CountsNeedNoInit) {
  uint32_t count = 0;
  EXPECT_EQ(nrt_get_total_nc_count(&count), NRT_SUCCESS);
  EXPECT_EQ(count, 2u);
  setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
  EXPECT_EQ(nrt_get_visible_vnc_count(&count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
  ASSERT_EQ(init(), NRT_SUCCESS);
  EXPECT_EQ(nrt_get_visible_nc_count(&count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(nrt_get_total_vnc_count(nullptr), NRT_INVALID);
  fake::options().driver_present = false;
  EXPECT_EQ(nrt_get_total_vnc_count(&count), NRT_FAILURE);
}

TEST_F(Api, BusyCoresFailInitAndNothingIsKept) {
  fake::mark_core_busy(1);
  EXPECT_EQ(init(), NRT_FAILURE);
  EXPECT_EQ(fake::busy_cores(), 1u);
  setenv("NEURON_RT_NUM_CORES", "1", 1);
  EXPECT_EQ(init(), NRT_SUCCESS);
}

TEST_F(Api, MalformedEnvironmentFailsInit) {
  setenv("NEURON_RT_VISIBLE_CORES", "0,2", 1);
  EXPECT_EQ(init(), NRT_INVALID);
  unsetenv("NEURON_RT_VISIBLE_CORES");
  EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""), NRT_INVALID);
}

TEST_F(Api, RingIdChecksAreMaskedOnBothHalvesOfEveryEngine) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  // Engine 0 of core 0 and engine 15 of core 1 (spec/hw-registers.md 2.3, 3.9).
  EXPECT_NE(fake::register_value(0x3000'0000 + 0x3A030) & 1u << 17, 0u);
  EXPECT_NE(fake::register_value(0x3070'0000 + 15 * 0x4'0000 + 0x3A070) & 1u << 11, 0u);
}

TEST_F(Api, VersionIsSizeVersioned) {
  nrt_version_t version;
  std::memset(&version, 0xEE, sizeof version);
  EXPECT_EQ(nrt_get_version(&version, 16), NRT_SUCCESS);
  EXPECT_EQ(version.rt_major, 2u);
  EXPECT_EQ(version.rt_patch, 0xEEEEEEEEEEEEEEEEu);  // beyond what the caller announced
  EXPECT_EQ(nrt_get_version(nullptr, 16), NRT_INVALID);
  EXPECT_EQ(nrt_get_version(&version, 4), NRT_INVALID);
}

TEST_F(Api, StatusTexts) {
  EXPECT_STREQ(nrt_get_status_as_str(NRT_EXEC_OOB), "NRT_EXEC_OOB");
  EXPECT_STREQ(nrt_get_status_as_str(static_cast<NRT_STATUS>(8)), "UNKNOWN STATUS");
  EXPECT_STREQ(headers_c_status(), "NRT_SUCCESS");
}

TEST_F(Api, DeviceTensorsStartAsZerosAndCheckRanges) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = tensor(70001);
  std::vector<uint8_t> data(70001, 1);
  EXPECT_EQ(nrt_tensor_read(t, data.data(), 0, data.size()), NRT_SUCCESS);
  EXPECT_EQ(std::vector<uint8_t>(70001, 0), data);
  const uint32_t word = 0x12345678;
  EXPECT_EQ(nrt_tensor_write(t, &word, 69997, 4), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_write(t, &word, 69998, 4), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_write(t, &word, SIZE_MAX, 4), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_read(t, data.data(), 4, SIZE_MAX), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_write(t, nullptr, 0, 0), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_write(t, nullptr, 0, 1), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_memset(t, 69999, 0x1AB, 2), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read(t, data.data(), 69997, 4), NRT_SUCCESS);
  EXPECT_EQ(std::vector<uint8_t>(data.begin(), data.begin() + 4),
            (std::vector<uint8_t>{0x78, 0x56, 0xAB, 0xAB}));
  EXPECT_EQ(nrt_tensor_get_size(t), 70001u);
  EXPECT_EQ(nrt_tensor_get_size(nullptr), 0u);
  nrt_tensor_free(&t);
  nrt_tensor_free(&t);
  nrt_tensor_free(nullptr);
}

TEST_F(Api, BadTensorArguments) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 2, 4, "", &t), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, -1, 4, "", &t), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "", &t), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(static_cast<nrt_tensor_placement_t>(3), 0, 4, "", &t), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, 4, nullptr, &t), NRT_SUCCESS);
  nrt_tensor_t* stale = t;
  nrt_tensor_free(&t);
  EXPECT_EQ(nrt_tensor_memset(stale, 0, 0, 1), NRT_INVALID);
  fake::options().memory_limit = 0;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4, "", &t), NRT_RESOURCE);
}

TEST_F(Api, SlicesShareAndKeepTheStorage) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  const size_t before = fake::live_chunks();
  nrt_tensor_t* t = tensor(100);
  nrt_tensor_t* slice = nullptr;
  nrt_tensor_t* inner = nullptr;
  EXPECT_EQ(nrt_tensor_allocate_slice(t, 90, 11, "s", &slice), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate_slice(t, 10, 0, "s", &slice), NRT_INVALID);
  ASSERT_EQ(nrt_tensor_allocate_slice(t, 10, 20, "s", &slice), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_allocate_slice(slice, 5, 2, "s", &inner), NRT_SUCCESS);
  EXPECT_EQ(static_cast<uint8_t*>(nrt_tensor_get_va(inner)) - 15,
            static_cast<uint8_t*>(nrt_tensor_get_va(t)));
  nrt_tensor_device_allocation_info_t whole{};
  nrt_tensor_device_allocation_info_t part{};
  EXPECT_EQ(nrt_tensor_get_device_allocation_info(t, &whole), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_device_allocation_info(inner, &part), NRT_SUCCESS);
  EXPECT_EQ(part.physical_address, whole.physical_address + 15);
  nrt_tensor_free(&t);
  nrt_tensor_free(&slice);
  EXPECT_EQ(fake::live_chunks(), before + 1);
  EXPECT_EQ(nrt_tensor_memset(inner, 0, 7, 2), NRT_SUCCESS);
  nrt_tensor_free(&inner);
  EXPECT_EQ(fake::live_chunks(), before);
}

TEST_F(Api, CopiesBetweenAllPlacements) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  constexpr nrt_tensor_placement_t kPlacements[] = {
      NRT_TENSOR_PLACEMENT_DEVICE, NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL};
  for (const auto from : kPlacements) {
    for (const auto to : kPlacements) {
      nrt_tensor_t* a = tensor(33, 0, from);
      nrt_tensor_t* b = tensor(33, 0, to);
      const char text[] = "a text of 33 bytes, with its end";
      EXPECT_EQ(nrt_tensor_write(a, text, 0, 33), NRT_SUCCESS);
      EXPECT_EQ(nrt_tensor_copy(a, 2, b, 1, 31), NRT_SUCCESS);
      char back[33] = {};
      EXPECT_EQ(nrt_tensor_read(b, back, 1, 31), NRT_SUCCESS);
      EXPECT_STREQ(back, text + 2);
      EXPECT_EQ(nrt_tensor_copy(a, 3, b, 1, 31), NRT_INVALID);
      nrt_tensor_free(&a);
      nrt_tensor_free(&b);
    }
  }
  nrt_tensor_t* here = tensor(8, 0);
  nrt_tensor_t* there = tensor(8, 1);
  EXPECT_EQ(nrt_tensor_copy(here, 0, there, 0, 8), NRT_INVALID);
}

TEST_F(Api, OverlappingCopyOnTheDeviceKeepsData) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = tensor(64);
  uint8_t data[64];
  for (int i = 0; i < 64; ++i) data[i] = static_cast<uint8_t>(i);
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 7}, {7, 0}}) {
    EXPECT_EQ(nrt_tensor_write(t, data, 0, 64), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_copy(t, from, t, to, 50), NRT_SUCCESS);
    uint8_t back[50];
    EXPECT_EQ(nrt_tensor_read(t, back, to, 50), NRT_SUCCESS);
    EXPECT_EQ(std::memcmp(back, data + from, 50), 0);
  }
}

TEST_F(Api, AttachedBuffersAreTheCallers) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("e", &t), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_va(t), nullptr);
  EXPECT_EQ(nrt_tensor_memset(t, 0, 0, 0), NRT_INVALID);
  char buffer[5] = "....";
  EXPECT_EQ(nrt_tensor_attach_buffer(t, nullptr, 5), NRT_INVALID);
  ASSERT_EQ(nrt_tensor_attach_buffer(t, buffer, 5), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_va(t), buffer);
  EXPECT_EQ(nrt_tensor_write(t, "abc", 1, 3), NRT_SUCCESS);
  EXPECT_STREQ(buffer, ".abc");
  nrt_tensor_free(&t);
}

TEST_F(Api, BatchesMoveNothingWhenOneElementIsBad) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = tensor(8);
  char good[4] = {'a', 'b', 'c', 'd'};
  nrt_tensor_batch_op_t ops[2] = {{0, 4, good}, {5, 4, good}};
  nrt_tensor_batch_t batch = {t, ops, 2};
  EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, false), NRT_INVALID);
  char back[8];
  EXPECT_EQ(nrt_tensor_read(t, back, 0, 8), NRT_SUCCESS);
  EXPECT_EQ(back[0], 0);
  ops[1].offset = 4;
  EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, true), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read(t, back, 0, 8), NRT_SUCCESS);
  EXPECT_EQ(std::memcmp(back, "abcdabcd", 8), 0);
  EXPECT_EQ(nrt_tensor_write_batch(nullptr, 0, false), NRT_SUCCESS);
}

TEST_F(Api, SetsOutliveTheirTensors) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  nrt_tensor_t* t = tensor(4);
  nrt_tensor_t* found = nullptr;
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, "x", t), NRT_SUCCESS);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "y", &found), NRT_FAILURE);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_SUCCESS);
  EXPECT_EQ(found, t);
  nrt_tensor_free(&t);
  nrt_destroy_tensor_set(&set);
  EXPECT_EQ(set, nullptr);
  nrt_destroy_tensor_set(&set);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(nullptr, "x", nullptr), NRT_INVALID);
}

TEST_F(Api, MemoryStatsAndHbmMapping) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_vnc_memory_stats_t stats{};
  size_t written = 0;
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &written), NRT_SUCCESS);
  EXPECT_EQ(written, sizeof stats);
  EXPECT_EQ(stats.bytes_limit, 16ull << 30);
  EXPECT_GT(stats.bytes_used, 0u);
  EXPECT_EQ(nrt_get_vnc_memory_stats(9, &stats, sizeof stats, &written), NRT_INVALID);
  void* va = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrt_get_hbm_mmap_va(0, 0, &va, &size), NRT_INVALID);
  EXPECT_EQ(nrt_get_hbm_mmap_va(0, 2, &va, &size), NRT_INVALID_HANDLE);
}

TEST_F(Api, UnsupportedFamiliesAnswer) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  EXPECT_EQ(nrt_profile_start(nullptr, "x"), NRT_FAILURE);
  int err = 0;
  char text[8];
  EXPECT_EQ(nrt_get_libnccl_net(&err, text, sizeof text), nullptr);
  EXPECT_NE(err, 0);
  EXPECT_EQ(text[7], '\0');
}

TEST_F(Api, OptionObjectsWorkInEveryState) {
  nrt_inspect_config_t* config = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&config), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_activity(config, "all", false), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_activity(config, "cpu_util", true), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_activity(config, "nonsense", true), NRT_INVALID);
  const char** names = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrt_inspect_config_get_enabled_activity_types(config, &names, &count), NRT_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_STREQ(names[0], "cpu_util");
  nrt_inspect_config_free_activity_types(names, count);
  EXPECT_EQ(nrt_inspect_config_free(config), NRT_SUCCESS);
  ASSERT_EQ(nrt_sys_trace_get_event_types(&names, &count), NRT_SUCCESS);
  EXPECT_GT(count, 10u);
  for (size_t i = 0; i < count; ++i) free(const_cast<char*>(names[i]));
  free(names);
}

TEST_F(Api, ForkedChildIsUninitialized) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  nrt_tensor_t* t = tensor(4);
  const pid_t child = fork();
  if (child == 0) {
    const NRT_STATUS status = nrt_tensor_memset(t, 0, 1, 4);
    nrt_tensor_free(&t);
    nrt_close();
    _exit(status == NRT_UNINITIALIZED ? 0 : 1);
  }
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(WEXITSTATUS(result), 0);
  EXPECT_EQ(nrt_tensor_memset(t, 0, 1, 4), NRT_SUCCESS);
}

// What the parent has stays the parent's, whether the child closes or initializes first.
TEST_F(Api, AForkedChildTakesCoresOfItsOwn) {
  setenv("NEURON_RT_NUM_CORES", "1", 1);
  ASSERT_EQ(init(), NRT_SUCCESS);
  for (const bool closes : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      if (closes) nrt_close();
      const bool kept = fake::busy_cores() == 1;
      _exit(kept && init() == NRT_SUCCESS && fake::busy_cores() == 2 ? 0 : 1);
    }
    int result = 0;
    ASSERT_EQ(waitpid(child, &result, 0), child);
    EXPECT_TRUE(WIFEXITED(result));
    EXPECT_EQ(WEXITSTATUS(result), 0) << closes;
  }
}

TEST_F(Api, ManyThreadsOnTheirOwnTensors) {
  ASSERT_EQ(init(), NRT_SUCCESS);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 20; ++k) {
        nrt_tensor_t* t = tensor(256, i % 2);
        EXPECT_EQ(nrt_tensor_memset(t, 0, i, 256), NRT_SUCCESS);
        uint8_t back = 0;
        EXPECT_EQ(nrt_tensor_read(t, &back, 255, 1), NRT_SUCCESS);
        EXPECT_EQ(back, i);
        nrt_tensor_free(&t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
