#include "runtime/collectives/schedule/compose.h"

#include <algorithm>
#include <map>

namespace ccl {
namespace {

// Above this a rank would start more transfers, and exchange more handshakes, than a second hop
// costs (50 to 100 ns each against 2 us).
constexpr uint32_t kMaxDirectTransfers = 64;
constexpr uint32_t kChipWidth = 4;  // destinations of a step within a chip

Section held(const Section& section) {
  Section out;
  for (const Piece& piece : section) append_piece(&out, {piece.bytes, piece.to, piece.to});
  return out;
}

Group part_of_group(const Group& group, const std::vector<uint32_t>& members) {
  Group out;
  out.topology = group.topology;
  for (const uint32_t rank : members) out.members.push_back(group.members[rank]);
  return out;
}

// After a gather among columns: what the members of a chip have for each other.
TeamsPtr chip_gather_teams(const std::vector<std::vector<uint32_t>>& chips,
                           const std::vector<std::vector<uint32_t>>& columns,
                           const TeamsPtr& teams) {
  const uint32_t ranks = static_cast<uint32_t>(teams->seats.size());
  auto own_chips = std::make_shared<const std::vector<std::vector<uint32_t>>>(chips);
  auto own_columns = std::make_shared<const std::vector<std::vector<uint32_t>>>(columns);
  std::vector<uint32_t> column_of(ranks);
  for (uint32_t i = 0; i < columns.size(); ++i) {
    for (const uint32_t rank : columns[i]) column_of[rank] = i;
  }
  return make_teams(chips, ranks, [=](uint32_t chip, uint32_t member) {
    // What the column of this member has brought to it.
    Section out;
    for (const uint32_t rank : (*own_columns)[column_of[(*own_chips)[chip][member]]]) {
      append_section(&out, held(teams->section_of(rank)));
    }
    return out;
  });
}

TeamsPtr column_teams(const std::vector<std::vector<uint32_t>>& columns, const TeamsPtr& teams) {
  auto ranks = std::make_shared<std::vector<std::vector<uint32_t>>>(columns);
  return make_teams(columns, static_cast<uint32_t>(teams->seats.size()),
                    [=](uint32_t column, uint32_t member) {
                      return teams->section_of((*ranks)[column][member]);
                    });
}

// Ranks of every chip, and of every column (equal position on all chips of a team).
void split(const ChipShape& shape, const Teams& teams, std::vector<std::vector<uint32_t>>* chips,
           std::vector<std::vector<uint32_t>>* columns) {
  for (uint32_t t = 0; t < teams.members.size(); ++t) {
    const size_t first = columns->size();
    columns->resize(first + shape.most_cores);
    for (const auto& chip : (*shape.chips)[t].chips) {
      chips->emplace_back();
      for (uint32_t c = 0; c < chip.size(); ++c) {
        chips->back().push_back(teams.members[t][chip[c]]);
        (*columns)[first + c].push_back(teams.members[t][chip[c]]);
      }
    }
  }
}

// Codes 0..2^p-1 of the chips of one team and the axes (W first), or nothing.
std::optional<Cube> chip_cube(const Topology& topology, const std::vector<ChipRanks>& chips) {
  std::map<uint32_t, uint32_t> nodes;
  for (const ChipRanks& chip : chips) nodes.emplace(chip.node, 0);
  uint32_t number = 0;
  for (auto& [node, index] : nodes) index = number++;
  const bool torus = topology.fabric == Fabric::kTorus;
  const uint32_t per_node = static_cast<uint32_t>(chips.size() / nodes.size());
  std::vector<uint32_t> codes;
  for (uint32_t i = 0; i < chips.size(); ++i) {
    const uint32_t local = torus ? chip_code(topology.gen, chips[i].device) : i % per_node;
    codes.push_back(nodes[chips[i].node] << 16 | local);
  }
  uint32_t span = 0;
  for (const uint32_t code : codes) span |= code ^ codes.front();
  std::vector<uint32_t> bits;
  for (uint32_t bit = 0; bit < 32; ++bit) {
    if ((span >> bit & 1) != 0) bits.push_back(bit);
  }
  if (bits.size() > 8 || size_t{1} << bits.size() != chips.size()) return std::nullopt;
  Cube cube;
  for (const uint32_t code : codes) {
    uint32_t packed = 0;
    for (size_t i = 0; i < bits.size(); ++i) packed |= (code >> bits[i] & 1) << i;
    cube.codes.push_back(packed);
  }
  for (size_t i = bits.size(); i-- > 0;) cube.axes.push_back(1u << i);
  std::vector<uint32_t> seen = cube.codes;
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) return std::nullopt;
  return cube;
}

// The first axes join nodes: the slowest links carry the fewest bytes. The axes of a torus rotate
// with the core, so that the cores of a chip use different ports (spec/collectives.md 2.8.2).
std::vector<uint32_t> rotated(const Cube& cube, size_t node_axes, uint32_t core) {
  std::vector<uint32_t> axes = cube.axes;
  const auto first = axes.begin() + static_cast<ptrdiff_t>(node_axes);
  if (first != axes.end()) std::rotate(first, first + core % (axes.end() - first), axes.end());
  return axes;
}

// What a member holds at any time of a gather is then contiguous, and so is what it sends in a
// reduction.
void sort_by_axes(std::vector<uint32_t>* column, Cube* cube) {
  std::vector<uint32_t> ranks(column->size());
  std::vector<uint32_t> codes(column->size());
  for (size_t i = 0; i < column->size(); ++i) {
    size_t place = 0;
    for (size_t k = 0; k < cube->axes.size(); ++k) {
      if ((cube->codes[i] & cube->axes[k]) != 0) place |= size_t{1} << k;
    }
    ranks[place] = (*column)[i];
    codes[place] = cube->codes[i];
  }
  *column = std::move(ranks);
  cube->codes = std::move(codes);
}

}  // namespace

