// Kernels whose times on hardware are published (data/calibration/kernels.csv), written as their
// sources describe them: not the fastest way to do it here, but the one that was measured.
#pragma once

#include <soma/kernel.h>

#include <cstdint>
#include <string>
#include <vector>

namespace calibration {

using Sizes = std::vector<int64_t>;

constexpr int64_t kPartitions = 128;
constexpr int64_t kBank = 512;  // float32 of a bank of PSUM
constexpr auto kFloat = kernel::DType::kFloat32;

struct Case {
  const char* name;
  const char* sizes;  // what they mean, by name
  void (*build)(kernel::Kernel& k, const Sizes& sizes);
  unsigned dma_engines = 16;
};

std::vector<Case> instruction_cases();
std::vector<Case> transfer_cases();
std::vector<Case> product_cases();
std::vector<Case> scan_cases();
std::vector<Case> vector_cases();

// 0: float32, 1: bfloat16, 2: float16.
kernel::DType dtype_of(int64_t number);

}  // namespace calibration
