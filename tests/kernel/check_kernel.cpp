// Executes a NEFF of examples/kernels through the runtime, twice, and compares every output element
// with a reference of its own:   check_kernel FILE.neff KIND SIZE...
// Exit status: 0 right, 1 wrong data or a failed call, 2 wrong usage.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using Data = std::vector<float>;
using Tensors = std::map<std::string, Data>;
using Sizes = std::vector<size_t>;

constexpr double kTolerance = 2e-5;  // of float32 sums in another order, and of exp and rsqrt

// The kernel's name for its output, and what it should hold.
struct Reference {
  size_t sizes;
  std::function<Data(const Tensors&, const Sizes&)> output;
};

Data tensor_add(const Tensors& t, const Sizes& s) {
  Data c(s[0]);
  for (size_t i = 0; i < c.size(); ++i) c[i] = t.at("a")[i] + t.at("b")[i];
  return c;
}

Data softmax(const Tensors& t, const Sizes& s) {
  Data y(s[0] * s[1]);
  for (size_t row = 0; row < s[0]; ++row) {
    const float* x = &t.at("x")[row * s[1]];
    const double most = *std::max_element(x, x + s[1]);
    double sum = 0;
    for (size_t i = 0; i < s[1]; ++i) sum += std::exp(x[i] - most);
    for (size_t i = 0; i < s[1]; ++i) {
      y[row * s[1] + i] = static_cast<float>(std::exp(x[i] - most) / sum);
    }
  }
  return y;
}

Data norm(const Tensors& t, const Sizes& s) {
  const auto beta = t.find("beta");
  Data y(s[0] * s[1]);
  const auto n = static_cast<double>(s[1]);
  for (size_t row = 0; row < s[0]; ++row) {
    const float* x = &t.at("x")[row * s[1]];
    double mean = 0;
    if (beta != t.end()) {
      for (size_t i = 0; i < s[1]; ++i) mean += x[i] / n;
    }
    double square = 0;
    for (size_t i = 0; i < s[1]; ++i) square += (x[i] - mean) * (x[i] - mean) / n;
    for (size_t i = 0; i < s[1]; ++i) {
      const double value = (x[i] - mean) / std::sqrt(square + 1e-5) * t.at("gamma")[i];
      y[row * s[1] + i] = static_cast<float>(value + (beta == t.end() ? 0 : beta->second[i]));
    }
  }
  return y;
}

Data matmul(const Tensors& t, const Sizes& s) {
  const auto [rows, inner, columns] = std::tuple(s[0], s[1], s[2]);
  std::vector<double> c(rows * columns);
  for (size_t k = 0; k < inner; ++k) {
    for (size_t m = 0; m < rows; ++m) {
      const double a = t.at("at")[k * rows + m];
      for (size_t n = 0; n < columns; ++n) c[m * columns + n] += a * t.at("b")[k * columns + n];
    }
  }
  return {c.begin(), c.end()};
}

Data transpose(const Tensors& t, const Sizes& s) {
  Data y(s[0] * s[1]);
  for (size_t r = 0; r < s[0]; ++r) {
    for (size_t c = 0; c < s[1]; ++c) y[c * s[0] + r] = t.at("x")[r * s[1] + c];
  }
  return y;
}

Data average_pool(const Tensors& t, const Sizes& s) {
  const auto [height, width, pool, stride] = std::tuple(s[1], s[2], s[3], s[4]);
  Data y;
  for (size_t c = 0; c < s[0]; ++c) {
    for (size_t h = 0; h + pool <= height; h += stride) {
      for (size_t w = 0; w + pool <= width; w += stride) {
        double sum = 0;
        for (size_t i = 0; i < pool * pool; ++i) {
          sum += t.at("x")[(c * height + h + i / pool) * width + w + i % pool];
        }
        y.push_back(static_cast<float>(sum / static_cast<double>(pool * pool)));
      }
    }
  }
  return y;
}

const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all = {{"tensor_add", {1, tensor_add}},
                                                       {"softmax", {2, softmax}},
                                                       {"norm", {2, norm}},
                                                       {"matmul", {3, matmul}},
                                                       {"transpose", {2, transpose}},
                                                       {"average_pool", {5, average_pool}}};
  return all;
}

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

bool equal(const Data& got, const Data& expected) {
  if (got.size() != expected.size()) {
    std::fprintf(stderr, "%zu elements, expected %zu\n", got.size(), expected.size());
    return false;
  }
  double largest = 0;
  for (const float x : expected) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - expected[i]);
    if (difference <= kTolerance * std::max(largest, 1e-3)) continue;
    if (wrong++ == 0) std::fprintf(stderr, "[%zu] is %g, expected %g\n", i, got[i], expected[i]);
  }
  std::printf("%zu elements, %zu wrong\n", got.size(), wrong);
  return wrong == 0;
}

bool run(nrt_model_t* model, const nrt_tensor_info_array_t& info, const Reference& reference,
         const Sizes& sizes) {
  nrt_tensor_set_t* sets[2] = {};
  bool ok = fine(nrt_allocate_tensor_set(&sets[0]), "set") &&
            fine(nrt_allocate_tensor_set(&sets[1]), "set");
  std::vector<nrt_tensor_t*> tensors(info.tensor_count);
  for (size_t i = 0; i < tensors.size() && ok; ++i) {
    const nrt_tensor_info_t& t = info.tensor_array[i];
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
      const Data& data = inputs[t.name] = pattern(t.size / sizeof(float), t.name, round);
      ok = fine(nrt_tensor_write(tensors[i], data.data(), 0, t.size), t.name);
    }
    ok = ok && fine(nrt_execute(model, sets[0], sets[1]), "nrt_execute");
    for (size_t i = 0; i < tensors.size() && ok; ++i) {
      const nrt_tensor_info_t& t = info.tensor_array[i];
      if (t.usage != NRT_TENSOR_USAGE_OUTPUT) continue;
      Data data(t.size / sizeof(float));
      ok = fine(nrt_tensor_read(tensors[i], data.data(), 0, t.size), t.name) &&
           equal(data, reference.output(inputs, sizes));
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
