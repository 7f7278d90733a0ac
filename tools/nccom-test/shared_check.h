// The check of outputs by threads that are ranks of one group.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "base/span.h"
#include "golden.h"

namespace nccom {

// All ranks of a group must have the same bits.
bool equal_everywhere(Operation operation);

class SharedCheck {
 public:
  // As nccom::compare(). Where all ranks of a group expect the same, the expected output is
  // computed once for all that have the same bits: it takes as long as the inputs of all ranks.
  // `output` stays where it is as long as this object is used.
  std::optional<Mismatch> compare(const Options& options, size_t stream,
                                  const std::vector<uint32_t>& group, uint32_t rank, uint64_t size,
                                  const std::vector<uint8_t>& output);

 private:
  struct Verdict {
    bool claimed = false;  // a rank computes
    bool decided = false;
    base::ConstByteSpan good;  // its output, if right
  };

  std::mutex mutex_;
  std::condition_variable decided_;
  std::map<std::pair<size_t, uint32_t>, Verdict> verdicts_;  // by stream and first of the group
};

}  // namespace nccom
