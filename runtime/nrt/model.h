// A loaded model as the API sees it: the placed program and what executions of it need.
#pragma once

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
        std::unique_ptr<LoadedProgram> program)
      : id_(id),
        name_(std::move(name)),
        timeout_seconds_(timeout_seconds),
        core_(core),
        program_(std::move(program)),
        tensors_(program_->neff().tensors) {}

  uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  Core& core() const { return core_; }
  const std::vector<neff::TensorInfo>& tensors() const { return tensors_; }

  // Runs it `repeat` times. Errors carry the status.
  base::Status execute(const TensorSet& inputs, const TensorSet& outputs, int repeat);

  // Waits for a running execution; later ones get NRT_INVALID_HANDLE. Frees the program.
  void unload();

 private:
  // A tensor of the model in this execution.
  struct Operand {
    uint32_t variable = 0;
    bool input = true;
    TensorView view;
    uint64_t address = 0;
    DeviceBuffer* staging = nullptr;
  };
  base::Result<std::vector<Operand>> operands(const TensorSet& inputs, const TensorSet& outputs);
  base::Status locate(Operand* operand);
  base::Status run_once(const std::vector<Operand>& operands);
  base::Status feed_back(const std::vector<Operand>& operands);
  base::Status ensure_ready(const std::vector<Operand>& operands);

  uint32_t id_;
  std::string name_;
  uint64_t timeout_seconds_;
  Core& core_;
  std::unique_ptr<LoadedProgram> program_;  // null after unload(); guarded by the core's mutex
  std::vector<neff::TensorInfo> tensors_;
  std::map<uint32_t, DeviceBuffer> staging_;  // by variable, for tensors in process memory
};

}  // namespace nrt

struct nrt_model {
  std::shared_ptr<nrt::Model> object;
};
