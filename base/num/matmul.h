// The Tensor engine's array. Source of truth: spec/engine-isa.md 5.5.
#pragma once

#include <cstddef>

namespace base::num {

// c[i][j] = sum over l of a[l][i] * b[l][j], l ascending, by fused multiply-adds in float32:
// a is k x m, b is k x n, c is m x n, rows back to back. The same bits on every processor.
// Processors without the fused instruction take some fifty times as long.
void multiply(const float* a, const float* b, float* c, size_t k, size_t m, size_t n);

}  // namespace base::num
