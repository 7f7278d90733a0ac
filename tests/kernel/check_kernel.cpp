// Executes a NEFF of examples/kernels through the runtime, twice, and compares every output element
// with a reference of its own:   check_kernel FILE.neff KIND SIZE...
// Exit status: 0 right, 1 wrong data or a failed call, 2 wrong usage.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "references.h"

namespace {

using namespace kernel_test;  // NOLINT(google-build-using-namespace): the references

// Of the largest element: sums of float32 in another order, exp and rsqrt; bfloat16 in between.
constexpr double kTolerance = 2e-5;
constexpr double kShortTolerance = 1e-2;

bool fine(NRT_STATUS status, const char* what) {
  if (status != NRT_SUCCESS) {
    std::fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  }
  return status == NRT_SUCCESS;
}

// -1 to 1, different for every tensor and round.
Data pattern(size_t count, const std::string& name, uint32_t round) {
  uint32_t state =
      round * 7919 + static_cast<uint32_t>(name[0]) * 31 + static_cast<uint32_t>(name.size());
  Data out(count);
  for (float& x : out) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return out;
}

size_t width(const nrt_tensor_info_t& t) {
  return t.dtype == NRT_DTYPE_BFLOAT16 ? 2 : 4;
}

// A tensor's bytes: a bfloat16 is the upper half of a float32. `data` becomes what they stand for.
std::vector<uint16_t> stored(const nrt_tensor_info_t& t, Data* data) {
  const size_t halves = width(t) / 2;
  std::vector<uint16_t> bytes(data->size() * halves);
  for (size_t i = 0; i < data->size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &(*data)[i], sizeof bits);
    if (halves == 1) bits &= 0xffff0000;
    std::memcpy(&(*data)[i], &bits, sizeof bits);
    for (size_t h = 0; h < halves; ++h) {
      bytes[i * halves + h] = static_cast<uint16_t>(bits >> (16 * (h + 2 - halves)));
    }
  }
  return bytes;
}

Data fetched(const nrt_tensor_info_t& t, const std::vector<uint16_t>& bytes) {
  const size_t halves = width(t) / 2;
  Data data(bytes.size() / halves);
  for (size_t i = 0; i < data.size(); ++i) {
    uint32_t bits = 0;
    for (size_t h = 0; h < halves; ++h) {
      bits |= static_cast<uint32_t>(bytes[i * halves + h]) << (16 * (h + 2 - halves));
    }
    std::memcpy(&data[i], &bits, sizeof bits);
  }
  return data;
}

// Of every bit (FNV-1a).
uint32_t checksum(const Data& data) {
  uint32_t sum = 2166136261;
  for (const float x : data) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    for (; bits != 0; bits >>= 8) sum = (sum ^ (bits & 0xff)) * 16777619;
    sum = (sum ^ 1) * 16777619;
  }
  return sum;
}

bool equal(const Data& got, const Data& expected, double tolerance) {
  if (got.size() != expected.size()) {
    std::fprintf(stderr, "%zu elements, expected %zu\n", got.size(), expected.size());
    return false;
  }
  double largest = 0;
  for (const float x : expected) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - expected[i]);
    if (difference <= tolerance * std::max(largest, 1e-3)) continue;
    if (wrong++ == 0) std::fprintf(stderr, "[%zu] is %g, expected %g\n", i, got[i], expected[i]);
  }
  std::printf("%zu elements, %zu wrong, checksum %08x\n", got.size(), wrong, checksum(got));
  return wrong == 0;
}

bool run(nrt_model_t* model, const nrt_tensor_info_array_t& info, const Reference& reference,
         const Sizes& sizes) {
  nrt_tensor_set_t* sets[2] = {};
  bool ok = fine(nrt_allocate_tensor_set(&sets[0]), "set") &&
            fine(nrt_allocate_tensor_set(&sets[1]), "set");
  std::vector<nrt_tensor_t*> tensors(info.tensor_count);
  double tolerance = kTolerance;
  for (size_t i = 0; i < tensors.size() && ok; ++i) {
    const nrt_tensor_info_t& t = info.tensor_array[i];
    if (t.dtype == NRT_DTYPE_BFLOAT16) tolerance = kShortTolerance;
    ok = fine(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, t.size, t.name, &tensors[i]),
              t.name) &&
         fine(nrt_add_tensor_to_tensor_set(sets[t.usage == NRT_TENSOR_USAGE_OUTPUT], t.name,
                                           tensors[i]),
              t.name);
  }
  for (uint32_t round = 0; round < 2 && ok; ++round) {
    Tensors inputs;
    for (size_t i = 0; i < tensors.size() && ok; ++i) {
      const nrt_tensor_info_t& t = info.tensor_array[i];
      if (t.usage != NRT_TENSOR_USAGE_INPUT) continue;
      Data& data = inputs[t.name] = pattern(t.size / width(t), t.name, round);
      if (reference.prepare) reference.prepare(t.name, &data);
      ok = fine(nrt_tensor_write(tensors[i], stored(t, &data).data(), 0, t.size), t.name);
    }
    ok = ok && fine(nrt_execute(model, sets[0], sets[1]), "nrt_execute");
    for (size_t i = 0; i < tensors.size() && ok; ++i) {
      const nrt_tensor_info_t& t = info.tensor_array[i];
      if (t.usage != NRT_TENSOR_USAGE_OUTPUT) continue;
      std::vector<uint16_t> data(t.size / sizeof(uint16_t));
      ok = fine(nrt_tensor_read(tensors[i], data.data(), 0, t.size), t.name) &&
           equal(fetched(t, data), reference.output(inputs, sizes), tolerance);
    }
  }
  for (nrt_tensor_t*& t : tensors) nrt_tensor_free(&t);
  for (nrt_tensor_set_t*& set : sets) nrt_destroy_tensor_set(&set);
  return ok;
}

bool load_and_run(const std::vector<char>& file, const Reference& reference, const Sizes& sizes) {
  if (!fine(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init")) return false;
  nrt_model_t* model = nullptr;
  nrt_tensor_info_array_t* info = nullptr;
  bool ok = fine(nrt_load(file.data(), file.size(), -1, -1, &model), "nrt_load") &&
            fine(nrt_get_model_tensor_info(model, &info), "nrt_get_model_tensor_info");
  if (ok) {
    ok = run(model, *info, reference, sizes);
    nrt_free_model_tensor_info(info);
  }
  if (model != nullptr) ok = fine(nrt_unload(model), "nrt_unload") && ok;
  nrt_close();
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc < 3 ? references().end() : references().find(argv[2]);
  if (found == references().end() || static_cast<size_t>(argc) != 3 + found->second.sizes) {
    std::fprintf(stderr, "usage: %s FILE.neff KIND SIZE...\n", argv[0]);
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  Sizes sizes;
  for (int i = 3; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  return load_and_run(file, found->second, sizes) ? 0 : 1;
}
