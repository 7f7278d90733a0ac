#include "variable.h"

#include <algorithm>

#include "base/json.h"
#include "options.h"

namespace nccom {
namespace {

using Json = nlohmann::ordered_json;

base::Status read_array(const std::string& path, const std::string& key, const Json& json,
                        std::vector<uint32_t>* to) {
  if (!json.is_array()) return usage(path, key + " is no list");
  for (const Json& value : json) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      return usage(path,
                   key + " holds " + base::json_text(value) + "; expected numbers of 32 bits");
    }
    to->push_back(value.get<uint32_t>());
  }
  return {};
}

base::Result<RankSizes> read_entry(const std::string& path, const Json& json) {
  if (!json.is_object()) return usage(path, "an entry is an object of lists");
  RankSizes entry;
  const std::pair<const char*, std::vector<uint32_t>*> arrays[] = {
      {"send_counts", &entry.send_counts},
      {"send_displs", &entry.send_displs},
      {"recv_counts", &entry.recv_counts},
      {"recv_displs", &entry.recv_displs}};
  for (const auto& [key, value] : json.items()) {
    const auto known = std::find_if(std::begin(arrays), std::end(arrays),
                                    [&, &name = key](const auto& a) { return name == a.first; });
    if (known == std::end(arrays)) return usage(path, "unknown key '" + key + "'");
    if (base::Status s = read_array(path, key, value, known->second); !s) return s.error();
  }
  return entry;
}

base::Error rule(const std::string& what) {
  return {base::Fault::kUsage, 2, "", what};
}

const RankSizes& entry_of(const Options& o, uint32_t rank) {
  return o.metadata.size() == 1 ? o.metadata.front() : o.metadata[rank];
}

bool gathers(const Options& o) {
  return o.operation == Operation::kAllGatherV;
}

// Column of the send arrays for the receiver with this index.
uint32_t column(const Options& o, uint32_t receiver) {
  return gathers(o) ? 0 : receiver;
}

// The arrays of one entry have the lengths that the operation wants.
base::Status check_lengths(const Options& o, const RankSizes& entry, const std::string& who) {
  const size_t ranks = o.group_ranks();
  const size_t send = gathers(o) ? 1 : ranks;
  const auto check = [&](const char* key, size_t length, size_t wanted) {
    if (length == wanted) return base::Status();
    return base::Status(rule(who + ": " + key + " has " + std::to_string(length) +
                             " elements, expected " + std::to_string(wanted)));
  };
  if (base::Status s = check("send_counts", entry.send_counts.size(), send); !s) return s;
  if (base::Status s = check("send_displs", entry.send_displs.size(), send); !s) return s;
  const bool none = o.operation == Operation::kReduceScatterV;
  for (const auto& [key, array] : {std::pair("recv_counts", &entry.recv_counts),
                                   std::pair("recv_displs", &entry.recv_displs)}) {
    if (array->empty()) continue;
    if (base::Status s = check(key, array->size(), none ? 0 : ranks); !s) return s;
  }
  return {};
}

// What a rank is said to receive is what the others send to it, in places that do not overlap.
base::Status check_receiver(const Options& o, const std::vector<uint32_t>& group, uint32_t index) {
  const RankSizes& own = entry_of(o, group[index]);
  const std::string who = "rank " + std::to_string(group[index]);
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (uint32_t s = 0; s < group.size(); ++s) {
    const uint64_t sent = entry_of(o, group[s]).send_counts[column(o, index)];
    if (!own.recv_counts.empty() && own.recv_counts[s] != sent) {
      return rule(who + " expects " + std::to_string(own.recv_counts[s]) + " elements of rank " +
                  std::to_string(group[s]) + ", which sends " + std::to_string(sent));
    }
    if (sent != 0 && !own.recv_displs.empty()) {
      places.emplace_back(own.recv_displs[s], own.recv_displs[s] + sent);
    }
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first < places[i - 1].second) {
      return rule(who + ": blocks overlap at element " + std::to_string(places[i].first));
    }
  }
  return {};
}