std::vector<std::vector<uint32_t>> one_team(uint32_t ranks) {
  std::vector<std::vector<uint32_t>> out(1);
  for (uint32_t r = 0; r < ranks; ++r) out[0].push_back(r);
  return out;
}

ChipShape chip_shape(const Group& group, const Teams& teams) {
  ChipShape shape;
  auto all = std::make_shared<std::vector<TeamChips>>();
  size_t least = SIZE_MAX;
  size_t most = 0;
  shape.landing = true;
  for (const auto& team : teams.members) {
    const Group part = part_of_group(group, team);
    const std::vector<ChipRanks> chips = by_chip(part);
    TeamChips out;
    out.seats.resize(team.size());
    for (const ChipRanks& chip : chips) {
      for (uint32_t c = 0; c < chip.members.size(); ++c) {
        out.seats[chip.members[c]] = {static_cast<uint32_t>(out.chips.size()), c};
      }
      out.chips.push_back(chip.members);
      least = std::min(least, chip.members.size());
      most = std::max(most, chip.members.size());
    }
    out.paths = std::make_shared<MeshPaths>(part, chips);
    shape.landing = shape.landing && out.paths->landing();
    shape.most_chips = std::max(shape.most_chips, static_cast<uint32_t>(chips.size()));
    all->push_back(std::move(out));
  }
  shape.most_cores = static_cast<uint32_t>(most);
  shape.uniform = least == most;
  shape.chips = std::move(all);
  return shape;
}

void add_mesh_reduce(ChainBuilder* builder, const ChipShape& shape, TeamsPtr teams, bool gathered,
                     Readers readers) {
  if (shape.most_chips == 1) {
    builder->add<ReadReduce>(std::move(teams), gathered);
  } else if (shape.most_cores == 1) {
    builder->add<SlotReduce>(std::move(teams));
  } else {
    builder->add<ChipReduce>(std::move(teams), shape.chips, gathered && shape.landing, readers);
  }
}

