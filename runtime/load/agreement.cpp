#include "runtime/load/agreement.h"

#include <algorithm>

#include "base/span.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

void put(ccl::Blob* blob, uint32_t value) {
  const size_t at = blob->size();
  blob->resize(at + sizeof value);
  base::store(blob->data() + at, value);
}

void put(ccl::Blob* blob, const std::string& text) {
  put(blob, static_cast<uint32_t>(text.size()));
  blob->insert(blob->end(), text.begin(), text.end());
}

void put(ccl::Blob* blob, const std::vector<uint32_t>& list) {
  put(blob, static_cast<uint32_t>(list.size()));
  for (const uint32_t value : list) put(blob, value);
}

// Takes what put() wrote; after anything malformed it has failed and gives nothing more.
class BlobReader {
 public:
  explicit BlobReader(const ccl::Blob& blob) : blob_(blob) {}

  bool complete() const { return !failed_ && at_ == blob_.size(); }
  bool failed() const { return failed_; }

  uint32_t number() {
    if (!has(sizeof(uint32_t))) return 0;
    at_ += sizeof(uint32_t);
    return base::load<uint32_t>(blob_.data() + at_ - sizeof(uint32_t));
  }
  std::string text() {
    const uint32_t size = number();
    if (!has(size)) return {};
    at_ += size;
    return {blob_.begin() + static_cast<std::ptrdiff_t>(at_ - size),
            blob_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }
  std::vector<uint32_t> list() {
    const uint64_t size = number();
    std::vector<uint32_t> values;
    if (!has(size * sizeof(uint32_t))) return values;
    for (uint64_t i = 0; i < size; ++i) values.push_back(number());
    return values;
  }

 private:
  bool has(uint64_t bytes) {
    failed_ = failed_ || bytes > blob_.size() - at_;
    return !failed_;
  }

  const ccl::Blob& blob_;
  size_t at_ = 0;
  bool failed_ = false;
};

bool contains(const neff::RankList& ranks, uint32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

base::Error differ(uint32_t a, uint32_t b, const std::string& what) {
  return error(NRT_FAILURE,
               what + ". Check if ranks " + std::to_string(a) + " and " + std::to_string(b) +
                   " are using the same neff",
               base::Fault::kProgram);
}

// Ranks `x` and `y` of `all`; those of different groups need to agree on the order only.
base::Status compare(const std::vector<ProgramSummary>& all, uint32_t x, uint32_t y) {
  const ProgramSummary& a = all[x];
  const ProgramSummary& b = all[y];
  if (a.sequence.size() != b.sequence.size()) {
    return differ(x, y,
                  "mismatching number of cc ops, expected " + std::to_string(a.sequence.size()) +
                      " received " + std::to_string(b.sequence.size()));
  }
  const std::string ranks = "ranks " + std::to_string(x) + " and " + std::to_string(y);
  for (size_t i = 0; i < a.sequence.size(); ++i) {
    const ProgramSummary::Operation& mine = a.operations[a.sequence[i]];
    const ProgramSummary::Operation& theirs = b.operations[b.sequence[i]];
    if (!contains(mine.ranks, y) && !contains(theirs.ranks, x)) continue;
    const std::string which =
        "collective " + std::to_string(i) + " of " + std::to_string(a.sequence.size());
    if (mine.text != theirs.text) {
      return differ(x, y,
                    which + " differs: rank " + std::to_string(x) + " has " + mine.text +
                        "; rank " + std::to_string(y) + " has " + theirs.text);
    }
    if (mine.plan != theirs.plan) {
      return error(NRT_FAILURE, which + " (" + mine.text +
                                    ") is carried out in different ways by " + ranks +
                                    ": check their NCCOM_* and NEURON_* variables");
    }
  }
  if (a.sequence != b.sequence) {
    return differ(x, y, "the collectives of " + ranks + " repeat in different orders");
  }
  return {};
}

}  // namespace

uint64_t fingerprint(const ProgramSummary& summary) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 1099511628211ull; };
  for (const ProgramSummary::Operation& operation : summary.operations) {
    for (const std::string* text : {&operation.text, &operation.plan}) {
      for (const char c : *text) add(static_cast<uint8_t>(c));
      add(0);
    }
  }
  for (const uint32_t index : summary.sequence) {
    for (unsigned shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(index >> shift));
  }
  return hash;
}

ccl::Blob encode(const ProgramSummary& summary) {
  ccl::Blob blob;
  put(&blob, static_cast<uint32_t>(summary.operations.size()));
  for (const ProgramSummary::Operation& operation : summary.operations) {
    put(&blob, operation.text);
    put(&blob, operation.plan);
    put(&blob, operation.ranks);
  }
  put(&blob, summary.sequence);
  return blob;
}

base::Result<ProgramSummary> decode_summary(const ccl::Blob& blob) {
  BlobReader from(blob);
  ProgramSummary summary;
  const uint32_t operations = from.number();
  for (uint32_t i = 0; i < operations && !from.failed(); ++i) {
    ProgramSummary::Operation operation;
    operation.text = from.text();
    operation.plan = from.text();
    operation.ranks = from.list();
    summary.operations.push_back(std::move(operation));
  }
  summary.sequence = from.list();
  const bool known = std::all_of(summary.sequence.begin(), summary.sequence.end(),
                                 [&](uint32_t i) { return i < summary.operations.size(); });
  if (!from.complete() || !known) {
    return error(NRT_FAILURE, "A peer sent a malformed summary of its program", base::Fault::kIo);
  }
  return summary;
}

base::Status check_agreement(const std::vector<ProgramSummary>& summaries) {
  std::vector<uint64_t> prints;
  for (const ProgramSummary& summary : summaries) prints.push_back(fingerprint(summary));
  for (uint32_t x = 0; x < summaries.size(); ++x) {
    for (uint32_t y = x + 1; y < summaries.size(); ++y) {
      if (prints[x] == prints[y]) continue;
      if (base::Status s = compare(summaries, x, y); !s.ok()) return s;
    }
  }
  return {};
}

}  // namespace nrt
