// Executes a NEFF of examples/kernels through the runtime, twice, and compares every output element
// with a reference of its own:   check_kernel FILE.neff KIND SIZE...
// KIND `time` executes it once and compares nothing; its size are the ranks, which are threads.
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
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
  uint32_t state = round * 7919;
  for (const char c : name) state = (state ^ static_cast<uint8_t>(c)) * 16777619;
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

// What is executed, by however many ranks.
struct Job {
  std::vector<char> file;
  const Reference& reference;
  Sizes sizes;
  size_t ranks;
};

// A rank with its model and tensors.
class Rank {
 public:
  Rank(const Job& job, size_t rank) : job_(job), rank_(static_cast<int>(rank)) {}

  ~Rank() {
    for (nrt_tensor_t*& t : tensors_) nrt_tensor_free(&t);
    for (nrt_tensor_set_t*& set : sets_) nrt_destroy_tensor_set(&set);
    if (info_ != nullptr) nrt_free_model_tensor_info(info_);
    unload();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool load() {
    const auto ranks = static_cast<uint32_t>(job_.ranks);
    const std::vector<char>& file = job_.file;
    const bool loaded =
        ranks == 1 ? fine(nrt_load(file.data(), file.size(), -1, -1, &model_), "nrt_load")
                   : fine(nrt_load_collectives(file.data(), file.size(), rank_, -1,
                                               static_cast<uint32_t>(rank_), ranks, &model_),
                          "nrt_load_collectives");
    if (!loaded || !fine(nrt_get_model_tensor_info(model_, &info_), "nrt_get_model_tensor_info") ||
        !fine(nrt_allocate_tensor_set(&sets_[0]), "set") ||
        !fine(nrt_allocate_tensor_set(&sets_[1]), "set")) {
      return false;
    }
    tensors_.resize(info_->tensor_count);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const nrt_tensor_info_t& t = info_->tensor_array[i];
      if (!fine(
              nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, rank_, t.size, t.name, &tensors_[i]),
              t.name) ||
          !fine(nrt_add_tensor_to_tensor_set(sets_[t.usage == NRT_TENSOR_USAGE_OUTPUT], t.name,
                                             tensors_[i]),
                t.name)) {
        return false;
      }
    }
    return true;
  }

  // Fills the inputs; what they hold goes into `all`, behind that of earlier ranks if they differ.
  bool write(uint32_t round, Tensors* all) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const nrt_tensor_info_t& t = info_->tensor_array[i];
      if (t.usage != NRT_TENSOR_USAGE_INPUT) continue;
      const bool own = job_.reference.divided && job_.reference.divided(t.name);
      const std::string number = own ? std::to_string(rank_) : "";
      Data data = pattern(t.size / width(t), t.name + number, round);
      if (job_.reference.prepare) job_.reference.prepare(t.name, &data);
      if (!fine(nrt_tensor_write(tensors_[i], stored(t, &data).data(), 0, t.size), t.name)) {
        return false;
      }
      Data& known = (*all)[t.name];
      if (own || known.empty()) known.insert(known.end(), data.begin(), data.end());
    }
    return true;
  }

  bool unload() {
    nrt_model_t* model = std::exchange(model_, nullptr);
    return model == nullptr || fine(nrt_unload(model), "nrt_unload");
  }

  bool execute() { return fine(nrt_execute(model_, sets_[0], sets_[1]), "nrt_execute"); }

  bool right(const Data& expected) {
    bool ok = true;
    for (size_t i = 0; i < tensors_.size() && ok; ++i) {
      const nrt_tensor_info_t& t = info_->tensor_array[i];
      if (t.usage != NRT_TENSOR_USAGE_OUTPUT) continue;
      std::vector<uint16_t> data(t.size / sizeof(uint16_t));
      ok = fine(nrt_tensor_read(tensors_[i], data.data(), 0, t.size), t.name) &&
           equal(fetched(t, data), expected, tolerance());
    }
    return ok;
  }

 private:
  double tolerance() const {
    const bool is_short =
        std::any_of(info_->tensor_array, info_->tensor_array + info_->tensor_count,
                    [](const nrt_tensor_info_t& t) { return t.dtype == NRT_DTYPE_BFLOAT16; });
    return is_short ? kShortTolerance : kTolerance;
  }

  const Job& job_;
  int rank_;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_info_array_t* info_ = nullptr;
  nrt_tensor_set_t* sets_[2] = {};
  std::vector<nrt_tensor_t*> tensors_;
};

// The same by all ranks at a time, as they wait for each other.
bool by_all(std::vector<std::unique_ptr<Rank>>* ranks, bool (Rank::*step)()) {
  std::vector<char> ok(ranks->size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks->size(); ++r) {
    threads.emplace_back([&, r] { ok[r] = ((*ranks)[r].get()->*step)(); });
  }
  for (std::thread& t : threads) t.join();
  return std::count(ok.begin(), ok.end(), 0) == 0;
}

bool run(const Job& job) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (size_t r = 0; r < job.ranks; ++r) ranks.push_back(std::make_unique<Rank>(job, r));
  bool ok = by_all(&ranks, &Rank::load);
  const uint32_t rounds = job.reference.output ? 2 : 1;  // the second on what the first has left
  for (uint32_t round = 0; round < rounds && ok; ++round) {
    Tensors inputs;
    for (size_t r = 0; r < ranks.size() && ok && job.reference.output; ++r) {
      ok = ranks[r]->write(round, &inputs);
    }
    ok = ok && by_all(&ranks, &Rank::execute);
    if (!ok || !job.reference.output) continue;
    const Data expected = job.reference.output(inputs, job.sizes);
    for (const std::unique_ptr<Rank>& rank : ranks) ok = rank->right(expected) && ok;
  }
  for (const std::unique_ptr<Rank>& rank : ranks) ok = rank->unload() && ok;
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc < 3 ? references().end() : references().find(argv[2]);
  if (found == references().end() || static_cast<size_t>(argc) != 3 + found->second.sizes) {
    std::fprintf(stderr, "usage: %s FILE.neff KIND SIZE...\n", argv[0]);
    return 2;
  }
  const Reference& reference = found->second;
  std::ifstream in(argv[1], std::ios::binary);
  Job job{{std::istreambuf_iterator<char>(in), {}}, reference, {}, 1};
  for (int i = 3; i < argc; ++i) job.sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (reference.ranks) job.ranks = reference.ranks(job.sizes);
  if (!fine(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init")) return 1;
  const bool ok = run(job);
  nrt_close();
  return ok ? 0 : 1;
}
