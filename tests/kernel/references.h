// What the kernels of examples/kernels should compute, in double precision.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kernel_test {

using Data = std::vector<float>;
using Tensors = std::map<std::string, Data>;
using Sizes = std::vector<size_t>;

struct Reference {
  size_t sizes;  // how many
  // Null: whatever comes out, for times.
  std::function<Data(const Tensors&, const Sizes&)> output;
  // Makes of numbers between -1 and 1 what an input should hold.
  std::function<void(const std::string& name, Data*)> prepare = nullptr;
  // Of kernels for several ranks: how many there are, and which inputs are of one rank. Of these
  // `output` gets all, one rank after the other; it is the same on every rank.
  std::function<size_t(const Sizes&)> ranks = nullptr;
  std::function<bool(const std::string& name)> divided = nullptr;
};

// By the names of the kernels.
const std::map<std::string, Reference>& references();

}  // namespace kernel_test
