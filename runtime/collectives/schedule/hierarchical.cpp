// Hierarchical schedules (spec/collectives.md 2.9): stages within nodes and between nodes.
// Exact: the stages and which chunks they carry. Each stage is a mesh or RDH; a ring between nodes
// is the flat ring's business.
#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/compose.h"

namespace ccl {
namespace {

constexpr uint64_t kPipelineBytes = 4 * 1024 * 1024;  // sub-blocks from here on (2.9)
constexpr uint32_t kPipelineBlocks = 4;
constexpr uint32_t kMeshNodes = 4;                  // between nodes: mesh up to here (2.16)
constexpr uint64_t kMeshNodeBytes = 64 * 1024;      // or up to this much
constexpr uint64_t kMeshInsideBytes = 1024 * 1024;  // within a node: mesh below, else RDH (2.16)

// Ranks (x, y): node x, place y in the node; equal places have the same device and core.
struct Grid {
  std::vector<std::vector<uint32_t>> nodes;    // ranks by x, y
  std::vector<std::vector<uint32_t>> columns;  // ranks by y, x

  uint32_t x() const { return static_cast<uint32_t>(nodes.size()); }
  uint32_t y() const { return static_cast<uint32_t>(columns.size()); }
  uint32_t rank(uint32_t x, uint32_t y) const { return nodes[x][y]; }
};

std::optional<Grid> grid_of(const Group& group) {
  using Local = std::pair<uint32_t, uint32_t>;  // device, core
  std::map<uint32_t, std::map<Local, uint32_t>> nodes;
  for (uint32_t r = 0; r < group.ranks(); ++r) {
    const Position& p = group.members[r];
    nodes[p.node][{p.device, p.core}] = r;
  }
  Grid grid;
  const auto& first = nodes.begin()->second;
  for (const auto& [node, ranks] : nodes) {
    const bool same = std::equal(ranks.begin(), ranks.end(), first.begin(), first.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) return std::nullopt;
    grid.nodes.emplace_back();
    for (const auto& [local, rank] : ranks) grid.nodes.back().push_back(rank);
  }
  for (uint32_t y = 0; y < first.size(); ++y) {
    grid.columns.emplace_back();
    for (const auto& node : grid.nodes) grid.columns.back().push_back(node[y]);
  }
  return grid;
}

// Where the chunk of rank (x, y) is at a stage. Outlives the Hierarchy.
using ChunkAt = std::function<Piece(uint32_t x, uint32_t y)>;

class Hierarchy {
 public:
  Hierarchy(ChainBuilder* builder, const OpRequest& request, const Group& group, Grid grid)
      : builder_(builder),
        request_(request),
        group_(group),
        grid_(std::make_shared<const Grid>(std::move(grid))) {
    const uint64_t chunk = chunk_of(request, group.ranks(), 0).bytes;
    mesh_outside_ = grid_->x() <= kMeshNodes || chunk * grid_->x() <= kMeshNodeBytes;
    mesh_inside_ = report_size(request) < kMeshInsideBytes;
  }

  void add(const ChunkMap& layout) {
    switch (request_.kind) {
      case OpKind::kAllGather:
        gather_outside([layout, grid = grid_](uint32_t x, uint32_t y) {
          return layout.gathered(grid->rank(x, y));
        });
        gather_inside([layout, grid = grid_](uint32_t x, uint32_t y) {
          return layout.held(grid->rank(x, y));
        });
        break;
      case OpKind::kReduceScatter:
        reduce_scatter(layout);
        break;
      default:
        // Sections of the nodes' ranks are contiguous.
        reduce_inside([layout, grid = grid_](
                          uint32_t x, uint32_t y) { return layout.reduced(y * grid->x() + x); },
                      Readers::kFollowed);
        const ChunkAt held = [layout, grid = grid_](uint32_t x, uint32_t y) {
          return layout.held(y * grid->x() + x);
        };
        reduce_outside(held);
        gather_outside(held);
        gather_inside(held);
    }
  }

 private:
  bool all_reduce() const { return request_.kind == OpKind::kAllReduce; }

