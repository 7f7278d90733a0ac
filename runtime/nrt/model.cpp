#include "runtime/nrt/model.h"

#include <atomic>
#include <mutex>

#include "driver/ndl/ndl.h"
#include "runtime/exec/executor.h"
#include "runtime/load/collective_set.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"
#include "runtime/nrt/sys_trace.h"

namespace nrt {
namespace {

std::atomic<uint64_t> next_execution{1};

// Statuses after which the core can go on (spec/nrt-api.md 9.5).
bool recoverable(NRT_STATUS status) {
  return status == NRT_EXEC_BAD_INPUT || status == NRT_EXEC_COMPLETED_WITH_NUM_ERR ||
         status == NRT_EXEC_OOB;
}

}  // namespace

base::Result<std::vector<Model::Operand>> Model::operands(const TensorSet& inputs,
                                                          const TensorSet& outputs) {
  std::vector<Operand> list;
  const std::vector<neff::Variable>& variables = program_->subgraph().variables;
  for (uint32_t i = 0; i < variables.size(); ++i) {
    const neff::Variable& variable = variables[i];
    const bool input = variable.type == neff::VariableType::kInput;
    if (!input && variable.type != neff::VariableType::kOutput) continue;
    TensorSet::Entry entry;
    const bool found = (input ? inputs : outputs).find(variable.name, &entry);
    const std::shared_ptr<Tensor> tensor = found ? entry.tensor.lock() : nullptr;
    if (!tensor) {
      return error(NRT_INVALID, std::string(input ? "Input" : "Output") + " tensor " +
                                    variable.name + " is missing from the tensor set");
    }
    Operand operand;
    operand.variable = i;
    operand.input = input;
    operand.view = tensor->view();
    if (operand.view.storage && operand.view.size != variable.size) {
      return error(NRT_INVALID, "Tensor " + variable.name + " has " +
                                    std::to_string(operand.view.size) +
                                    " bytes, the model expects " + std::to_string(variable.size));
    }
    if (base::Status s = locate(&operand); !s.ok()) return s.error();
    list.push_back(operand);
  }
  return list;
}

// Device address of a tensor; ordinary memory gets a staging buffer.
base::Status Model::locate(Operand* operand) {
  const std::string& name = program_->subgraph().variables[operand->variable].name;
  if (!operand->view.storage || !operand->view.storage->usable()) {
    return error(NRT_EXEC_BAD_INPUT, "Tensor " + name + " has no storage");
  }
  const Storage& storage = *operand->view.storage;
  if (storage.placement == Placement::kVirtual) {
    DeviceBuffer& staging = staging_[operand->variable];
    if (staging.size() < operand->view.size) {
      auto buffer = DeviceBuffer::allocate(core_.device_ptr(), operand->view.size,
                                           core_.place(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE));
      if (!buffer) return buffer.error();
      staging = std::move(*buffer);
    }
    operand->staging = &staging;
    operand->address = staging.address();
    return {};
  }
  const bool reachable =
      storage.buffer.device() == core_.device_ptr() &&
      (storage.placement == Placement::kHost || storage.buffer.place().hbm == core_.hbm());
  if (!reachable) {
    return error(NRT_EXEC_BAD_INPUT, "Tensor " + name +
                                         " is not in the memory of its model, expected HBM " +
                                         std::to_string(core_.hbm()) + " of ND " +
                                         std::to_string(core_.device().index()));
  }
  operand->address = storage.buffer.address() + operand->view.offset;
  return {};
}

base::Status Model::ensure_ready(const std::vector<Operand>& operands) {
  std::vector<LoadedProgram::Binding> bindings;
  for (const Operand& operand : operands) bindings.push_back({operand.variable, operand.address});
  if (base::Status s = program_->bind(bindings); !s.ok()) return s;
  if (base::Status s = program_->meet_peers(); !s.ok()) return s;
  return program_->activate();
}

base::Status Model::run_once(const std::vector<Operand>& operands) {
  for (const Operand& operand : operands) {
    if (operand.staging == nullptr || !operand.input) continue;
    const Storage& storage = *operand.view.storage;
    if (base::Status s =
            operand.staging->write(0, {storage.host + operand.view.offset, operand.view.size});
        !s.ok()) {
      return s;
    }
  }
  ExecutionOptions options;
  options.timeout_seconds = timeout_seconds_;
  options.exec_id = next_execution++;
  const auto note = [&](const char* what) {
    log(LogLevel::kDebug, Component::kNmgr, "dlr_infer", "Execution %llu of %s %s",
        static_cast<unsigned long long>(options.exec_id), name_.c_str(), what);
  };
  note("starts");
  const ExecutionOutcome outcome = nrt::execute(*program_, options);
  note("ends");
  sys_trace().add(outcome.events, name_, outcome.status.ok());
  if (!outcome.status.ok()) {
    core_.unusable = outcome.fatal && !recoverable(status_of(outcome.status.error()));
    return outcome.status;
  }
  for (const Operand& operand : operands) {
    if (operand.input) continue;
    Storage& storage = *operand.view.storage;
    if (operand.staging != nullptr) {
      if (base::Status s =
              operand.staging->read(0, {storage.host + operand.view.offset, operand.view.size});
          !s.ok()) {
        return s;
      }
    }
    ++storage.completions;
  }
  return {};
}

// Outputs of one iteration become inputs of the next where the NEFF pairs them.
base::Status Model::feed_back(const std::vector<Operand>& operands) {
  const auto find = [&](const std::string& name, bool input) -> const Operand* {
    for (const Operand& o : operands) {
      if (o.input == input && program_->subgraph().variables[o.variable].name == name) return &o;
    }
    return nullptr;
  };
  for (const neff::TensorInfo& info : program_->neff().tensors) {
    if (info.alias_of.empty()) continue;
    const Operand* from = find(info.is_input ? info.alias_of : info.name, false);
    const Operand* to = find(info.is_input ? info.name : info.alias_of, true);
    if (from == nullptr || to == nullptr) continue;
    const bool same =
        from->view.storage == to->view.storage && from->view.offset == to->view.offset;
    if (same) continue;
    if (base::Status s = copy_tensor(from->view, 0, to->view, 0, from->view.size); !s.ok()) {
      return s;
    }
  }
  return {};
}

base::Status Model::execute(const TensorSet& inputs, const TensorSet& outputs, int repeat) {
  if (repeat <= 0) return error(NRT_INVALID, "The repeat count must be positive");
  const std::lock_guard<std::mutex> lock(core_.mutex());
  if (!program_) return error(NRT_INVALID_HANDLE, "The model was unloaded");
  if (!program_->neff().executable) {
    return error(NRT_INVALID,
                 "The NEFF's instructions are not in an encoding that this runtime executes");
  }
  auto list = operands(inputs, outputs);
  if (!list) return list.error();
  if (core_.unusable) {
    return error(NRT_EXEC_UNIT_UNRECOVERABLE,
                 "The core is in an undefined state after an earlier error");
  }
  if (base::Status s = ensure_ready(*list); !s.ok()) return s;
  for (int i = 0; i < repeat; ++i) {
    if (i > 0) {
      if (base::Status s = feed_back(*list); !s.ok()) return s;
    }
    const base::Status s = run_once(*list);
    core_.device().count_status(core_.nc(), s.ok() ? NRT_SUCCESS : status_of(s.error()));
    if (!s.ok()) {
      log(LogLevel::kError, Component::kNmgr, "dlr_infer",
          "Inference completed with err: %d. mode->h_nn=%u, lnc=%u",
          static_cast<int>(status_of(s.error())), id_, core_.vnc());
      return s;
    }
  }
  return {};
}

void Model::unload() {
  const std::lock_guard<std::mutex> lock(core_.mutex());
  if (program_) --core_.loaded_models;
  staging_.clear();
  program_.reset();
}

}  // namespace nrt
