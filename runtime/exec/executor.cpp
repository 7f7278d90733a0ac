#include "runtime/exec/executor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <vector>

#include "arch/contract/engine.h"
#include "arch/contract/notification.h"
#include "contract/regs/cc.h"
#include "contract/regs/engine.h"
#include "driver/ndl/ndl.h"
#include "neff_loader/asm.h"
#include "runtime/exec/poll_group.h"
#include "runtime/load/collective_set.h"
#include "runtime/nrt/log.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kNsPerSecond = 1'000'000'000;
// What a peer did before it vanished may still have to arrive.
constexpr uint64_t kSecondsAlone = 2;
// Of a program without a time limit when the runtime is closed (spec/nrt-api.md 4.3: drained or
// aborted).
constexpr uint64_t kSecondsAtClose = 5;
constexpr uint32_t kAborted = 3;  // spec/driver-ioctl.md 3.5.1

constexpr const char* kEngineNames[contract::kEnginesPerNc] = {"pe", "act", "pool", "dve", "sp"};

// Times and progress of one stream's operations.
struct StreamProgress {
  std::vector<DeviceSpan> spans;
  size_t ended = 0;
  size_t expected = 0;  // meaningful if counted
  bool counted = true;
};

class Execution {
 public:
  Execution(LoadedProgram& program, const ExecutionOptions& options)
      : program_(program), core_(program.core()), options_(options) {}

  ExecutionOutcome run() {
    prepare();
    ExecutionOutcome outcome;
    outcome.status = core_.device().write_registers(program_.start_sequence());
    if (outcome.status.ok()) outcome.status = wait();
    if (outcome.status.ok()) outcome.status = bounds_;
    outcome.fatal = !outcome.status.ok();
    finish_events(&outcome.events);
    return outcome;
  }

