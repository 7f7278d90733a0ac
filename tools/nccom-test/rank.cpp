#include "rank.h"

#include <nrt/nrt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

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
using Tensor = std::shared_ptr<nrt_tensor_t>;
using TensorSet = std::unique_ptr<nrt_tensor_set_t, SetDeleter>;

base::Status allocate(int32_t vnc, const std::string& name, uint64_t bytes, Tensor* out) {
  nrt_tensor_t* tensor = nullptr;
  const NRT_STATUS rc =
      nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, bytes, name.c_str(), &tensor);
  if (rc != NRT_SUCCESS) return status_error("nrt_tensor_allocate", rc);
  out->reset(tensor, TensorDeleter());
  return {};
}

// Writes input, output and golden tensors; returns where.
std::string dump(const Options& o, uint64_t size, uint32_t rank, const std::vector<uint32_t>& group,
                 const std::vector<uint8_t>& output) {
  // A directory of its own: other users' files and links must not be in the way.
  std::string directory = o.log_dir + "/nccom_check_XXXXXX";
  const std::string none = "no file (cannot write to " + o.log_dir + ")";
  if (::mkdtemp(directory.data()) == nullptr) return none;
  const std::string stem = directory + "/" + std::string(short_name(o.operation)) + "_" +
                           std::to_string(size) + "_" + o.dtype.name + "_rank" +
                           std::to_string(rank) + "_";
  std::vector<uint8_t> input(input_bytes(o, size));
  make_input(o, rank, 0, input.size() / contract::dtype_size(o.dtype.code), input.data());
  const std::vector<uint8_t> golden = expected_output(o, group, rank, size, output.data());
  const std::pair<const char*, const std::vector<uint8_t>*> files[] = {
      {"input.bin", &input}, {"output.bin", &output}, {"golden.bin", &golden}};
  for (const auto& [name, bytes] : files) {
    FILE* file = std::fopen((stem + name).c_str(), "wb");
    if (file == nullptr) return none;
    const bool complete = std::fwrite(bytes->data(), 1, bytes->size(), file) == bytes->size();
    if (std::fclose(file) != 0 || !complete) return none;
  }
  return stem + "{input,output,golden}.bin";
}

class Rank {
 public:
  Rank(const Workload& work, uint32_t rank, SharedCheck* check, SharedOutputs* shared)
      : work_(work),
        shared_(shared),
        rank_(rank),
        check_(check),
        vnc_(static_cast<int32_t>(rank - work.streams.front().rank_start)),
        tensors_(work.streams.size()) {}

  RankResult run(const Program& program, uint32_t executions, Agreement* agreement) {
    RankResult result;
    result.status = prepare(program);
    if (!agreement->vote(result.status.ok())) return result;
    for (uint32_t i = 0; i < executions && result.status; ++i) {
      const NRT_STATUS rc = nrt_execute(model_.get(), inputs_.get(), outputs_.get());
      if (rc != NRT_SUCCESS) result.status = status_error("nrt_execute", rc);
    }
    result.outputs.resize(work_.streams.size());
    for (size_t s = 0; s < work_.streams.size() && result.status; ++s) {
      if (work_.streams[s].check != Check::kOff) result.status = verify(s, &result.outputs[s]);
    }
    return result;
  }

 private:
  struct Tensors {
    Tensor input;
    Tensor output;
    Tensor metadata;
  };

  base::Status prepare(const Program& program) {
    nrt_model_t* model = nullptr;
    NRT_STATUS rc = nrt_load_collectives(program.neff.data(), program.neff.size(), vnc_, -1, rank_,
                                         work_.streams.front().ranks, &model);
    if (rc != NRT_SUCCESS) return status_error("nrt_load_collectives", rc);
    model_.reset(model);
    for (TensorSet* set : {&inputs_, &outputs_}) {
      nrt_tensor_set_t* raw = nullptr;
      rc = nrt_allocate_tensor_set(&raw);
      if (rc != NRT_SUCCESS) return status_error("nrt_allocate_tensor_set", rc);
      set->reset(raw);
    }
    for (size_t s = 0; s < work_.streams.size(); ++s) {
      const Options& o = work_.streams[s];
      if (o.operation == Operation::kBarrier) continue;
      const uint64_t size = work_.sizes[s];
      Tensors& t = tensors_[s];
      if (variable_size(o.operation)) {
        if (base::Status status = add_metadata(s); !status) return status;
      }
      if (o.shared_output) {
        if (base::Status status = add_shared_output(s); !status) return status;
      }
      if (o.check == Check::kOff) continue;
      base::Status status = add(input_name(s), input_bytes(o, size), inputs_.get(), &t.input);
      if (status && !o.shared_output) {
        status = add(output_name(s), output_bytes(o, size), outputs_.get(), &t.output);
      }
      if (status) status = fill(o, size, t);
      if (!status) return status;
    }
    return {};
  }

