// The table of default algorithms (spec/collectives.md 2.16): the first row that fits counts. Rows
// marked [P] are published, the others are this library's own and may be tuned.
#include <algorithm>
#include <array>

#include "runtime/collectives/schedule/select.h"

namespace ccl {
namespace {

constexpr uint64_t kKB = 1000;
constexpr uint64_t kMB = 1000 * kKB;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kAll = UINT64_MAX;
constexpr Algorithm kRing = Algorithm::kRing;
constexpr Algorithm kMesh = Algorithm::kMesh;
constexpr Algorithm kRdh = Algorithm::kRdh;
constexpr Algorithm kKanga = Algorithm::kKangaRing;
constexpr Algorithm kHier = Algorithm::kHierarchical;
constexpr Algorithm kFlat = Algorithm::kFlatRing;

enum class Nodes : uint8_t { kAny, kOne, kMany, kOneRankEach };
enum class Ranks : uint8_t { kAny, kOnePerChip };

struct Band {
  uint64_t through = 0;  // bytes, inclusive; 0: no band
  Algorithm algorithm = kRing;
};

struct Row {
  std::optional<Family> family;
  Nodes nodes;
  Ranks ranks;
  uint32_t chips;      // 0: any
  uint32_t max_ranks;  // 0: any
  std::array<Band, 3> bands;
};

// All-reduce, all-gather, reduce-scatter.
const Row kRows[] = {
    // Trn3: any chip reaches any other in the same number of hops, so nodes do not matter.
    {Family::kTrn3,
     Nodes::kAny,
     Ranks::kAny,
     0,
     0,
     {{{4 * kMB, kMesh}, {64 * kMB, kRdh}, {kAll, kKanga}}}},
    // One rank per node: the published ranking of inter-node algorithms.
    {{}, Nodes::kOneRankEach, Ranks::kAny, 0, 4, {{{256 * kMB - 1, kMesh}, {kAll, kRing}}}},
    {{},
     Nodes::kOneRankEach,
     Ranks::kAny,
     0,
     16,
     {{{64 * kKB, kMesh}, {256 * kMB - 1, kRdh}, {kAll, kRing}}}},
    {{}, Nodes::kOneRankEach, Ranks::kAny, 0, 0, {{{64 * kKB, kMesh}, {kAll, kRdh}}}},
    {Family::kTrn1, Nodes::kMany, Ranks::kAny, 0, 0, {{{16 * kMB, kHier}, {kAll, kFlat}}}},  // [P]
    {{}, Nodes::kMany, Ranks::kAny, 0, 0, {{{kAll, kHier}}}},
    // Trn2, one node.
    {Family::kTrn2, Nodes::kOne, Ranks::kAny, 1, 0, {{{4 * kMB, kMesh}, {kAll, kRing}}}},
    {Family::kTrn2, Nodes::kOne, Ranks::kOnePerChip, 0, 0, {{{kAll, kRing}}}},  // [P]
    {Family::kTrn2,
     Nodes::kOne,
     Ranks::kAny,
     16,
     0,
     {{{kMB - 1, kMesh}, {56 * kMB, kRdh}, {kAll, kKanga}}}},  // [P]
    {Family::kTrn2,
     Nodes::kOne,
     Ranks::kAny,
     8,
     0,
     {{{kMB - 1, kMesh}, {32 * kMB - 1, kRdh}, {kAll, kKanga}}}},
    {Family::kTrn2,
     Nodes::kOne,
     Ranks::kAny,
     4,
     0,
     {{{kMB - 1, kMesh}, {16 * kMB - 1, kRdh}, {kAll, kKanga}}}},  // [P] sample
    {Family::kTrn2,
     Nodes::kOne,
     Ranks::kAny,
     2,
     0,
     {{{kMB - 1, kMesh}, {8 * kMB - 1, kRdh}, {kAll, kKanga}}}},
    {Family::kTrn2, Nodes::kOne, Ranks::kAny, 0, 0, {{{kMB - 1, kMesh}, {kAll, kKanga}}}},
    // Trn1 and Inf2, one node. Two ranks: measured against the published times of trn1.2xlarge.
    {{}, Nodes::kOne, Ranks::kAny, 1, 0, {{{512 * kKiB - 1, kMesh}, {kAll, kRing}}}},
    // Routes of a mesh on two rows meet on few links. Bounds above 1 MB: published times lie on
    // the line of the smaller sizes up to 4 MiB, and ours are the shortest of the algorithms.
    {Family::kTrn1,
     Nodes::kOne,
     Ranks::kAny,
     8,
     0,
     {{{128 * kKiB, kMesh}, {4 * kMiB, kRdh}, {kAll, kRing}}}},
    {Family::kTrn1, Nodes::kOne, Ranks::kAny, 16, 0, {{{4 * kMiB, kMesh}, {kAll, kRing}}}},
    {Family::kTrn1, Nodes::kOne, Ranks::kAny, 0, 0, {{{kMB, kMesh}, {kAll, kRing}}}},  // [P] and
                                                                                       // ours
    {Family::kInf2, Nodes::kOne, Ranks::kAny, 0, 0, {{{256 * kKB, kMesh}, {kAll, kRing}}}},
};

bool fits(const Row& row, const Situation& s) {
  if (row.family && *row.family != s.family) return false;
  if (row.nodes == Nodes::kOne && s.nodes != 1) return false;
  if (row.nodes == Nodes::kMany && s.nodes == 1) return false;
  if (row.nodes == Nodes::kOneRankEach && (s.nodes == 1 || s.nodes != s.ranks)) return false;
  if (row.ranks == Ranks::kOnePerChip && s.chips != s.ranks) return false;
  if (row.chips != 0 && row.chips != s.chips) return false;
  return row.max_ranks == 0 || s.ranks <= row.max_ranks;
}

}  // namespace

Algorithm default_algorithm(const Situation& s) {
  switch (s.kind) {
    case OpKind::kBroadcast:
    case OpKind::kReduce:
    case OpKind::kBarrier:
      return Algorithm::kTree;
    case OpKind::kPermute:
    case OpKind::kPermuteReduce:
      return Algorithm::kRing;
    case OpKind::kAllToAll:
    case OpKind::kAllGatherV:
    case OpKind::kReduceScatterV:
    case OpKind::kAllToAllV:
      return Algorithm::kMesh;
    default:
      break;
  }
  for (const Row& row : kRows) {
    if (!fits(row, s)) continue;
    for (const Band& band : row.bands) {
      if (s.size <= band.through) return band.algorithm;
    }
  }
  return Algorithm::kRing;
}

}  // namespace ccl