void add_mesh_gather(ChainBuilder* builder, const ChipShape& shape, TeamsPtr teams, Before before) {
  if (shape.most_chips == 1) {
    if (before != Before::kReduce) builder->add<DirectGather>(std::move(teams), kChipWidth);
  } else if (shape.most_cores > 1 && shape.landing) {
    constexpr Mates kMates[] = {Mates::kInputs, Mates::kShared, Mates::kMade};
    builder->add<LandingGather>(std::move(teams), shape.chips, kMates[static_cast<size_t>(before)]);
  } else if (shape.most_cores == 1 || !shape.uniform ||
             teams->largest_team() * teams->section(0, 0).size() <= kMaxDirectTransfers) {
    builder->add<DirectGather>(std::move(teams), 1);
  } else {
    std::vector<std::vector<uint32_t>> chips;
    std::vector<std::vector<uint32_t>> columns;
    split(shape, *teams, &chips, &columns);
    builder->add<DirectGather>(column_teams(columns, teams), 1);
    builder->add<DirectGather>(chip_gather_teams(chips, columns, teams), kChipWidth);
  }
}

std::optional<CubePlan> cube_plan(const Group& group, const Teams& teams, ColumnOrder order) {
  const ChipShape shape = chip_shape(group, teams);
  if (!shape.uniform) return std::nullopt;
  CubePlan plan;
  split(shape, teams, &plan.chips, &plan.columns);
  for (const auto& team : teams.members) {
    const Group part = part_of_group(group, team);
    const std::vector<ChipRanks> chips = by_chip(part);
    const std::optional<Cube> cube = chip_cube(group.topology, chips);
    if (!cube) return std::nullopt;
    size_t nodes = 1;
    for (size_t i = 1; i < chips.size(); ++i) nodes += chips[i].node != chips[i - 1].node;
    size_t node_axes = 0;
    while (size_t{1} << node_axes < nodes) ++node_axes;
    for (uint32_t core = 0; core < shape.most_cores; ++core) {
      const bool torus = group.topology.fabric == Fabric::kTorus;
      plan.cubes.push_back({cube->codes, rotated(*cube, node_axes, torus ? core : 0)});
    }
  }
  for (const Cube& cube : plan.cubes) {
    if (cube.axes.size() != plan.cubes.front().axes.size()) return std::nullopt;
  }
  for (size_t c = 0; c < plan.columns.size() && order == ColumnOrder::kByAxes; ++c) {
    sort_by_axes(&plan.columns[c], &plan.cubes[c]);
  }
  auto mates = std::make_shared<std::vector<std::vector<uint32_t>>>(group.ranks());
  for (const auto& chip : plan.chips) {
    for (const uint32_t rank : chip) (*mates)[rank] = chip;
  }
  plan.mates = std::move(mates);
  return plan;
}

void add_cube_reduce(ChainBuilder* builder, const CubePlan& plan, const TeamsPtr& teams,
                     bool gathered, Readers readers) {
  if (plan.cubes.front().axes.empty()) {
    builder->add<ReadReduce>(teams, gathered);
    return;
  }
  builder->add<Halving>(column_teams(plan.columns, teams), plan.cubes, plan.mates, readers,
                        gathered);
}

void add_cube_gather(ChainBuilder* builder, const CubePlan& plan, const TeamsPtr& teams,
                     Before before) {
  const bool ahead = before == Before::kReduce;
  if (plan.cubes.front().axes.empty()) {
    if (!ahead) builder->add<DirectGather>(teams, kChipWidth);
    return;
  }
  builder->add<Doubling>(column_teams(plan.columns, teams), plan.cubes, ahead);
  if (plan.chips.front().size() > 1) {
    builder->add<DirectGather>(chip_gather_teams(plan.chips, plan.columns, teams), kChipWidth);
  }
}

bool sane_size(const OpRequest& request) {
  return report_size(request) >> 48 == 0;
}

}  // namespace ccl
