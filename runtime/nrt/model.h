// A loaded model as the API sees it: the placed program and what executions of it need.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/load/loaded_program.h"
#include "runtime/nrt/tensor.h"

namespace nrt {

class Model {
 public:
  Model(uint32_t id, std::string name, uint64_t timeout_seconds, Core& core,
        std::unique_ptr<LoadedProgram> program);

  uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  Core& core() const { return core_; }
  const std::vector<neff::TensorInfo>& tensors() const { return tensors_; }

  // A tensor of the model in one execution; its storage lives until the execution has ended.
  struct Operand {
    uint32_t variable = 0;
    bool input = true;
    TensorView view;
    uint64_t address = 0;             // 0: process memory, needs staging
    DeviceBuffer* staging = nullptr;  // of the model
  };
  using Operands = std::vector<Operand>;

  // Finds and checks the tensors of an execution, in the order of spec/nrt-api.md 9.1. Does not
  // wait for the core; the sets may change afterwards.
  base::Result<Operands> take(const TensorSet& inputs, const TensorSet& outputs) const;

  // Runs it `repeat` times. Errors carry the status. `sequence`: of an asynchronous request, for
  // the trace.
  base::Status execute(Operands operands, int repeat, uint64_t sequence = 0);

  // Waits for a running execution; later ones get NRT_INVALID_HANDLE. Frees the program.
  void unload();

 private:
  struct Io {
    uint32_t variable = 0;
    bool input = true;
    std::string name;
    uint64_t size = 0;
  };
  base::Status locate(const Io& io, Operand* operand) const;
  base::Status stage(Operands* operands);
  base::Status run_once(const Operands& operands, uint64_t sequence);
  base::Status feed_back(const Operands& operands);
  base::Status ensure_ready(const Operands& operands);
  base::Error unloaded() const;

  uint32_t id_;
  std::string name_;
  uint64_t timeout_seconds_;
  Core& core_;
  std::unique_ptr<LoadedProgram> program_;  // null after unload(); guarded by the core's mutex
  std::atomic<bool> loaded_{true};
  const std::vector<neff::TensorInfo> tensors_;
  const bool executable_;
  std::vector<Io> io_;
  std::map<uint32_t, DeviceBuffer> staging_;  // by variable, for tensors in process memory
};

}  // namespace nrt

struct nrt_model {
  std::shared_ptr<nrt::Model> object;
};
