// What goes from rank to rank.
#pragma once

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

// Bytes that one step brings over rank borders, given to visit(from, to, bytes).
template <typename Visit>
void crossings(const Step& step, uint32_t rank, const Visit& visit) {
  for (const Range& from : step.sources) {
    if (from.rank != rank) visit(from.rank, rank, step.bytes);
  }
  for (const Range& to : step.destinations) {
    if (to.rank != rank) visit(rank, to.rank, step.bytes);
  }
}

}  // namespace ccl
