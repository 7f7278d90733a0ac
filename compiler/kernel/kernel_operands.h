// What the calls of the kernel builder take besides views: steps, activations, transfers, loops,
// groups. Part of the installed header soma/kernel.h: nothing here names the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernel_types.h"
#include "kernel_view.h"

namespace kernel {

// One step of an element-wise instruction: x op operand, or operand op x when reversed.
struct Step {
  Op op = Op::kBypass;
  Scalar operand = 0;
  bool reverse = false;
};

// function(x * scale + bias); the results go to dst and, as `reduce` says, into the accumulators.
struct Activation {
  Function function = Function::kCopy;
  Scalar scale = 1.0;
  Scalar bias = 0.0;
  Reduce reduce = Reduce::kIdle;
  Op reduce_op = Op::kAdd;
  float parameter = 0;  // of kPrelu
};

// function((x first) second), NeuronCore v4: first and second are multiply and then add, subtract
// or kBypass, or one of add, subtract, kBypass and then kBypass.
struct Activation2 {
  Function function = Function::kCopy;
  Step first;
  Step second;
  Reduce reduce = Reduce::kIdle;
  Op reduce_op = Op::kAdd;  // kAdd, kMax, kMin, kAbsMax, kAbsMin
  float parameter = 0;      // of kPrelu
};

// Column i, counted from `start`, is taken where (i first first_bound) and (i second second_bound),
// otherwise it is `fill`. kEqual, kLess, kLessEqual, kGreaterEqual, kGreater.
struct Range {
  Op first = Op::kGreaterEqual;
  Scalar first_bound = 0.0;
  Op second = Op::kLess;
  Scalar second_bound = 0.0;
  float start = 0;
  float fill = -3.4028234663852886e38F;  // the least float32
};

// How a product is made (spec/engine-isa.md 7).
struct Product {
  Accumulate accumulate = Accumulate::kOverwrite;
  // NeuronCore v3 and later, 8-bit floats: both operands are (partitions, 2, columns), two numbers
  // deep in each partition, at the rate of one.
  bool double_row = false;
  // That all elements of a float32 operand are 0 or 1: twice as fast.
  bool stationary_onezero = false;
  bool moving_onezero = false;
};

// offset + lane * multiplier + sum of step * index over the free dimensions of dst, outermost
// first.
struct Affine {
  int32_t offset = 0;
  int32_t multiplier = 0;
  std::vector<int32_t> steps;
};

// How a transfer is made (docs/kernels.md). kStatic: descriptors are written when the file is
// loaded, the engine only starts them. kHardware: by a block behind the Scalar or the Sync engine,
// on v3 and later, bytes as they are. kSoftware: by GpSimd, which also converts, adds and follows
// indices.
enum class Generate : uint8_t { kStatic = 0, kHardware = 1, kSoftware = 2 };

struct Transfer {
  Engine engine = Engine::kAuto;  // who starts or makes it: Sync, or GpSimd for kSoftware
  Generate generate = Generate::kStatic;
  bool accumulate = false;  // dst += src; not kHardware
  // Generated only: what lies outside of its tensor is left out instead of an error of the
  // execution.
  bool skip = false;
  // Generated only: the side in HBM (src, if both are) begins further on, by the number in a
  // register of the engine times the distance of neighbours in dimension `dim`.
  int offset_register = -1;
  size_t dim = 0;
};

// What becomes of the sources of dma_compute: their sum, each times its scale, or the least or
// largest of them, element by element, in float32.
struct Fold {
  Op op = Op::kAdd;            // kAdd, kMin, kMax
  std::vector<double> scales;  // of kAdd, one per source; empty: all 1
};

// How often the body of a loop runs: a number, or what one uint32 of a tensor or tile says when the
// loop begins, at most `most` times.
struct Trips {
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  Trips(T n) : most(static_cast<int64_t>(n)) {}  // NOLINT(google-explicit-constructor)
  Trips(View number, int64_t most) : most(most), counted(true), cell(std::move(number)) {}

  int64_t most;
  bool counted = false;  // by `cell`
  View cell;
};

// What one integer of up to 32 bits, of a tensor or tile, is compared with: as a number with a sign
// if its type has one.
struct Condition {
  View cell;
  Op compare = Op::kNotEqual;  // kEqual, kNotEqual, kLess, kLessEqual, kGreaterEqual, kGreater
  int64_t value = 0;
};

// Who works together on a collective: lists of ranks, each of which does it on its own. All groups
// of a kernel have the ranks 0 to n - 1, each in one list; its place there is its index.
struct Group {
  std::vector<std::vector<uint32_t>> lists;

  // All of `ranks` ranks in one list.
  static Group all(uint32_t ranks) {
    Group group;
    group.lists.resize(1);
    for (uint32_t r = 0; r < ranks; ++r) group.lists[0].push_back(r);
    return group;
  }
};

// Collectives of a stream are carried out one after the other, and so triggered by one engine;
// different streams (0 to 3, as many as the core has CC-cores) are independent.
struct Stream {
  unsigned number = 0;
  Engine trigger = Engine::kAuto;  // GpSimd
};

}  // namespace kernel
