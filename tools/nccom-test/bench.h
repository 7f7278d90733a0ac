// Runs collectives through libnrt: one thread per rank of this process, durations from the system
// trace (device timestamps of the CC-cores' notifications).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "options.h"
#include "table.h"

namespace nccom {

class Bench {
 public:
  // Initialises the runtime. Error::code 1: no driver; the text is complete.
  static base::Result<std::unique_ptr<Bench>> open(const std::vector<Options>& streams);
  ~Bench();

  // From now on runs these streams, of the same job.
  void use(const std::vector<Options>& streams);

  // Runs one size per stream; all ranks of the job take part. One measurement per stream.
  base::Result<std::vector<Measurement>> measure(const std::vector<uint64_t>& sizes);

 private:
  explicit Bench(const std::vector<Options>& streams);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nccom
