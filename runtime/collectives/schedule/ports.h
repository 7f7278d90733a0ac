// The 4x4 torus of Trn1 and Trn2: chip codes, routes and the cores that own the ports
// (spec/collectives.md 2.2, 2.3, 2.7.1), and who sends and receives for a chip in a mesh.
// Ours: the route choice (2.7.1) is not published; to another node of an UltraServer the torus
// comes first and Z last; at LNC=1 cores 2l and 2l+1 have the S-engine of core l at LNC=2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/collectives/schedule/topology.h"

namespace ccl {

constexpr uint32_t kTorusChips = 16;

// The 4-bit hypercube code of a chip of the torus: flipping a bit moves to a neighbour.
uint32_t chip_code(contract::Gen gen, uint32_t device);
// Bits of the code that number the column (the others number the row).
uint32_t column_bits(contract::Gen gen);

enum class Port : uint8_t { kNorth, kSouth, kEast, kWest, kLeft, kRight };  // Z: left, right

// Moves from device to device of one torus, in order.
std::vector<Port> torus_route(uint32_t from, uint32_t to);
uint32_t torus_neighbour(uint32_t device, Port port);

// Logical cores (of four, LNC=2) of a Trn2 chip that own the port. `node`: in the Z ring.
std::vector<uint32_t> port_owners(uint32_t device, uint32_t node, Port port);

// For chips s, d (numbers in the list given) of a mesh: which rank of s sends to d, which rank of
// d receives from s, by position among the ranks of the chip.
class MeshPaths {
 public:
  MeshPaths(const Group& group, const std::vector<ChipRanks>& chips);

  // Trn2: data lands at the core that owns the port by which it enters (2.7.1).
  bool landing() const { return landing_; }
  // Sender for the rank at position `core` of chip d.
  uint32_t owner(uint32_t s, uint32_t d, uint32_t core) const;
  uint32_t land(uint32_t s, uint32_t d) const;

 private:
  using Ports = std::vector<Port>;  // by the other chip
  std::vector<uint32_t> classes(const Group& group, const ChipRanks& chip, uint32_t own,
                                const Ports& ports) const;

  bool landing_ = false;
  std::vector<uint32_t> members_;              // by chip: ranks
  std::vector<std::vector<uint32_t>> owners_;  // [s][d]
  std::vector<std::vector<uint32_t>> lands_;   // [d][s]
};

}  // namespace ccl