uint64_t width_of(const Options& o) {
  return std::max(1u, contract::dtype_size(o.dtype.code));  // 0 is no type: options have one
}

// Elements of a block where all are equal.
uint64_t equal_count(const Options& o, uint64_t size) {
  return size / width_of(o) / o.group_ranks();
}

uint64_t longest_send(const Options& o) {
  uint64_t longest = 0;
  for (const RankSizes& entry : o.metadata) {
    for (const uint32_t count : entry.send_counts) longest = std::max<uint64_t>(longest, count);
  }
  return longest;
}

// Elements that reach from the start of the input to the end of the last block.
uint64_t send_extent(const Options& o) {
  uint64_t extent = 0;
  for (const RankSizes& entry : o.metadata) {
    for (size_t k = 0; k < entry.send_counts.size(); ++k) {
      if (entry.send_counts[k] == 0) continue;
      extent = std::max(extent, uint64_t{entry.send_counts[k]} + entry.send_displs[k]);
    }
  }
  return extent;
}

uint64_t receive_extent(const Options& o) {
  if (!has_receive_displacements(o)) return longest_send(o) * o.group_ranks();
  uint64_t extent = 0;
  for (const std::vector<uint32_t>& group : o.groups) {
    for (uint32_t r = 0; r < group.size(); ++r) {
      for (uint32_t s = 0; s < group.size(); ++s) {
        const uint64_t sent = entry_of(o, group[s]).send_counts[column(o, r)];
        if (sent == 0) continue;
        extent = std::max(extent, entry_of(o, group[r]).recv_displs[s] + sent);
      }
    }
  }
  return extent;
}

}  // namespace

base::Result<Metadata> read_metadata(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  const Json json = base::parse_ordered_json(*text);
  if (json.is_discarded() || !json.is_object() || !json.contains("metadata") ||
      !json["metadata"].is_array() || json["metadata"].empty()) {
    return usage(path, "expected {\"metadata\": [ {...}, ... ]}");
  }
  Metadata out;
  for (const Json& entry : json["metadata"]) {
    auto sizes = read_entry(path, entry);
    if (!sizes) return sizes.error();
    out.push_back(std::move(*sizes));
  }
  return out;
}

base::Status check_metadata(const Options& o) {
  if (o.metadata.empty()) return {};
  if (o.metadata.size() != 1 && o.metadata.size() != o.ranks) {
    return rule(std::to_string(o.metadata.size()) + " entries for " + std::to_string(o.ranks) +
                " ranks; expected one for all or one for each");
  }
  const RankSizes& first = o.metadata.front();
  for (size_t i = 0; i < o.metadata.size(); ++i) {
    const RankSizes& entry = o.metadata[i];
    const std::string who = "entry " + std::to_string(i);
    if (base::Status s = check_lengths(o, entry, who); !s) return s;
    if (entry.recv_counts.empty() != first.recv_counts.empty() ||
        entry.recv_displs.empty() != first.recv_displs.empty()) {
      return rule(who + ": recv_counts and recv_displs are given for all ranks or for none");
    }
    if (o.operation != Operation::kReduceScatterV) continue;
    if (entry.send_counts != first.send_counts || entry.send_displs != first.send_displs) {
      return rule(who + ": the entries of a reduce_scatterv are equal");
    }
  }
  if (o.operation == Operation::kReduceScatterV) return {};
  for (const std::vector<uint32_t>& group : o.groups) {
    for (uint32_t r = 0; r < group.size(); ++r) {
      if (base::Status s = check_receiver(o, group, r); !s) return s;
    }
  }
  return {};
}

