#include "rank.h"

#include <nrt/nrt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "golden.h"

namespace nccom {
namespace {

// Host buffers move in blocks of this many bytes.
constexpr uint64_t kBlock = 4u << 20;

struct ModelDeleter {
  void operator()(nrt_model_t* model) const { nrt_unload(model); }
};
struct TensorDeleter {
  void operator()(nrt_tensor_t* tensor) const { nrt_tensor_free(&tensor); }
};
struct SetDeleter {
  void operator()(nrt_tensor_set_t* set) const { nrt_destroy_tensor_set(&set); }
};
using Model = std::unique_ptr<nrt_model_t, ModelDeleter>;
using Tensor = std::unique_ptr<nrt_tensor_t, TensorDeleter>;
using TensorSet = std::unique_ptr<nrt_tensor_set_t, SetDeleter>;

class Rank {
 public:
  Rank(const Options& options, uint64_t size, uint32_t rank)
      : o_(options),
        size_(size),
        rank_(rank),
        vnc_(static_cast<int32_t>(rank - options.rank_start)) {}

  RankResult run(const Program& program, uint32_t executions, Agreement* agreement) {
    RankResult result;
    result.status = prepare(program);
    if (!agreement->vote(result.status.ok())) return result;
    for (uint32_t i = 0; i < executions && result.status; ++i) {
      const NRT_STATUS rc = nrt_execute(model_.get(), inputs_.get(), outputs_.get());
      if (rc != NRT_SUCCESS) result.status = status_error("nrt_execute", rc);
    }
    if (result.status && o_.check != Check::kOff) result.status = verify(&result.output);
    return result;
  }

 private:
  base::Status prepare(const Program& program) {
    nrt_model_t* model = nullptr;
    NRT_STATUS rc = nrt_load_collectives(program.neff.data(), program.neff.size(), vnc_, -1, rank_,
                                         o_.ranks, &model);
    if (rc != NRT_SUCCESS) return status_error("nrt_load_collectives", rc);
    model_.reset(model);
    for (TensorSet* set : {&inputs_, &outputs_}) {
      nrt_tensor_set_t* raw = nullptr;
      rc = nrt_allocate_tensor_set(&raw);
      if (rc != NRT_SUCCESS) return status_error("nrt_allocate_tensor_set", rc);
      set->reset(raw);
    }
    if (o_.check == Check::kOff) return {};
    base::Status status = add(kInputName, input_bytes(o_, size_), inputs_.get(), &x_);
    if (status) status = add(kOutputName, output_bytes(o_, size_), outputs_.get(), &y_);
    if (status) status = fill();
    return status;
  }

  base::Status add(const char* name, uint64_t bytes, nrt_tensor_set_t* set, Tensor* out) {
    nrt_tensor_t* tensor = nullptr;
    NRT_STATUS rc = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc_, bytes, name, &tensor);
    if (rc != NRT_SUCCESS) return status_error("nrt_tensor_allocate", rc);
    out->reset(tensor);
    rc = nrt_add_tensor_to_tensor_set(set, name, tensor);
    if (rc != NRT_SUCCESS) return status_error("nrt_add_tensor_to_tensor_set", rc);
    return {};
  }

  base::Status fill() {
    const uint64_t width = contract::dtype_size(o_.dtype.code);
    const uint64_t bytes = input_bytes(o_, size_);
    std::vector<uint8_t> block;
    for (uint64_t at = 0; at < bytes; at += kBlock) {
      block.resize(std::min(kBlock, bytes - at));
      make_input(o_, rank_, at / width, block.size() / width, block.data());
      const NRT_STATUS rc = nrt_tensor_write(x_.get(), block.data(), at, block.size());
      if (rc != NRT_SUCCESS) return status_error("nrt_tensor_write", rc);
    }
    // An output that the operation does not write must not pass by accident.
    const NRT_STATUS rc = nrt_tensor_memset(y_.get(), 0, 0xA5, output_bytes(o_, size_));
    return rc == NRT_SUCCESS ? base::Status() : status_error("nrt_tensor_memset", rc);
  }

