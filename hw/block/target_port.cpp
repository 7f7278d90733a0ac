#define SC_INCLUDE_DYNAMIC_PROCESSES
#include "hw/block/target_port.h"

#include <algorithm>
#include <cstdio>
#include <exception>

namespace hw {

namespace {

constexpr uint64_t kPage = 4096;
// Of those that a PCIe function may choose for its completion time-out (10 to 50 ms), the shortest.
constexpr base::Ps kPatience = base::ms(10);

bool in_thread() {
  const sc_core::sc_process_handle self = sc_core::sc_get_current_process_handle();
  return self.valid() && (self.proc_kind() == sc_core::SC_THREAD_PROC_ ||
                          self.proc_kind() == sc_core::SC_CTHREAD_PROC_);
}

void describe(tlm::tlm_generic_payload& trans, uint64_t offset, uint8_t* data, size_t size,
              bool write) {
  trans.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  trans.set_address(offset);
  trans.set_data_ptr(data);
  trans.set_data_length(static_cast<unsigned>(size));
  trans.set_streaming_width(static_cast<unsigned>(size));
  trans.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
}

}  // namespace

TargetPort::TargetPort(const sc_core::sc_module_name& name, std::string label,
                       const PortContext& context)
    : sc_module(name), out("out"), context_(context), label_(std::move(label)) {
  SC_THREAD(serve);
}

void TargetPort::submit(std::shared_ptr<OutwardAccess> access) {
  context_.activity.begin();
  waiting_.push_back(std::move(access));
  context_.queue.notify(work_, context_.queue.now());
}

void TargetPort::serve() {
  for (;;) {
    while (waiting_.empty()) wait(work_);
    const std::shared_ptr<OutwardAccess> access = std::move(waiting_.front());
    waiting_.pop_front();
    serve(*access);
    at_work_.clear();
    if (access->abandoned) continue;  // nobody waits any more
    if (access->done) access->done();
    context_.activity.end();
  }
}

// What others throw ends the machine with its name and theirs.
void TargetPort::serve(OutwardAccess& access) {
  try {
    access.ok = transact(access.offset, access.data.data(), access.data.size(), access.write);
  } catch (const sc_core::sc_unwind_exception&) {
    throw;  // the kernel ends the process
  } catch (const std::exception& e) {
    context_.failed({base::Fault::kProgram, 0, label_, e.what()});
  }
}

bool TargetPort::transact(uint64_t offset, uint8_t* data, size_t size, bool write) {
  char text[64];
  std::snprintf(text, sizeof text, "%s of %zu bytes at +0x%llx", write ? "a write" : "a read", size,
                static_cast<unsigned long long>(offset));
  at_work_ = text;
  tlm::tlm_generic_payload trans;
  describe(trans, offset, data, size, write);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  out->b_transport(trans, delay);
  if (delay != sc_core::SC_ZERO_TIME) wait(delay);
  if (trans.is_response_ok()) return true;
  std::snprintf(text, sizeof text, "0x%05llx: %s", static_cast<unsigned long long>(offset),
                trans.get_response_string().c_str());
  context_.log.count(label_, AccessLog::Kind::kUnknown, text, write);
  return false;
}

bool TargetPort::perform(uint64_t offset, uint8_t* data, size_t size, bool write) {
  const bool running = sc_core::sc_get_status() == sc_core::SC_RUNNING;
  if (running && !in_thread()) {  // in a method: nothing may wait
    context_.log.count(label_, AccessLog::Kind::kUnsupported, "access from a method", write);
    return look(offset, data, size, write);
  }
  auto access = std::make_shared<OutwardAccess>();
  access->offset = offset;
  access->data.assign(data, data + size);
  access->write = write;
  if (!(running ? wait_for(access) : run_for(access))) {
    access->done = {};
    access->abandoned = true;
    context_.activity.end();
    context_.log.count(label_, AccessLog::Kind::kUnknown, "no answer", write);
    return false;
  }
  if (!write) std::copy(access->data.begin(), access->data.end(), data);
  return access->ok;
}

// In a thread: until the answer is there, or the time of a PCIe completion time-out is over.
bool TargetPort::wait_for(const std::shared_ptr<OutwardAccess>& access) {
  struct Answer {
    bool over = false;
    sc_core::sc_event event;
  };
  const auto answer = std::make_shared<Answer>();  // may come when the thread has been ended
  access->done = [answer] {
    answer->over = true;
    answer->event.notify(sc_core::SC_ZERO_TIME);
  };
  submit(access);
  wait(sc_core::sc_time::from_value(kPatience), answer->event);
  return answer->over;
}

bool TargetPort::run_for(const std::shared_ptr<OutwardAccess>& access) {
  bool over = false;
  access->done = [&over] { over = true; };
  submit(access);
  return context_.run_until(kPatience, [&over] { return over; });
}

bool TargetPort::look(uint64_t offset, uint8_t* data, size_t size, bool write) {
  tlm::tlm_generic_payload trans;
  describe(trans, offset, data, size, write);
  return out->transport_dbg(trans) == size;
}

std::string TargetPort::waits() const {
  return at_work_.empty() ? "" : "has not answered " + at_work_;
}

uint8_t* TargetPort::direct(uint64_t offset, uint64_t length) {
  if (length == 0 || offset + length < offset) return nullptr;
  const bool known = offset >= granted_.begin && offset + length - 1 <= granted_.end;
  if (!known) {
    if (offset / kPage == asked_) return nullptr;
    tlm::tlm_generic_payload trans;
    describe(trans, offset, nullptr, 0, false);
    trans.set_command(tlm::TLM_WRITE_COMMAND);
    tlm::tlm_dmi dmi;
    const bool granted = out->get_direct_mem_ptr(trans, dmi) && dmi.is_read_write_allowed() &&
                         dmi.get_start_address() <= offset && dmi.get_end_address() >= offset;
    if (!granted) {
      asked_ = offset / kPage;
      return nullptr;
    }
    granted_ = {dmi.get_start_address(), dmi.get_end_address(), dmi.get_dmi_ptr()};
    if (offset + length - 1 > granted_.end) return nullptr;
  }
  return granted_.data + (offset - granted_.begin);
}

void TargetPort::invalidate_direct_mem_ptr(sc_dt::uint64 begin, sc_dt::uint64 end) {
  asked_ = ~uint64_t{0};
  if (begin <= granted_.end && end >= granted_.begin) granted_ = {1, 0, nullptr};
}

// Only b_transport is used.
tlm::tlm_sync_enum TargetPort::nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                               sc_core::sc_time&) {
  return tlm::TLM_COMPLETED;
}

}  // namespace hw
