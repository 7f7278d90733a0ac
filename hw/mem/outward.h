// The way out of the machine: to a block that others wrote, or to the memory of a host that answers
// transactions only. What is asked there may take simulated time, so nobody gets an answer at once:
// an access is submitted, and performed by a process of the simulation kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/span.h"

namespace hw {

struct OutwardAccess {
  uint64_t offset = 0;  // in the window, or in the host's memory
  std::vector<uint8_t> data;
  bool write = false;
  bool ok = false;         // the answer
  bool abandoned = false;  // whoever asked has given up
  // Called in a process, at the time of the answer; may be empty.
  std::function<void()> done;
};

class Outward {
 public:
  virtual ~Outward() = default;
  virtual const std::string& outward_name() const = 0;

  // From events and processes. Accesses are performed in the order in which they are submitted.
  virtual void submit(std::shared_ptr<OutwardAccess> access) = 0;
  // The same from where one may wait: a thread of the kernel, or outside of the simulation.
  virtual bool perform(uint64_t offset, uint8_t* data, size_t size, bool write) = 0;
  // At once: no time, no side effects (transport_dbg).
  virtual bool look(uint64_t offset, uint8_t* data, size_t size, bool write) = 0;
  // For hang reports: "has not answered ..."; empty if nothing is outstanding.
  virtual std::string waits() const = 0;

  // A write that nobody waits for.
  void post(uint64_t offset, base::ConstByteSpan from) {
    auto access = std::make_shared<OutwardAccess>();
    access->offset = offset;
    access->data.assign(from.begin(), from.end());
    access->write = true;
    submit(std::move(access));
  }
};

}  // namespace hw