  void reduce_scatter(const ChunkMap& layout) {
    const uint64_t chunk = layout.largest();
    const Spot partial = builder_->reserve(chunk * grid_->x());
    reduce_inside(
        [partial, chunk, layout, grid = grid_](uint32_t x, uint32_t y) {
          Piece piece = layout.reduced(grid->rank(x, y));
          piece.to = partial + x * chunk;
          return piece;
        },
        Readers::kTellEnd);
    reduce_outside([partial, chunk, layout, grid = grid_](uint32_t x, uint32_t y) {
      Piece piece = layout.reduced(grid->rank(x, y));
      piece.from = partial + x * chunk;
      return piece;
    });
  }

  TeamsPtr inside(const ChunkAt& chunk) const {
    const uint32_t nodes = grid_->x();
    return make_teams(grid_->nodes, group_.ranks(), [nodes, chunk](uint32_t, uint32_t y) {
      Section out;
      for (uint32_t x = 0; x < nodes; ++x) append_piece(&out, chunk(x, y));
      return out;
    });
  }
  TeamsPtr outside(const ChunkAt& chunk) const {
    return make_teams(grid_->columns, group_.ranks(), [chunk](uint32_t y, uint32_t x) {
      Section out;
      append_piece(&out, chunk(x, y));
      return out;
    });
  }

  std::optional<CubePlan> cube(const Teams& teams, bool mesh) const {
    return mesh ? std::nullopt : cube_plan(group_, teams, ColumnOrder::kByChip);
  }
  void reduce_inside(const ChunkAt& chunk, Readers readers) {
    const TeamsPtr teams = inside(chunk);
    if (const auto plan = cube(*teams, mesh_inside_)) {
      add_cube_reduce(builder_, *plan, teams, false, readers);
    } else {
      add_mesh_reduce(builder_, chip_shape(group_, *teams), teams, false, readers);
    }
  }
  void gather_inside(const ChunkAt& chunk) {
    const TeamsPtr teams = inside(chunk);
    if (const auto plan = cube(*teams, mesh_inside_)) {
      add_cube_gather(builder_, *plan, teams, Before::kOther);
    } else {
      add_mesh_gather(builder_, chip_shape(group_, *teams), teams, Before::kOther);
    }
  }
  void reduce_outside(const ChunkAt& chunk) {
    const TeamsPtr teams = outside(chunk);
    if (const auto plan = cube(*teams, mesh_outside_)) {
      add_cube_reduce(builder_, *plan, teams, all_reduce(), Readers::kFollowed);
    } else {
      builder_->add<SlotReduce>(teams);
    }
  }
  void gather_outside(const ChunkAt& chunk) {
    const TeamsPtr teams = outside(chunk);
    if (const auto plan = cube(*teams, mesh_outside_)) {
      add_cube_gather(builder_, *plan, teams, all_reduce() ? Before::kReduce : Before::kNothing);
    } else {
      builder_->add<DirectGather>(teams, 1);
    }
  }

  ChainBuilder* builder_;
  OpRequest request_;
  Group group_;
  std::shared_ptr<const Grid> grid_;
  bool mesh_outside_ = false;
  bool mesh_inside_ = false;
};

}  // namespace

base::Result<Schedule> hierarchical(const OpRequest& request, const Group& group,
                                    const ScheduleOptions& options) {
  const uint32_t ranks = group.ranks();
  const auto refuse = [](const std::string& why) {
    return not_eligible(Algorithm::kHierarchical, why);
  };
  if (const base::Status status = validate(request, ranks); !status) return status.error();
  if (!sane_size(request)) return refuse("buffer size overflows");
  if (request.kind != OpKind::kAllReduce && request.kind != OpKind::kAllGather &&
      request.kind != OpKind::kReduceScatter) {
    return refuse(std::string("no ") + to_string(request.kind));
  }
  std::optional<Grid> grid = grid_of(group);
  if (!grid || grid->x() < 2 || grid->y() < 2) {
    return refuse("needs several nodes with the same ranks, more than one, on each");
  }
  ChainBuilder builder(Algorithm::kHierarchical, request, group, options);
  const uint32_t blocks = report_size(request) >= kPipelineBytes
                              ? std::clamp(options.max_channels, 1u, kPipelineBlocks)
                              : 1;
  Hierarchy hierarchy(&builder, request, group, std::move(*grid));
  for (uint32_t b = 0; b < blocks; ++b) {
    builder.begin_chain();
    hierarchy.add(ChunkMap(request, ranks, options.in_place, {b, blocks}));
  }
  return builder.take();
}

}  // namespace ccl
