// What users change about collectives (docs/collectives.md): read once for all operations, because
// programs and tables are files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/ccl.h"

namespace nrt {

class CollectiveOptions {
 public:
  static base::Result<CollectiveOptions> from_environment();

  ccl::PlanOptions of_stream(uint32_t stream) const;

 private:
  CollectiveOptions() = default;

  bool strict_ = false;
  std::shared_ptr<const ccl::Overrides> overrides_;    // null: none
  std::vector<std::optional<uint32_t>> packet_bytes_;  // by stream; the last holds for the rest
};

}  // namespace nrt
