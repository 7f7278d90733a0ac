// Data of --check (spec/tools.md 2.9): inputs that differ by rank and index, expected results,
// comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace nccom {

// Writes elements [first, first + count) of the input of a rank.
void make_input(const Options& options, uint32_t rank, uint64_t first, uint64_t count, uint8_t* to);

struct Mismatch {
  uint64_t index = 0;  // element of the output
  std::string got;
  std::string expected;
  uint64_t wrong = 0;  // how many elements
};

// Compares the output of `rank` with the result of the operation over `group`, computed from the
// inputs. Integers exactly, floats with the published form of tolerance.
std::optional<Mismatch> compare(const Options& options, const std::vector<uint32_t>& group,
                                uint32_t rank, uint64_t size, const uint8_t* output);

// The expected output as bytes, rounded to the type; for the dump after a failure. `output`: what
// came, for operations of which that says who sent it.
std::vector<uint8_t> expected_output(const Options& options, const std::vector<uint32_t>& group,
                                     uint32_t rank, uint64_t size, const uint8_t* output = nullptr);

// Of a permute, by part: whose data is in the output of `rank`. The ring of an implicit permute is
// the runtime's choice, so its data must tell; `certain`: it fits no other member.
struct Source {
  uint32_t rank = 0;
  bool certain = false;
};
std::vector<Source> sources_of(const Options& options, const std::vector<uint32_t>& group,
                               uint32_t rank, uint64_t size, const uint8_t* output);

// Members of the group of a rank.
std::vector<uint32_t> group_of(const Options& options, uint32_t rank);

// Whether the operation gives this rank an output.
bool receives(const Options& options, const std::vector<uint32_t>& group, uint32_t rank);

// One element of any type as a double, and back (nearest even); integers wrap.
double decode(contract::DType dtype, const uint8_t* from);
void encode(contract::DType dtype, double value, uint8_t* to);

}  // namespace nccom