 private:
  // Entries of earlier executions (of a program that nobody waited for) are of no use now.
  void prepare() {
    contract::NqEntry entry;
    for (uint32_t part = 0; part < core_.lnc(); ++part) {
      for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
        while (core_.engine_queue(part, e).reader().next(&entry)) {
        }
      }
    }
    for (CcCore& cc : core_.cc_cores()) {
      while (cc.queue.reader().next(&entry)) {
      }
    }
    while (core_.barrier_cc().queue.reader().next(&entry)) {
    }
    ended_.assign(program_.engines().size(), false);
    if (const CollectiveSet* set = program_.collectives()) {
      program_.context().communicator->begin_execution();
      streams_.resize(set->stream_count());
      for (uint32_t s = 0; s < streams_.size(); ++s) {
        streams_[s].counted = set->counted(s);
        streams_[s].expected = set->issued(s);
      }
    }
  }

  base::Status wait() {
    const Clock::time_point begin = Clock::now();
    if (options_.timeout_seconds != 0) limit(begin, options_.timeout_seconds);
    // Checks get rarer: they are requests, and a long program is no reason to suspect anything.
    std::chrono::seconds until_check(1);
    for (;;) {
      bool progress = false;
      if (base::Status s = poll(&progress); !s.ok()) return s;
      if (complete()) return {};
      if (progress) continue;
      const Clock::time_point now = Clock::now();
      shorten(now);
      if (now >= end_) return timed_out();
      if (now >= begin + until_check) {
        if (base::Status s = check_dma(); !s.ok()) return s;
        until_check *= 2;
      }
      PollGroup::instance().wait([this] { return has_news() || hopeless(); },
                                 std::min(begin + until_check, end_));
    }
  }

  // Not later than so many seconds after `from`.
  void limit(Clock::time_point from, uint64_t seconds) {
    const Clock::time_point end = from + std::chrono::seconds(seconds);
    if (end >= end_) return;
    end_ = end;
    seconds_ = seconds;
  }

  // Reasons to expect no end that have come up since the last call of shorten().
  bool hopeless() const { return lost_peers() || lost_patience(); }
  bool lost_peers() const {
    const std::shared_ptr<Communicator>& communicator = program_.context().communicator;
    if (alone_ || !communicator) return false;
    // Who leaves in good order has done its part of what has begun; the barrier needs all ranks.
    if (waits_for_barrier()) return communicator->failed() || communicator->deserted();
    return communicator->failed() && !collectives_complete();
  }
  bool lost_patience() const { return !closing_ && core_.closing && options_.timeout_seconds == 0; }
  void shorten(Clock::time_point now) {
    if (lost_peers()) {
      alone_ = true;
      limit(now, kSecondsAlone);
    }
    if (lost_patience()) {
      closing_ = true;
      limit(now, kSecondsAtClose);
    }
  }

  bool has_news() const {
    for (const EngineImage* image : program_.engines()) {
      const auto engine = static_cast<uint32_t>(image->engine);
      if (core_.engine_queue(image->part, engine).reader().has_next()) return true;
    }
    for (size_t i = 0; i < core_.cc_cores().size() && program_.collectives(); ++i) {
      if (core_.cc_cores()[i].queue.reader().has_next()) return true;
    }
    return core_.own_barrier_cc() && core_.barrier_cc().queue.reader().has_next();
  }

  base::Status poll(bool* progress) {
    contract::NqEntry entry;
    for (size_t i = 0; i < program_.engines().size(); ++i) {
      const EngineImage& image = *program_.engines()[i];
      NotificationQueue& queue =
          core_.engine_queue(image.part, static_cast<uint32_t>(image.engine));
      while (queue.reader().next(&entry)) {
        *progress = true;
        if (entry.type() == contract::NqType::kError) return engine_failure(program_, image, entry);
        note_engine(i, entry);
      }
    }
    for (uint32_t i = 0; i < core_.cc_cores().size() && program_.collectives(); ++i) {
      while (core_.cc_cores()[i].queue.reader().next(&entry)) {
        *progress = true;
        if (entry.type() == contract::NqType::kError) return cc_failure(entry);
        if (note_bounds(entry)) continue;
        const uint32_t stream = program_.collectives()->stream_of(i);
        if (entry.type() == contract::NqType::kNotify && stream < streams_.size()) {
          note_cc(stream, entry);
        }
      }
    }
    while (core_.own_barrier_cc() && core_.barrier_cc().queue.reader().next(&entry)) {
      *progress = true;
      if (entry.type() == contract::NqType::kError) return cc_failure(entry);
    }
    return {};
  }

  void note_engine(size_t index, const contract::NqEntry& entry) {
    if (entry.type() != contract::NqType::kNotify) return;
    const Translated& program = program_.engines()[index]->program;
    if (entry.payload == kNotifyStart && entry.pc == program.start_pc) {
      if (!started_ || entry.timestamp < run_.start_ps) run_.start_ps = entry.timestamp;
      started_ = true;
    } else if (entry.payload == kNotifyEnd &&
               std::find(program.end_pcs.begin(), program.end_pcs.end(), entry.pc) !=
                   program.end_pcs.end()) {
      run_.stop_ps = std::max(run_.stop_ps, entry.timestamp);
      ended_[index] = true;
    }
  }

  // A block of a variable-size operation that its metadata puts outside the buffers: the operation
  // goes on without it, so that its peers do not wait for ever, and the execution ends in error.
  bool note_bounds(const contract::NqEntry& entry) {
    const uint32_t code = entry.payload & ~contract::cc_notify::kOpMask;
    if (entry.type() != contract::NqType::kNotify || code != contract::cc_notify::kOutOfBounds) {
      return false;
    }
    if (bounds_.ok()) {
      bounds_ = error(NRT_EXEC_OOB,
                      "CC-core " + std::to_string(entry.source()) +
                          " reported counts or displacements of operation " +
                          std::to_string(entry.payload & contract::cc_notify::kOpMask) +
                          " that leave its tensors",
                      base::Fault::kProgram);
    }
    return true;
  }

  // The first CC-core of a stream reports its operations.
  void note_cc(uint32_t stream, const contract::NqEntry& entry) {
    StreamProgress& progress = streams_[stream];
    const uint32_t op_index = entry.payload & contract::cc_notify::kOpMask;
    if ((entry.payload & ~contract::cc_notify::kOpMask) == contract::cc_notify::kOpStart) {
      const CollectiveSet::Issued issued = program_.collectives()->operation(op_index, stream);
      DeviceSpan span;
      span.event_type = "cc_running";
      span.start_ps = entry.timestamp;
      span.op_index = static_cast<int32_t>(progress.spans.size());
      span.stream = stream;
      span.operation = issued.operation;
      span.algorithm = issued.algorithm;
      span.bytes = issued.bytes;
      progress.spans.push_back(span);
    } else if (progress.ended < progress.spans.size()) {
      progress.spans[progress.ended++].stop_ps = entry.timestamp;
    }
  }

  bool complete() const {
    const bool engines = std::all_of(ended_.begin(), ended_.end(), [](bool done) { return done; });
    return engines && collectives_complete();
  }
  bool collectives_complete() const {
    return std::all_of(streams_.begin(), streams_.end(), [](const StreamProgress& s) {
      return s.counted ? s.ended >= s.expected : s.ended == s.spans.size();
    });
  }

  base::Status check_dma() {
    for (uint32_t e = 0; e < core_.dma_engines(); ++e) {
      neuron_dma_eng_state state{};
      errno = 0;
      if (ndl_dma_eng_get_state(core_.device().index(), core_.dma_engine(e), &state) != 0) {
        return driver_error("DMA engine state", errno);
      }
      if (state.tx_state != kAborted && state.rx_state != kAborted) continue;
      const char* half = state.tx_state == kAborted ? "TX" : "RX";
      return error(NRT_EXEC_HW_ERR_DMA_ABORT,
                   "[MLA " + std::to_string(core_.device().index()) + "][NC " +
                       std::to_string(core_.nc() + e / contract::kDmaPerNc) + "] DMA " + half +
                       " engine " + std::to_string(e % contract::kDmaPerNc) +
                       " is in an abort state",
                   base::Fault::kProgram);
    }
    return {};
  }

  base::Status timed_out() {
    log_waiting();
    if (base::Status s = check_dma(); !s.ok()) return s;
    if (overflowed()) {
      return error(NRT_EXEC_SW_NQ_OVERFLOW, "Notifications were lost, a queue overflowed",
                   base::Fault::kProgram);
    }
    const std::string place = "Neuron Device " + std::to_string(core_.device().index()) + " NC " +
                              std::to_string(core_.nc());
    if (!collectives_complete() || waits_for_barrier()) {
      size_t done = 0;
      size_t all = 0;
      for (const StreamProgress& s : streams_) {
        done += s.ended;
        all += s.expected;
      }
      return error(NRT_EXEC_HW_ERR_COLLECTIVES,
                   "(FATAL-RT-UNDEFINED-STATE) missing collectives status on " + place +
                       ", model " + std::to_string(program_.context().model_id) +
                       " - suspected hang in collectives operation " + std::to_string(done) +
                       " out of " + std::to_string(all) + culprits(),
                   base::Fault::kProgram);
    }
    return error(NRT_TIMEOUT,
                 "(FATAL-RT-UNDEFINED-STATE) execution timeout (" +
                     std::to_string(seconds_ * 1000) + " ms) on " + place + ", model " +
                     program_.context().name + ", waiting for execution completion notification",
                 base::Fault::kProgram);
  }

  // Who keeps this rank waiting, as far as is known.
  std::string culprits() const {
    Communicator& communicator = *program_.context().communicator;
    const base::Status health = communicator.health();
    if (!health) return "; " + health.error().what;
    const std::string missing = waits_for_barrier() ? communicator.missing() : "";
    return missing.empty() ? "" : "; " + missing;
  }

  bool waits_for_barrier() const { return program_.collectives() != nullptr && !started_; }

  // One line per engine and CC-core that has not reported, with its state.
  void log_waiting() {
    for (size_t i = 0; i < ended_.size(); ++i) {
      if (ended_[i]) continue;
      const EngineImage& image = *program_.engines()[i];
      const auto engine = static_cast<uint32_t>(image.engine);
      auto values = core_.device().read_registers(
          {core_.engine_register(image.part, engine, contract::engine::kStatus),
           core_.engine_register(image.part, engine, contract::engine::kPc)});
      const uint32_t state = values ? (*values)[0] : ~0u;
      const uint32_t pc = values ? (*values)[1] : ~0u;
      const int64_t source = image.program.source_pc(pc);
      const std::string line = program_.source_line(image, source);
      log(LogLevel::kError, Component::kTdrv, "exec_consume_tpb_status_notifications",
          "Missing infer_status notification: (end:%s) NC %u, status %u at record %u (%lld of the "
          "file%s%s)",
          kEngineNames[engine], core_.nc() + image.part, state, pc, static_cast<long long>(source),
          line.empty() ? "" : ", ", line.c_str());
    }
    if (program_.collectives() == nullptr) return;
    for (const CcCore& cc : core_.cc_cores()) log_cc(cc);
    if (core_.own_barrier_cc()) log_cc(core_.barrier_cc());
  }

  void log_cc(const CcCore& cc) {
    auto values = core_.device().read_registers({cc.window.bar0 + contract::cc::kStatus,
                                                 cc.window.bar0 + contract::cc::kPc,
                                                 cc.window.bar0 + contract::cc::kCurrentOp});
    if (!values) return;
    log(LogLevel::kError, Component::kTdrv, "exec_consume_tpb_status_notifications",
        "CC-core %u: status %u at record %u, operation %u", cc.index, (*values)[0], (*values)[1],
        (*values)[2]);
  }

  bool overflowed() {
    for (const EngineImage* image : program_.engines()) {
      NotificationQueue& queue =
          core_.engine_queue(image->part, static_cast<uint32_t>(image->engine));
      auto head = core_.device().read_registers({queue.head_register()});
      if (head && (*head)[0] != queue.reader().offset()) return true;
    }
    return false;
  }

  void finish_events(DeviceEvents* events) {
    events->vnc = core_.vnc();
    events->model_id = program_.context().model_id;
    events->exec_id = options_.exec_id;
    if (program_.context().communicator) {
      events->rank = program_.context().communicator->rank();
    }
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    events->sync_cpu_ns =
        static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
    events->sync_nc_ps = run_.stop_ps;
    run_.event_type = "nc_exec_running";
    if (started_ && run_.stop_ps >= run_.start_ps) events->spans.push_back(run_);
    for (const StreamProgress& stream : streams_) {
      for (const DeviceSpan& span : stream.spans) {
        if (span.stop_ps >= span.start_ps) events->spans.push_back(span);
      }
    }
  }

  LoadedProgram& program_;
  Core& core_;
  ExecutionOptions options_;
  std::vector<bool> ended_;
  std::vector<StreamProgress> streams_;
  DeviceSpan run_;
  base::Status bounds_;
  bool started_ = false;
  Clock::time_point end_ = Clock::time_point::max();
  uint64_t seconds_ = 0;  // the limit that end_ stands for
  bool alone_ = false;    // a peer has vanished
  bool closing_ = false;
};

