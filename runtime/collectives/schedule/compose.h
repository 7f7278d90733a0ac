// Reductions and gathers of teams as chains of stages: what mesh, RDH and hierarchical schedules
// have in common. All teams of one call have the same shape.
#pragma once

#include <optional>

#include "runtime/collectives/schedule/stages.h"

namespace ccl {

// All ranks in one team, in group order.
std::vector<std::vector<uint32_t>> one_team(uint32_t ranks);

// Teams by chips.
struct ChipShape {
  TeamChipsPtr chips;
  uint32_t most_chips = 0;  // of a team
  uint32_t most_cores = 0;  // of a chip
  bool uniform = false;     // all chips of all teams have the same number of ranks
  bool landing = false;     // the landing rule of Trn2 holds
};
ChipShape chip_shape(const Group& group, const Teams& teams);

// Scatter and reduce. `gathered`: add_mesh_gather() of the same teams comes next.
void add_mesh_reduce(ChainBuilder* builder, const ChipShape& shape, TeamsPtr teams, bool gathered,
                     Readers readers);
// Gather. `before`: what has made the sections; add_mesh_reduce() with `gathered` is kReduce.
enum class Before : uint8_t { kNothing, kReduce, kOther };
void add_mesh_gather(ChainBuilder* builder, const ChipShape& shape, TeamsPtr teams, Before before);

// Teams whose chips form a hypercube (spec/collectives.md 2.8.2): for every local core the ranks of
// all chips.
struct CubePlan {
  std::vector<std::vector<uint32_t>> columns;  // ranks
  std::vector<Cube> cubes;                     // by column
  std::vector<std::vector<uint32_t>> chips;    // ranks
  MatesPtr mates;
};
// Members of a column: as their chips are numbered, or such that every step of the cube moves
// neighbours (for operations whose chunks may have any number).
enum class ColumnOrder : uint8_t { kByChip, kByAxes };
// Empty where the chips of a team are no power of two, or no sub-cube of the torus.
std::optional<CubePlan> cube_plan(const Group& group, const Teams& teams, ColumnOrder order);

// `gathered`, `before`: as for the mesh.
void add_cube_reduce(ChainBuilder* builder, const CubePlan& plan, const TeamsPtr& teams,
                     bool gathered, Readers readers);
void add_cube_gather(ChainBuilder* builder, const CubePlan& plan, const TeamsPtr& teams,
                     Before before);

// Sizes that cannot overflow 64 bits in any schedule.
bool sane_size(const OpRequest& request);

}  // namespace ccl
