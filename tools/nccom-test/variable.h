// Operations of variable size (spec/tools.md 2.2, 2.10; spec/collectives.md 1.4): counts and
// displacements from a file, or equal blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace nccom {

struct Options;

// What one rank sends and receives, in elements; an empty array was not given.
struct RankSizes {
  std::vector<uint32_t> send_counts;
  std::vector<uint32_t> send_displs;
  std::vector<uint32_t> recv_counts;
  std::vector<uint32_t> recv_displs;
};
// One entry per rank, or one for all of them.
using Metadata = std::vector<RankSizes>;

// {"metadata": [ {"send_counts": [...], "send_displs": [...], ...} ]}
base::Result<Metadata> read_metadata(const std::string& path);

// The rules of spec/tools.md 2.10 for the operation and its groups.
base::Status check_metadata(const Options& options);

// Metadata with blocks of every length from 0 to the equal share of `size`, in another order and
// with gaps. `placed`: with receive counts and displacements; not of a reduce-scatter.
Metadata uneven_metadata(const Options& options, uint64_t size, bool placed);

// Rows of the metadata tensor beyond the first two.
bool receive_counts_known(const Options& options);
bool has_receive_displacements(const Options& options);

// The metadata tensor of a rank for buffers of `size`. Row 2 holds kUnknownCount unless known.
constexpr uint32_t kUnknownCount = 0xFFFFFFFF;
std::vector<uint32_t> metadata_words(const Options& options, uint32_t rank, uint64_t size);

// Element of the receiver's output where the block of a sender lies, and its source: indices in the
// group, words of both ranks.
struct BlockPlace {
  uint64_t count = 0;
  uint64_t from = 0;  // element of the sender's input
  uint64_t to = 0;
};
BlockPlace block_place(const Options& options, const std::vector<uint32_t>& sender_words,
                       const std::vector<uint32_t>& receiver_words, uint32_t sender,
                       uint32_t receiver, uint64_t size);

// Sizes follow from the metadata: the least `size` that holds it, and the buffers of a rank.
uint64_t least_size(const Options& options);
uint64_t variable_input_bytes(const Options& options, uint64_t size);
uint64_t variable_output_bytes(const Options& options, uint64_t size);

}  // namespace nccom
