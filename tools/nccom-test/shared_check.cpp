#include "shared_check.h"

#include <algorithm>

namespace nccom {

bool equal_everywhere(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kAllGather ||
         operation == Operation::kBroadcast;
}

std::optional<Mismatch> SharedCheck::compare(const Options& options, size_t stream,
                                             const std::vector<uint32_t>& group, uint32_t rank,
                                             uint64_t size, const std::vector<uint8_t>& output) {
  const auto compute = [&] { return nccom::compare(options, group, rank, size, output.data()); };
  if (!equal_everywhere(options.operation)) return compute();
  std::unique_lock<std::mutex> lock(mutex_);
  Verdict& verdict = verdicts_[{stream, group.front()}];
  if (!std::exchange(verdict.claimed, true)) {
    lock.unlock();
    std::optional<Mismatch> mismatch = compute();
    lock.lock();
    if (!mismatch) verdict.good = {output.data(), output.size()};
    verdict.decided = true;
    decided_.notify_all();
    return mismatch;
  }
  decided_.wait(lock, [&] { return verdict.decided; });
  const base::ConstByteSpan good = verdict.good;
  lock.unlock();
  if (std::equal(output.begin(), output.end(), good.begin(), good.end())) return std::nullopt;
  return compute();
}

}  // namespace nccom
