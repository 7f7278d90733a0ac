// Which groups are legal (spec/collectives.md 1.8; permutes: 1.5; variable sizes: 1.4). Overlaps
// between the lists of a set are checked by validate_groups (types.h), before anyone knows where
// ranks sit. Exact: the symmetry of groups that span nodes, closed cycles. `strict` adds the
// published sizes and shapes of the platform; without it any group runs.
#pragma once

#include "runtime/collectives/schedule/topology.h"
#include "runtime/collectives/types.h"

namespace ccl {

// Platforms as selection and group rules tell them apart.
enum class Family : uint8_t { kTrn1, kInf2, kTrn2, kTrn3 };
Family family_of(const Topology& topology);
const char* to_string(Family family);  // "trn1", ...

base::Status check_group(const Group& group, bool strict);

// Operations of variable size: without `strict` any group; with it the NKI column of 1.4. That says
// nothing about reduce-scatter-v.
base::Status check_variable(const OpRequest& request, const Group& group, bool strict);

// Pairs must form closed cycles, or be single open pairs (send and receive).
base::Status check_permute(const OpRequest& request, const Group& group, bool strict);

}  // namespace ccl
