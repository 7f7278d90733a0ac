// What a rank contributes, its image on the wire, and small helpers of the runtime's loader.
#include <algorithm>
#include <cstring>

#include "base/span.h"
#include "runtime/collectives/ccl.h"

namespace ccl {
namespace {

using contract::AddressMap;
using contract::cc_program::Op;
using contract::cc_program::Record;

constexpr uint32_t kImageMagic = 0x33524343;  // "CCR3"

// Fixed layout, little-endian; every field is 64 bits wide. Register windows are not sent: they
// follow from the position, so a peer cannot point them elsewhere.
struct Image {
  uint64_t magic, global_rank, chip, nc, lnc, gen, cc_count;
  uint64_t cc_index[kMaxCcCores];
  uint64_t signal_base[kMaxCcCores];
  uint64_t signals, src, second, dst, metadata, channel_buffer, channel_bytes;
};

base::Error bad_field(const char* field) {
  return {base::Fault::kUsage, kNrtFailure, "collectives",
          std::string("resources of a peer: field '") + field + "' is out of range"};
}

// Addresses within a chip: what its peer window can express.
bool local(const AddressMap& map, uint64_t address) {
  return map.v2() ? address < 1ull << 44 : address < 1ull << 53 && !map.is_host(address);
}

// CC-cores of the rank's own NeuronCores, each once; unused entries are zero.
const char* check_cc(const Image& image, const AddressMap& map) {
  if (image.cc_count == 0 || image.cc_count > kMaxCcCores) return "cc_count";
  if (image.signals > kSemaphores) return "signals";
  for (uint32_t i = 0; i < kMaxCcCores; ++i) {
    const uint64_t index = image.cc_index[i];
    if (i >= image.cc_count) {
      if (index != 0) return "cc_index";
      if (image.signal_base[i] != 0) return "signal_base";
      continue;
    }
    if (index >= map.topsps()) return "cc_index";
    const uint32_t nc = map.nc_of_topsp(static_cast<uint32_t>(index));
    if (nc < image.nc || nc >= image.nc + image.lnc) return "cc_index";
    if (std::count(image.cc_index, image.cc_index + i, index) != 0) return "cc_index";
    if (image.signal_base[i] > kSemaphores - image.signals) return "signal_base";
  }
  return nullptr;
}

const char* check(const Image& image) {
  if (image.magic != kImageMagic) return "magic";
  if (image.gen < 2 || image.gen > 4) return "gen";
  const AddressMap map{static_cast<contract::Gen>(image.gen)};
  if (image.global_rank > UINT32_MAX) return "global_rank";
  if (image.chip >= map.max_chips()) return "chip";
  if (image.lnc == 0 || image.lnc > contract::kMaxLnc) return "lnc";
  if (image.nc >= map.ncs() || image.nc % image.lnc != 0) return "nc";
  if (const char* field = check_cc(image, map)) return field;
  if (!local(map, image.src)) return "src";
  if (!local(map, image.second)) return "second";
  if (!local(map, image.dst)) return "dst";
  if (!local(map, image.metadata)) return "metadata";
  if (!local(map, image.channel_buffer)) return "channel_buffer";
  if (!local(map, image.channel_bytes)) return "channel_bytes";
  return nullptr;
}

}  // namespace

std::vector<uint8_t> serialize(const RankResources& r) {
  Image image{};
  image.magic = kImageMagic;
  image.global_rank = r.global_rank;
  image.chip = r.chip;
  image.nc = r.nc;
  image.lnc = r.lnc;
  image.gen = static_cast<uint64_t>(r.gen);
  image.cc_count = r.cc_count;
  for (uint32_t i = 0; i < std::min(r.cc_count, kMaxCcCores); ++i) {
    image.cc_index[i] = r.cc[i].index;
    image.signal_base[i] = r.cc[i].signal_base;
  }
  image.signals = r.signals;
  image.src = r.src;
  image.second = r.second;
  image.dst = r.dst;
  image.metadata = r.metadata;
  image.channel_buffer = r.channel_buffer;
  image.channel_bytes = r.channel_bytes;
  std::vector<uint8_t> out(sizeof image);
  std::memcpy(out.data(), &image, sizeof image);
  return out;
}

base::Result<RankResources> deserialize(const uint8_t* data, size_t size) {
  if (size != sizeof(Image)) return bad_field("size");
  const Image image = base::load<Image>(data);
  if (const char* field = check(image)) return bad_field(field);
  RankResources r;
  r.global_rank = static_cast<uint32_t>(image.global_rank);
  r.chip = static_cast<uint32_t>(image.chip);
  r.nc = static_cast<uint32_t>(image.nc);
  r.lnc = static_cast<uint32_t>(image.lnc);
  r.gen = static_cast<contract::Gen>(image.gen);
  r.cc_count = static_cast<uint32_t>(image.cc_count);
  for (uint32_t i = 0; i < r.cc_count; ++i) {
    r.cc[i].index = static_cast<uint32_t>(image.cc_index[i]);
    r.cc[i].signal_base = static_cast<uint32_t>(image.signal_base[i]);
  }
  r.signals = static_cast<uint32_t>(image.signals);
  r.src = image.src;
  r.second = image.second;
  r.dst = image.dst;
  r.metadata = image.metadata;
  r.channel_buffer = image.channel_buffer;
  r.channel_bytes = image.channel_bytes;
  return r;
}

void relocate(CcProgram* program, uint32_t base) {
  for (Record& record : *program) {
    const auto op = static_cast<Op>(record.op);
    const bool jumps = op == Op::kBranch || op == Op::kLoop || op == Op::kBranchLess;
    if (jumps || op == Op::kFork) record.imm += base;
  }
}

uint32_t ring_copies(uint64_t descriptors) {
  using contract::ring::kLeast;
  using contract::ring::kMultiple;
  if (descriptors == 0) return 0;
  // Two copies at least: a doorbell for a whole lap would leave tail = head, which looks empty.
  uint32_t copies = 2;
  while (descriptors * copies % kMultiple != 0 || descriptors * copies < kLeast) ++copies;
  return copies;
}

CcProgram barrier_program(uint64_t cell, uint32_t members, const Completion& completion) {
  Record barrier;
  barrier.op = static_cast<uint8_t>(Op::kBarrier);
  barrier.imm = members;
  barrier.address = cell;
  Record done;
  done.op = static_cast<uint8_t>(Op::kDone);
  done.imm = completion.value;
  done.address = completion.address;
  return {barrier, done};
}

}  // namespace ccl
