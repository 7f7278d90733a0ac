// A model that adds two tensors, on the fake device, with tensors bound to it: what tests of
// execution start from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nrt/nrt.h>

#include "neff_loader/pack.h"
#include "tests/runtime/fake_ndl.h"

namespace vector_add {

constexpr size_t kElements = 8192;
constexpr size_t kBytes = kElements * sizeof(float);

inline std::vector<neff::Member> example(const char* name) {
  std::vector<neff::Member> members;
  const std::filesystem::path root = std::filesystem::path(EXAMPLES) / "neff" / name;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    neff::Member member;
    member.name = std::filesystem::relative(entry.path(), root).generic_string();
    member.data.assign(std::istreambuf_iterator<char>(file), {});
    members.push_back(std::move(member));
  }
  return members;
}

inline std::vector<uint8_t> packed(const std::vector<neff::Member>& members,
                                   const std::string& name = "test") {
  neff::PackOptions options;
  options.name = name;
  auto file = neff::pack(members, options);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return *file;
}

class VectorAdd : public testing::Test {
 protected:
  void SetUp() override { start({}); }
  void start(const fake::Options& options) {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    unsetenv("NEURON_RT_EXEC_TIMEOUT");
    fake::reset(options);
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  }
  void TearDown() override { nrt_close(); }

  void load(int core = -1, const char* neff = "vector_add", const std::string& name = "test") {
    const std::vector<uint8_t> file = packed(example(neff), name);
    ASSERT_EQ(nrt_load(file.data(), file.size(), core, -1, &model_), NRT_SUCCESS);
    ASSERT_EQ(nrt_allocate_tensor_set(&inputs_), NRT_SUCCESS);
    ASSERT_EQ(nrt_allocate_tensor_set(&outputs_), NRT_SUCCESS);
    for (const char* name : {"a", "b", "c"}) {
      bind(name, allocate(NRT_TENSOR_PLACEMENT_DEVICE, kBytes, std::max(core, 0)));
    }
  }
  nrt_tensor_t* allocate(nrt_tensor_placement_t placement = NRT_TENSOR_PLACEMENT_DEVICE,
                         size_t size = kBytes, int core = 0) {
    nrt_tensor_t* t = nullptr;
    EXPECT_EQ(nrt_tensor_allocate(placement, core, size, "", &t), NRT_SUCCESS);
    return t;
  }
  void bind(const std::string& name, nrt_tensor_t* tensor) {
    EXPECT_EQ(nrt_add_tensor_to_tensor_set(name == "c" ? outputs_ : inputs_, name.c_str(), tensor),
              NRT_SUCCESS);
  }
  nrt_tensor_t* bound(const std::string& name) {
    nrt_tensor_t* t = nullptr;
    EXPECT_EQ(nrt_get_tensor_from_tensor_set(name == "c" ? outputs_ : inputs_, name.c_str(), &t),
              NRT_SUCCESS);
    return t;
  }
  void fill(const std::string& name, float scale) {
    std::vector<float> data(kElements);
    for (size_t i = 0; i < kElements; ++i) data[i] = scale * static_cast<float>(i % 1000);
    EXPECT_EQ(nrt_tensor_write(bound(name), data.data(), 0, kBytes), NRT_SUCCESS);
  }
  void expect_sum(float scale) {
    std::vector<float> data(kElements);
    EXPECT_EQ(nrt_tensor_read(bound("c"), data.data(), 0, kBytes), NRT_SUCCESS);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(data[i], scale * static_cast<float>(i % 1000)) << i;
    }
  }
  NRT_STATUS execute() { return nrt_execute(model_, inputs_, outputs_); }

  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
};

}  // namespace vector_add