const char* engine_error_text(uint32_t code) {
  switch (static_cast<contract::EngineError>(code)) {
    case contract::EngineError::kNone:
      return "no error";
    case contract::EngineError::kBadInstruction:
      return "instruction that cannot be decoded";
    case contract::EngineError::kUnsupported:
      return "instruction that the hardware does not support";
    case contract::EngineError::kBadPc:
      return "program counter outside the program";
    case contract::EngineError::kBadOperand:
      return "operand outside the on-chip memory or of a bad data type";
    case contract::EngineError::kBusError:
      return "access to an address without a target";
    case contract::EngineError::kOutOfBounds:
      return "scatter/gather (indirect memory copy via vector DGE) or other generated transfer, "
             "due "
             "to out-of-bound access";
    case contract::EngineError::kBadQueue:
      return "generated transfer on a queue that is not set up for it";
  }
  return "unknown error";
}

// " of TENSOR_TENSOR, operand src1", from the records that the engine has run.
std::string culprit(const EngineImage& image, const contract::NqEntry& entry) {
  const std::vector<contract::isa::Record>& records = image.program.records;
  if (entry.pc >= records.size()) return {};
  const base::ConstByteSpan at(records[entry.pc].bytes,
                               (records.size() - entry.pc) * contract::isa::kRecordBytes);
  const contract::isa::OpInfo* op = contract::isa::find_op(at[0]);
  if (op == nullptr) return {};
  const std::string text = std::string(" of ") + op->name;
  const auto code = static_cast<contract::EngineError>(entry.payload);
  constexpr uint32_t kSideShift = 24;
  const bool bad = code == contract::EngineError::kBadOperand;
  if (!bad && code != contract::EngineError::kOutOfBounds) return text;
  const uint32_t number = bad ? entry.info : entry.info >> kSideShift;
  const std::string name = neff::tensor_name(at, number);
  if (!name.empty()) return text + ", operand " + name;
  const auto opcode = static_cast<contract::isa::Opcode>(op->opcode);
  const bool product =
      opcode == contract::isa::Opcode::kMatmul || opcode == contract::isa::Opcode::kMatmulMx;
  return text + (product ? ", weights in the array" : ", tensor " + std::to_string(number));
}

}  // namespace