Metadata uneven_metadata(const Options& o, uint64_t size, bool placed) {
  const uint32_t ranks = o.group_ranks();
  const auto share = static_cast<uint32_t>(equal_count(o, size));
  const bool reduces = o.operation == Operation::kReduceScatterV;
  // The factors are prime to most shares, so that all lengths occur; ranks 0 send nothing to
  // themselves.
  const auto count = [&](uint32_t sender, uint32_t receiver) {
    return (3 * sender + 5 * receiver) % (share + 1);
  };
  Metadata out(reduces ? 1 : o.ranks);
  for (const std::vector<uint32_t>& group : o.groups) {
    for (uint32_t own = 0; own < (reduces ? 1 : ranks); ++own) {
      RankSizes& entry = reduces ? out.front() : out[group[own]];
      entry = {};
      for (uint32_t k = 0; k < (gathers(o) ? 1 : ranks); ++k) {
        entry.send_counts.push_back(count(own, k));
        entry.send_displs.push_back(gathers(o) ? own % 3 : (ranks - 1 - k) * share);
      }
      for (uint32_t k = 0; placed && k < ranks; ++k) {
        entry.recv_counts.push_back(count(k, gathers(o) ? 0 : own));
        entry.recv_displs.push_back((ranks - 1 - k) * (share + 1) + 1);
      }
    }
  }
  return out;
}

bool receive_counts_known(const Options& o) {
  return !o.metadata.empty() && !o.metadata.front().recv_counts.empty();
}

bool has_receive_displacements(const Options& o) {
  return !o.metadata.empty() && !o.metadata.front().recv_displs.empty();
}

std::vector<uint32_t> metadata_words(const Options& o, uint32_t rank, uint64_t size) {
  const uint32_t ranks = o.group_ranks();
  const bool reduces = o.operation == Operation::kReduceScatterV;
  const size_t rows = reduces ? 2 : has_receive_displacements(o) ? 4 : 3;
  std::vector<uint32_t> words(rows * ranks);
  const auto row = [&](size_t number) {
    return words.begin() + static_cast<std::ptrdiff_t>(number * ranks);
  };
  if (!reduces) std::fill_n(row(2), ranks, kUnknownCount);
  if (o.metadata.empty()) {
    const uint64_t count = equal_count(o, size);
    for (uint32_t k = 0; k < (gathers(o) ? 1 : ranks); ++k) {
      words[k] = static_cast<uint32_t>(count);
      words[ranks + k] = static_cast<uint32_t>(k * count);
    }
    return words;
  }
  const RankSizes& entry = entry_of(o, rank);
  std::copy(entry.send_counts.begin(), entry.send_counts.end(), row(0));
  std::copy(entry.send_displs.begin(), entry.send_displs.end(), row(1));
  if (reduces) return words;
  std::copy(entry.recv_counts.begin(), entry.recv_counts.end(), row(2));
  if (rows == 4) std::copy(entry.recv_displs.begin(), entry.recv_displs.end(), row(3));
  return words;
}

BlockPlace block_place(const Options& o, const std::vector<uint32_t>& sender_words,
                       const std::vector<uint32_t>& receiver_words, uint32_t sender,
                       uint32_t receiver, uint64_t size) {
  const uint32_t ranks = o.group_ranks();
  BlockPlace place;
  place.count = sender_words[column(o, receiver)];
  place.from = sender_words[ranks + column(o, receiver)];
  if (o.operation == Operation::kReduceScatterV) return place;
  place.to = has_receive_displacements(o)
                 ? receiver_words[3 * ranks + sender]
                 : variable_output_bytes(o, size) / width_of(o) / ranks * sender;
  return place;
}

uint64_t least_size(const Options& o) {
  if (o.metadata.empty()) return 0;
  uint64_t elements = gathers(o) ? 0 : send_extent(o);
  if (o.operation != Operation::kReduceScatterV) elements = std::max(elements, receive_extent(o));
  return elements * width_of(o);
}

uint64_t variable_input_bytes(const Options& o, uint64_t size) {
  if (!gathers(o)) return size;
  const uint64_t elements = o.metadata.empty() ? equal_count(o, size) : send_extent(o);
  return std::max<uint64_t>(elements, 1) * width_of(o);
}

uint64_t variable_output_bytes(const Options& o, uint64_t size) {
  if (o.operation != Operation::kReduceScatterV) return size;
  const uint64_t elements = o.metadata.empty() ? equal_count(o, size) : longest_send(o);
  return std::max<uint64_t>(elements, 1) * width_of(o);
}

}  // namespace nccom