  // A tensor that is there already is only added.
  base::Status add(const std::string& name, uint64_t bytes, nrt_tensor_set_t* set, Tensor* out) {
    if (*out == nullptr) {
      if (base::Status status = allocate(vnc_, name, bytes, out); !status) return status;
    }
    const NRT_STATUS rc = nrt_add_tensor_to_tensor_set(set, name.c_str(), out->get());
    return rc == NRT_SUCCESS ? base::Status() : status_error("nrt_add_tensor_to_tensor_set", rc);
  }

  base::Status add_shared_output(size_t stream) {
    const std::string name = output_name(stream);
    const uint64_t bytes = output_bytes(work_.streams[stream], work_.sizes[stream]);
    Tensor& output = tensors_[stream].output;
    if (work_.lnc == 1) {  // a logical core of two has the stack to itself
      auto tensor = shared_->get(vnc_, stream, name, bytes);
      if (!tensor) return tensor.error();
      output = std::move(*tensor);
    }
    return add(name, bytes, outputs_.get(), &output);
  }

  base::Status add_metadata(size_t stream) {
    const std::vector<uint32_t> words =
        metadata_words(work_.streams[stream], rank_, work_.sizes[stream]);
    const uint64_t bytes = words.size() * sizeof(uint32_t);
    Tensor& tensor = tensors_[stream].metadata;
    base::Status status = add(metadata_name(stream), bytes, inputs_.get(), &tensor);
    if (!status) return status;
    const NRT_STATUS rc = nrt_tensor_write(tensor.get(), words.data(), 0, bytes);
    return rc == NRT_SUCCESS ? base::Status() : status_error("nrt_tensor_write", rc);
  }

  // Row 2 holds what the senders announce, unless it was known; the rest is as before.
  base::Status verify_metadata(size_t stream) {
    const Options& o = work_.streams[stream];
    const uint64_t size = work_.sizes[stream];
    std::vector<uint32_t> wanted = metadata_words(o, rank_, size);
    const std::vector<uint32_t> group = group_of(o, rank_);
    const auto own =
        static_cast<uint32_t>(std::find(group.begin(), group.end(), rank_) - group.begin());
    for (uint32_t s = 0; s < group.size() && o.operation != Operation::kReduceScatterV; ++s) {
      const std::vector<uint32_t> theirs = metadata_words(o, group[s], size);
      const BlockPlace place = block_place(o, theirs, wanted, s, own, size);
      wanted[2 * group.size() + s] = static_cast<uint32_t>(place.count);
    }
    std::vector<uint32_t> words(wanted.size());
    const NRT_STATUS rc = nrt_tensor_read(tensors_[stream].metadata.get(), words.data(), 0,
                                          words.size() * sizeof(uint32_t));
    if (rc != NRT_SUCCESS) return status_error("nrt_tensor_read", rc);
    const auto differ = std::mismatch(words.begin(), words.end(), wanted.begin());
    if (differ.first == words.end()) return {};
    return base::Error{base::Fault::kProgram, 1, "",
                       "check failed on rank " + std::to_string(rank_) + ": word " +
                           std::to_string(differ.first - words.begin()) + " of the metadata is " +
                           std::to_string(*differ.first) + ", expected " +
                           std::to_string(*differ.second)};
  }

  base::Status fill(const Options& o, uint64_t size, const Tensors& t) {
    const uint64_t width = contract::dtype_size(o.dtype.code);
    const uint64_t bytes = input_bytes(o, size);
    std::vector<uint8_t> block;
    for (uint64_t at = 0; at < bytes; at += kBlock) {
      block.resize(std::min(kBlock, bytes - at));
      make_input(o, rank_, at / width, block.size() / width, block.data());
      const NRT_STATUS rc = nrt_tensor_write(t.input.get(), block.data(), at, block.size());
      if (rc != NRT_SUCCESS) return status_error("nrt_tensor_write", rc);
    }
    // An output that the operation does not write must not pass by accident.
    const NRT_STATUS rc = nrt_tensor_memset(t.output.get(), 0, 0xA5, output_bytes(o, size));
    return rc == NRT_SUCCESS ? base::Status() : status_error("nrt_tensor_memset", rc);
  }