ExecutionOutcome execute(LoadedProgram& program, const ExecutionOptions& options) {
  return Execution(program, options).run();
}

base::Error engine_failure(const LoadedProgram& program, const EngineImage& image,
                           const contract::NqEntry& entry) {
  const int64_t source = image.program.source_pc(entry.pc);
  const std::string line = program.source_line(entry.debug_id);
  const auto code = static_cast<contract::EngineError>(entry.payload);
  NRT_STATUS status = NRT_EXEC_COMPLETED_WITH_ERR;
  if (code == contract::EngineError::kBadInstruction ||
      code == contract::EngineError::kUnsupported || code == contract::EngineError::kBadPc) {
    status = NRT_INVALID;
  }
  if (code == contract::EngineError::kBusError) status = NRT_HW_ERROR;
  if (code == contract::EngineError::kOutOfBounds) status = NRT_EXEC_OOB;
  return error(status,
               "[ND " + std::to_string(program.core().device().index()) + "][NC " +
                   std::to_string(program.core().nc() + image.part) + "] engine " +
                   kEngineNames[static_cast<uint32_t>(image.engine)] + " reported: " +
                   engine_error_text(entry.payload) + " (info " + std::to_string(entry.info) + ")" +
                   culprit(image, entry) + " at record " + std::to_string(entry.pc) +
                   ", isa instruction line number = " + std::to_string(source) +
                   (line.empty() ? "" : ", of " + line),
               base::Fault::kProgram);
}

base::Error cc_failure(const contract::NqEntry& entry) {
  return error(NRT_EXEC_HW_ERR_COLLECTIVES,
               "CC-core " + std::to_string(entry.source()) + " reported error " +
                   std::to_string(entry.payload) + " at record " + std::to_string(entry.pc),
               base::Fault::kProgram);
}

}  // namespace nrt
