// All-to-all in rounds (spec/collectives.md 2.12): a rank talks to few peers at a time.
#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/exchange.h"

namespace ccl {

base::Result<Schedule> pairwise(const OpRequest& request, const Group& group,
                                const ScheduleOptions& options) {
  if (const base::Status status = validate(request, group.ranks()); !status) {
    return status.error();
  }
  if (request.kind != OpKind::kAllToAll || options.in_place) {
    return not_eligible(Algorithm::kPairwise, "only all-to-all, not in place");
  }
  if (group.ranks() > options.max_steps) {
    return not_eligible(Algorithm::kPairwise, "more ranks than steps of a program");
  }
  ChainBuilder builder(Algorithm::kPairwise, request, group, options);
  builder.begin_chain();
  builder.add<DirectExchange>(request, group, true);
  return builder.take();
}

}  // namespace ccl
