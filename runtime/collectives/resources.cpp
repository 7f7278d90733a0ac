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

constexpr uint32_t kImageMagic = 0x31524343;  // "CCR1"

// Fixed layout, little-endian; every field is 64 bits wide.
struct Image {
  uint64_t magic, global_rank, chip, nc, hbm, gen, cc_core, cc_window, semaphore_base, queue;
  uint64_t udma[contract::kDmaPerNc];
  uint64_t broadcast, one_word, src, dst, channel_buffer;
};

base::Error bad_field(const char* field) {
  return {base::Fault::kUsage, kNrtFailure, "collectives",
          std::string("resources of a peer: field '") + field + "' is out of range"};
}

}  // namespace

RankResources resources_of(contract::Gen gen, uint32_t global_rank, uint32_t chip, uint32_t nc,
                           uint32_t cc_core) {
  const AddressMap map{gen};
  RankResources r;
  r.global_rank = global_rank;
  r.chip = chip;
  r.nc = nc;
  r.hbm = map.hbm_of_nc(nc);
  r.gen = gen;
  r.cc_core = cc_core;
  r.cc_window = map.topsp(cc_core).device;
  for (uint32_t e = 0; e < contract::kDmaPerNc; ++e) {
    r.udma[e] = map.udma(nc * contract::kDmaPerNc + e).device;
  }
  r.broadcast = map.broadcast(nc).device;
  return r;
}

std::vector<uint8_t> serialize(const RankResources& r) {
  Image image{kImageMagic,
              r.global_rank,
              r.chip,
              r.nc,
              r.hbm,
              static_cast<uint64_t>(r.gen),
              r.cc_core,
              r.cc_window,
              r.semaphore_base,
              r.queue,
              {},
              r.broadcast,
              r.one_word,
              r.src,
              r.dst,
              r.channel_buffer};
  std::copy(r.udma.begin(), r.udma.end(), image.udma);
  std::vector<uint8_t> out(sizeof image);
  std::memcpy(out.data(), &image, sizeof image);
  return out;
}

base::Result<RankResources> deserialize(const uint8_t* data, size_t size) {
  if (size != sizeof(Image)) return bad_field("size");
  const Image image = base::load<Image>(data);
  if (image.magic != kImageMagic) return bad_field("magic");
  if (image.gen < 2 || image.gen > 4) return bad_field("gen");
  const auto gen = static_cast<contract::Gen>(image.gen);
  const AddressMap map{gen};
  if (image.global_rank > UINT32_MAX) return bad_field("global_rank");
  if (image.chip >= 1024) return bad_field("chip");
  if (image.nc >= map.ncs()) return bad_field("nc");
  if (image.hbm >= map.hbms()) return bad_field("hbm");
  if (image.cc_core >= map.topsps()) return bad_field("cc_core");
  if (image.semaphore_base >= 256) return bad_field("semaphore_base");
  if (image.queue >= contract::kQueuesPerEngine) return bad_field("queue");
  // Register windows follow from the position; a peer cannot point them elsewhere.
  RankResources r =
      resources_of(gen, static_cast<uint32_t>(image.global_rank), static_cast<uint32_t>(image.chip),
                   static_cast<uint32_t>(image.nc), static_cast<uint32_t>(image.cc_core));
  if (image.cc_window != r.cc_window) return bad_field("cc_window");
  if (!std::equal(r.udma.begin(), r.udma.end(), image.udma)) return bad_field("udma");
  if (image.broadcast != 0 && image.broadcast != r.broadcast) return bad_field("broadcast");
  r.hbm = static_cast<uint32_t>(image.hbm);
  r.semaphore_base = static_cast<uint32_t>(image.semaphore_base);
  r.queue = static_cast<uint32_t>(image.queue);
  r.broadcast = image.broadcast;
  r.one_word = image.one_word;
  r.src = image.src;
  r.dst = image.dst;
  r.channel_buffer = image.channel_buffer;
  return r;
}

void relocate(std::vector<Record>* program, uint32_t base) {
  for (Record& record : *program) {
    const auto op = static_cast<Op>(record.op);
    if (op == Op::kBranch || op == Op::kLoop) record.imm += base;
  }
}

uint32_t ring_copies(uint64_t descriptors) {
  constexpr uint64_t kMultiple = 16;  // hw-registers.md 3.5
  constexpr uint64_t kLeast = 32;
  if (descriptors == 0) return 0;
  // Two copies at least: a doorbell for a whole lap would leave tail = head, which looks empty.
  uint32_t copies = 2;
  while (descriptors * copies % kMultiple != 0 || descriptors * copies < kLeast) ++copies;
  return copies;
}

std::vector<Record> barrier_program(uint64_t cell, uint32_t members, const Completion& completion) {
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
