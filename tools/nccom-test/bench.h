// Runs collectives through libnrt: one thread per rank of this process, durations from the system
// trace (device timestamps of the CC-cores' notifications).
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "options.h"
#include "table.h"

namespace nccom {

class Bench {
 public:
  // Initialises the runtime. Error::code 1: no driver; the text is complete.
  static base::Result<std::unique_ptr<Bench>> open(const Options& options);
  ~Bench();

  // Runs one size; all ranks of the job take part.
  base::Result<Measurement> measure(uint64_t size);

 private:
  explicit Bench(const Options& options);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nccom
