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

Model::Model(uint32_t id, std::string name, uint64_t timeout_seconds, Core& core,
             std::unique_ptr<LoadedProgram> program)
    : id_(id),
      name_(std::move(name)),
      timeout_seconds_(timeout_seconds),
      core_(core),
      program_(std::move(program)),
      tensors_(program_->neff().tensors),
      executable_(program_->neff().executable) {
  const std::vector<neff::Variable>& variables = program_->subgraph().variables;
  for (uint32_t i = 0; i < variables.size(); ++i) {
    const neff::Variable& variable = variables[i];
    const bool input = variable.type == neff::VariableType::kInput;
    if (!input && variable.type != neff::VariableType::kOutput) continue;
    io_.push_back({i, input, variable.name, variable.size});
  }
}

base::Error Model::unloaded() const {
  return error(NRT_INVALID_HANDLE, "The model was unloaded");
}

base::Result<Model::Operands> Model::take(const TensorSet& inputs, const TensorSet& outputs) const {
  if (!loaded_) return unloaded();
  if (!executable_) {
    return error(NRT_INVALID,
                 "The NEFF's instructions are not in an encoding that this runtime executes");
  }
  Operands list;
  list.reserve(io_.size());
  for (const Io& io : io_) {
    TensorSet::Entry entry;
    const bool found = (io.input ? inputs : outputs).find(io.name, &entry);
    const std::shared_ptr<Tensor> tensor = found ? entry.tensor.lock() : nullptr;
    if (!tensor) {
      return error(NRT_INVALID, std::string(io.input ? "Input" : "Output") + " tensor " + io.name +
                                    " is missing from the tensor set");
    }
    Operand operand;
    operand.variable = io.variable;
    operand.input = io.input;
    operand.view = tensor->view();
    if (operand.view.storage && operand.view.size != io.size) {
      return error(NRT_INVALID, "Tensor " + io.name + " has " + std::to_string(operand.view.size) +
                                    " bytes, the model expects " + std::to_string(io.size));
    }
    if (base::Status s = locate(io, &operand); !s.ok()) return s.error();
    list.push_back(std::move(operand));
  }
  if (core_.unusable) {
    return error(NRT_EXEC_UNIT_UNRECOVERABLE,
                 "The core is in an undefined state after an earlier error");
  }
  return list;
}

// Device address of a tensor; ordinary memory has none.
base::Status Model::locate(const Io& io, Operand* operand) const {
  if (!operand->view.storage || !operand->view.storage->usable()) {
    return error(NRT_EXEC_BAD_INPUT, "Tensor " + io.name + " has no storage");
  }
  const Storage& storage = *operand->view.storage;
  if (storage.placement == Placement::kVirtual) return {};
  const bool reachable =
      storage.buffer.device() == core_.device_ptr() &&
      (storage.placement == Placement::kHost || storage.buffer.place().hbm == core_.hbm());
  if (!reachable) {
    return error(NRT_EXEC_BAD_INPUT, "Tensor " + io.name +
                                         " is not in the memory of its model, expected HBM " +
                                         std::to_string(core_.hbm()) + " of ND " +
                                         std::to_string(core_.device().index()));
  }
  operand->address = storage.buffer.address() + operand->view.offset;
  return {};
}

// Gives ordinary memory a buffer on the device.
base::Status Model::stage(Operands* operands) {
  for (Operand& operand : *operands) {
    if (operand.view.storage->placement != Placement::kVirtual) continue;
    DeviceBuffer& staging = staging_[operand.variable];
    if (staging.size() < operand.view.size) {
      auto buffer = DeviceBuffer::allocate(core_.device_ptr(), operand.view.size,
                                           core_.place(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE));
      if (!buffer) return buffer.error();
      staging = std::move(*buffer);
    }
    operand.staging = &staging;
    operand.address = staging.address();
  }
  return {};
}

base::Status Model::ensure_ready(const Operands& operands) {
  std::vector<LoadedProgram::Binding> bindings;
  for (const Operand& operand : operands) bindings.push_back({operand.variable, operand.address});
  if (base::Status s = program_->bind(bindings); !s.ok()) return s;
  if (base::Status s = program_->meet_peers(); !s.ok()) return s;
  return program_->activate();
}

base::Status Model::run_once(const Operands& operands, uint64_t sequence) {
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
  ExecutionOutcome outcome = nrt::execute(*program_, options);
  outcome.events.seq_id = sequence;
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
base::Status Model::feed_back(const Operands& operands) {
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

base::Status Model::execute(Operands operands, int repeat, uint64_t sequence) {
  if (repeat <= 0) return error(NRT_INVALID, "The repeat count must be positive");
  const std::lock_guard<std::mutex> lock(core_.mutex());
  if (!program_) return unloaded();
  if (core_.unusable) {
    return error(NRT_EXEC_UNIT_UNRECOVERABLE,
                 "The core is in an undefined state after an earlier error");
  }
  if (base::Status s = stage(&operands); !s.ok()) return s;
  if (base::Status s = ensure_ready(operands); !s.ok()) return s;
  for (int i = 0; i < repeat; ++i) {
    if (i > 0) {
      if (base::Status s = feed_back(operands); !s.ok()) return s;
    }
    const base::Status s = run_once(operands, sequence);
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
  loaded_ = false;
  if (program_) --core_.loaded_models;
  staging_.clear();
  program_.reset();
}

}  // namespace nrt