  base::Status verify(std::vector<uint8_t>* output) {
    output->resize(output_bytes(o_, size_));
    for (uint64_t at = 0; at < output->size(); at += kBlock) {
      const NRT_STATUS rc = nrt_tensor_read(y_.get(), output->data() + at, at,
                                            std::min<uint64_t>(kBlock, output->size() - at));
      if (rc != NRT_SUCCESS) return status_error("nrt_tensor_read", rc);
    }
    const std::vector<uint32_t> group = group_of(o_, rank_);
    const auto mismatch = compare(o_, group, rank_, size_, output->data());
    if (!mismatch) return {};
    std::string text = "check failed on rank " + std::to_string(rank_) + ": " +
                       std::to_string(mismatch->wrong) + " of " +
                       std::to_string(output->size() / contract::dtype_size(o_.dtype.code)) +
                       " elements differ, the first is element " + std::to_string(mismatch->index) +
                       ": got " + mismatch->got + ", expected " + mismatch->expected;
    if (o_.check == Check::kRandom) text += "; tensors in " + dump(group, *output);
    return base::Error{base::Fault::kProgram, 1, "", text};
  }

  // Writes input, output and golden tensors; returns where.
  std::string dump(const std::vector<uint32_t>& group, const std::vector<uint8_t>& output) const {
    // A directory of its own: other users' files and links in /tmp must not be in the way.
    char directory[] = "/tmp/nccom_check_XXXXXX";
    if (::mkdtemp(directory) == nullptr) return "no file (cannot write to /tmp)";
    const std::string stem = std::string(directory) + "/" + std::string(short_name(o_.operation)) +
                             "_" + std::to_string(size_) + "_" + o_.dtype.name + "_rank" +
                             std::to_string(rank_) + "_";
    std::vector<uint8_t> input(input_bytes(o_, size_));
    make_input(o_, rank_, 0, input.size() / contract::dtype_size(o_.dtype.code), input.data());
    const std::vector<uint8_t> golden = expected_output(o_, group, rank_, size_);
    const std::pair<const char*, const std::vector<uint8_t>*> files[] = {
        {"input.bin", &input}, {"output.bin", &output}, {"golden.bin", &golden}};
    for (const auto& [name, bytes] : files) {
      FILE* file = std::fopen((stem + name).c_str(), "wb");
      if (file == nullptr) return "no file (cannot write to /tmp)";
      const bool complete = std::fwrite(bytes->data(), 1, bytes->size(), file) == bytes->size();
      if (std::fclose(file) != 0 || !complete) return "no complete file (cannot write to /tmp)";
    }
    return stem + "{input,output,golden}.bin";
  }

  const Options& o_;
  uint64_t size_;
  uint32_t rank_;
  int32_t vnc_;
  // Released in reverse order: sets before tensors, the model last.
  Model model_;
  Tensor x_;
  Tensor y_;
  TensorSet inputs_;
  TensorSet outputs_;
};

}  // namespace

base::Error status_error(const char* call, int status) {
  return {base::Fault::kIo, status, call,
          std::string(nrt_get_status_as_str(static_cast<NRT_STATUS>(status))) + " (" +
              std::to_string(status) + ")"};
}

RankResult run_rank(const Options& options, const Program& program, uint64_t size, uint32_t rank,
                    uint32_t executions, Agreement* agreement) {
  return Rank(options, size, rank).run(program, executions, agreement);
}

bool Agreement::vote(bool yes) {
  std::unique_lock<std::mutex> lock(mutex_);
  unanimous_ = unanimous_ && yes;
  if (--missing_ == 0) all_here_.notify_all();
  all_here_.wait(lock, [&] { return missing_ == 0; });
  return unanimous_;
}

base::Status compare_ranks(const Options& o, const std::vector<RankResult>& results) {
  if (o.check == Check::kOff || o.operation == Operation::kReduceScatter) return {};
  for (uint32_t i = 0; i < results.size(); ++i) {
    const uint32_t rank = o.rank_start + i;
    const uint32_t first = std::max(group_of(o, rank).front(), o.rank_start);
    if (results[i].output == results[first - o.rank_start].output) continue;
    return base::Error{base::Fault::kProgram, 1, "",
                       "check failed: ranks " + std::to_string(first) + " and " +
                           std::to_string(rank) + " have different results"};
  }
  return {};
}

}  // namespace nccom