  base::Status verify(size_t stream, std::vector<uint8_t>* output) {
    const Options& o = work_.streams[stream];
    const std::vector<uint32_t> group = group_of(o, rank_);
    if (!receives(o, group, rank_)) return {};
    if (variable_size(o.operation)) {
      if (base::Status status = verify_metadata(stream); !status) return status;
    }
    const uint64_t size = work_.sizes[stream];
    output->resize(output_bytes(o, size));
    for (uint64_t at = 0; at < output->size(); at += kBlock) {
      const NRT_STATUS rc = nrt_tensor_read(tensors_[stream].output.get(), output->data() + at, at,
                                            std::min<uint64_t>(kBlock, output->size() - at));
      if (rc != NRT_SUCCESS) return status_error("nrt_tensor_read", rc);
    }
    const auto mismatch = check_->compare(o, stream, group, rank_, size, *output);
    if (!mismatch) return {};
    std::string text = "check failed on rank " + std::to_string(rank_) + ": " +
                       std::to_string(mismatch->wrong) + " of " +
                       std::to_string(output->size() / contract::dtype_size(o.dtype.code)) +
                       " elements differ, the first is element " + std::to_string(mismatch->index) +
                       ": got " + mismatch->got + ", expected " + mismatch->expected;
    if (o.check == Check::kRandom) {
      text += "; tensors in " + dump(o, size, rank_, group, *output);
    }
    return base::Error{base::Fault::kProgram, 1, "", text};
  }

  const Workload& work_;
  SharedOutputs* shared_;
  uint32_t rank_;
  SharedCheck* check_;
  int32_t vnc_;
  // Released in reverse order: sets before tensors, the model last.
  Model model_;
  std::vector<Tensors> tensors_;
  TensorSet inputs_;
  TensorSet outputs_;
};

}  // namespace

base::Error status_error(const char* call, int status) {
  return {base::Fault::kIo, status, call,
          std::string(nrt_get_status_as_str(static_cast<NRT_STATUS>(status))) + " (" +
              std::to_string(status) + ")"};
}

RankResult run_rank(const Workload& work, const Program& program, uint32_t rank,
                    uint32_t executions, Agreement* agreement, SharedCheck* check,
                    SharedOutputs* shared) {
  return Rank(work, rank, check, shared).run(program, executions, agreement);
}

base::Result<SharedOutputs::Tensor> SharedOutputs::get(int32_t vnc, size_t stream,
                                                       const std::string& name, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Tensor& tensor = tensors_[{vnc / 2, stream}];
  if (tensor != nullptr) return tensor;
  if (base::Status status = allocate(vnc, name, bytes, &tensor); !status) return status.error();
  return tensor;
}

bool Agreement::vote(bool yes) {
  std::unique_lock<std::mutex> lock(mutex_);
  unanimous_ = unanimous_ && yes;
  if (--missing_ == 0) all_here_.notify_all();
  all_here_.wait(lock, [&] { return missing_ == 0; });
  return unanimous_;
}

namespace {

base::Error failed(const std::string& what) {
  return {base::Fault::kProgram, 1, "", "check failed: " + what};
}

base::Status compare_outputs(const Options& o, const std::vector<uint32_t>& group,
                             const std::vector<RankResult>& results, size_t stream) {
  std::optional<uint32_t> first;  // member that runs here
  for (const uint32_t rank : group) {
    if (rank < o.rank_start || rank >= o.rank_start + results.size()) continue;
    if (!first) first = rank;
    if (results[rank - o.rank_start].outputs[stream] ==
        results[*first - o.rank_start].outputs[stream]) {
      continue;
    }
    return failed("ranks " + std::to_string(*first) + " and " + std::to_string(rank) +
                  " have different results");
  }
  return {};
}

// From rank to rank, each part of an implicit permute goes once round the whole group.
base::Status compare_rings(const Workload& work, const std::vector<uint32_t>& group,
                           const std::vector<RankResult>& results, size_t stream) {
  const Options& o = work.streams[stream];
  std::map<uint32_t, std::vector<Source>> sources;
  for (const uint32_t rank : group) {
    if (rank < o.rank_start || rank >= o.rank_start + results.size()) return {};
    const std::vector<uint8_t>& output = results[rank - o.rank_start].outputs[stream];
    sources[rank] = sources_of(o, group, rank, work.sizes[stream], output.data());
  }
  for (size_t part = 0; part < o.parts.size(); ++part) {
    uint32_t at = group.front();
    size_t hops = 0;
    do {
      const Source& source = sources[at][part];
      if (!source.certain) break;  // too few elements to tell
      at = source.rank;
      ++hops;
    } while (at != group.front() && hops <= group.size());
    if (at == group.front() && hops != 0 && hops != group.size()) {
      return failed("channel " + std::to_string(part) + " joins " + std::to_string(hops) + " of " +
                    std::to_string(group.size()) + " ranks in a ring");
    }
  }
  return {};
}

}  // namespace

base::Status compare_ranks(const Workload& work, const std::vector<RankResult>& results) {
  for (size_t s = 0; s < work.streams.size(); ++s) {
    const Options& o = work.streams[s];
    if (o.check == Check::kOff) continue;
    for (const std::vector<uint32_t>& group : o.groups) {
      base::Status status;
      if (equal_everywhere(o.operation)) status = compare_outputs(o, group, results, s);
      if (ring_permute(o.operation)) status = compare_rings(work, group, results, s);
      if (!status) return status;
    }
  }
  return {};
}

}  // namespace nccom
