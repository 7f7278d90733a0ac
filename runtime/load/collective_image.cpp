#include "runtime/load/collective_image.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "contract/regs/cc.h"
#include "contract/regs/sem.h"
#include "driver/ndl/ndl.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// Length of the shortest part that, repeated, is all of the sequence.
size_t period_of(const std::vector<uint32_t>& sequence) {
  for (size_t period = 1; period < sequence.size(); ++period) {
    if (sequence.size() % period != 0) continue;
    if (std::equal(sequence.begin() + static_cast<ptrdiff_t>(period), sequence.end(),
                   sequence.begin())) {
      return period;
    }
  }
  return sequence.size();
}

// Register writes that place a program at record `at`, for operation `op_index`. Word by word: the
// CC-core's window takes 32-bit stores (docs/hardware-contract.md 6).
std::vector<RegisterWrite> program_writes(const CcCore& cc, const ccl::CcProgram& records,
                                          uint32_t op_index, uint32_t at) {
  constexpr uint32_t kWords = sizeof(contract::cc_program::Record) / sizeof(uint32_t);
  const uint64_t program =
      cc.window.bar0 + contract::topsp::kProgram + at * sizeof(contract::cc_program::Record);
  std::vector<RegisterWrite> writes;
  for (size_t i = 0; i < records.size(); ++i) {
    uint32_t words[kWords];
    std::memcpy(words, &records[i], sizeof words);
    for (uint32_t w = 0; w < kWords; ++w) {
      writes.push_back({program + (i * kWords + w) * sizeof(uint32_t), words[w]});
    }
  }
  const uint64_t entry = cc.window.bar0 + contract::cc::kOp + op_index * contract::cc::kOpStride;
  writes.push_back({entry + contract::cc::kOpEntry, at});
  writes.push_back({entry + contract::cc::kOpArgument, 0});
  return writes;
}

}  // namespace

// Fills a CollectiveImage, which leaves this file complete or not at all.
class CollectiveImage::Loader {
 public:
  Loader(const CollectiveContext& context, CollectiveOffer* offer) : c_(context), offer_(*offer) {}

  base::Result<CollectiveImage> run(PeerResources* peers) {
    if (base::Status s = lower(peers); !s.ok()) return s.error();
    if (base::Status s = make_rings(); !s.ok()) return s.error();
    if (base::Status s = load_blocks(); !s.ok()) return s.error();
    if (base::Status s = clear_semaphores(); !s.ok()) return s.error();
    if (base::Status s = load_programs(); !s.ok()) return s.error();
    if (base::Status s = load_barrier(); !s.ok()) return s.error();
    return std::move(image_);
  }

 private:
  using Operation = CollectiveProgram::Operation;

  base::Status lower(PeerResources* peers) {
    for (uint32_t i = 0; i < c_.program.operations.size(); ++i) {
      const Operation& operation = c_.program.operations[i];
      const CollectiveOffer::Operation& own = offer_.operation(i);
      const uint32_t own_index = c_.program.groups[operation.group].own;
      std::vector<ccl::RankResources>& members = (*peers)[i];
      members[own_index] = own.resources;
      ccl::PlanOptions options = offer_.options().of_stream(operation.op->stream_id);
      for (uint32_t cc_index = 0; cc_index < own.resources.cc_count; ++cc_index) {
        options.triggers[cc_index] = c_.triggers.trigger_word(c_.program, i, cc_index);
      }
      auto lowered = ccl::plan(own.request, offer_.group(operation.group), members, own_index,
                               operation.completion, options);
      if (!lowered) return lowered.error();
      image_.algorithms_.push_back(lowered->algorithm);
      lowered_.push_back(std::move(*lowered));
      members.clear();
    }
    return {};
  }

  // Per stream_queue and engine: the operations of one execution one after the other, once as far
  // as they repeat.
  base::Status make_rings() {
    for (uint32_t l = 0; l < c_.program.stream_queues.size(); ++l) {
      const StreamQueue& stream_queue = c_.program.stream_queues[l];
      std::vector<uint32_t> sequence;
      for (const uint32_t i : c_.program.streams[stream_queue.stream].sequence) {
        if (c_.program.operations[i].stream_queue == l) sequence.push_back(i);
      }
      sequence.resize(period_of(sequence));
      for (uint32_t e = 0; e < c_.core.dma_engines(); ++e) {
        if (base::Status s = make_ring(e, stream_queue, sequence); !s.ok()) return s;
      }
      if (base::Status s = make_block_rings(stream_queue, sequence); !s.ok()) return s;
    }
    for (ccl::Lowered& lowered : lowered_) lowered.rings.clear();
    return {};
  }

  base::Status make_ring(uint32_t engine, const StreamQueue& stream_queue,
                         const std::vector<uint32_t>& sequence) {
    HardwareQueue queue;
    queue.engine = engine;
    queue.queue = stream_queue.queue;
    queue.service_class = stream_queue.priority;
    queue.s2m.receive = true;
    for (const uint32_t i : sequence) {
      for (ccl::EngineRing& ring : lowered_[i].rings) {
        if (ring.engine != engine) continue;
        auto& m2s = queue.m2s.period.descriptors;
        auto& s2m = queue.s2m.period.descriptors;
        if (sequence.size() == 1) {  // large ones are alone, and not copied
          m2s = std::move(ring.m2s);
          s2m = std::move(ring.s2m);
          continue;
        }
        m2s.insert(m2s.end(), ring.m2s.begin(), ring.m2s.end());
        s2m.insert(s2m.end(), ring.s2m.begin(), ring.s2m.end());
      }
    }
    if (queue.m2s.period.descriptors.empty()) return {};
    for (Ring* ring : {&queue.m2s, &queue.s2m}) {
      const MemoryPlace place = c_.core.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE);
      if (base::Status st = ring->create(c_.core.device_ptr(), place); !st.ok()) return st;
      if (base::Status st = ring->upload(); !st.ok()) return st;
      ring->period = {};
    }
    image_.queues_.push_back(std::move(queue));
    return {};
  }

  // Rings that the CC-cores fill: empty here, as long as the most demanding operation needs.
  base::Status make_block_rings(const StreamQueue& stream_queue,
                                const std::vector<uint32_t>& sequence) {
    std::vector<ccl::BlockRing> rings(c_.core.dma_engines());
    for (const uint32_t i : sequence) {
      for (const ccl::BlockRing& ring : lowered_[i].block_rings) {
        rings[ring.engine].m2s = std::max(rings[ring.engine].m2s, ring.m2s);
        rings[ring.engine].s2m = std::max(rings[ring.engine].s2m, ring.s2m);
      }
    }
    for (uint32_t e = 0; e < rings.size(); ++e) {
      if (rings[e].m2s == 0) continue;
      HardwareQueue queue;
      queue.engine = e;
      queue.queue = *stream_queue.block_queue;
      queue.service_class = stream_queue.priority;
      queue.s2m.receive = true;
      if (base::Status s = make_block_ring(&queue.m2s, rings[e].m2s); !s.ok()) return s;
      if (base::Status s = make_block_ring(&queue.s2m, rings[e].s2m); !s.ok()) return s;
      image_.queues_.push_back(std::move(queue));
    }
    return {};
  }

  base::Status make_block_ring(Ring* ring, uint32_t in_flight) const {
    ring->length = contract::ring::length_for(in_flight + 1);  // never full: that looks empty
    auto buffer =
        DeviceBuffer::allocate(c_.core.device_ptr(), ring->length * sizeof(contract::Descriptor),
                               c_.core.place(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE));
    if (!buffer) return buffer.error();
    ring->memory = std::move(*buffer);
    return {};
  }

  base::Status load_blocks() {
    for (uint32_t i = 0; i < lowered_.size(); ++i) {
      std::vector<contract::cc_program::Block>& blocks = lowered_[i].blocks;
      if (blocks.empty()) continue;
      const base::ConstByteSpan image{reinterpret_cast<const uint8_t*>(blocks.data()),
                                      blocks.size() * sizeof blocks[0]};
      if (base::Status s = offer_.operation(i).blocks.write(0, image); !s.ok()) return s;
      blocks.clear();
    }
    return {};
  }

  base::Status clear_semaphores() {
    std::vector<RegisterWrite> clears;
    for (const CollectiveOffer::Semaphores& s : offer_.semaphores()) {
      for (uint32_t cc_index = 0; cc_index < s.claims.size(); ++cc_index) {
        const uint64_t block = c_.triggers.cc(s.stream, cc_index).window.bar0 + contract::sem::kSet;
        for (uint32_t i = 0; i < s.count; ++i) {
          clears.push_back(
              {block + uint64_t{contract::sem::kSetStride} * (s.base(cc_index) + i), 0});
        }
      }
    }
    return c_.core.device().write_registers(clears);
  }

  base::Status load_programs() {
    for (uint32_t i = 0; i < lowered_.size(); ++i) {
      const uint32_t stream = c_.program.operations[i].op->stream_id;
      for (uint32_t cc_index = 0; cc_index < c_.triggers.cc_count(stream); ++cc_index) {
        ccl::CcProgram& program = lowered_[i].programs[cc_index];
        if (program.empty()) continue;
        base::Status s = place_program(&c_.triggers.cc(stream, cc_index), std::move(program),
                                       c_.triggers.op_index(i, cc_index));
        if (!s.ok()) return s;
      }
    }
    return {};
  }

  base::Status place_program(CcCore* cc, ccl::CcProgram records, uint32_t op_index) {
    const auto count = static_cast<uint32_t>(records.size());
    auto claim = Claim::take(&cc->records, count);
    if (!claim) {
      return error(NRT_RESOURCE, "The CC-core's program memory is full: " + std::to_string(count) +
                                     " records do not fit");
    }
    const uint32_t at = claim->first();
    image_.records_.push_back(std::move(*claim));
    ccl::relocate(&records, at);
    return c_.core.device().write_registers(program_writes(*cc, records, op_index, at));
  }

  base::Status load_barrier() {
    auto root = c_.communicator.position(0);
    if (!root) return root.error();
    const contract::AddressMap& map = c_.core.map();
    const uint32_t world = c_.communicator.world();
    // The cell lives in the last CC-core of rank 0's first NeuronCore; the number of members picks
    // it, so worlds of different size use different cells. Those whose sizes differ by a multiple
    // of their number share one: if both wait there at once, the CC-core reports an error
    // (docs/hardware-contract.md 5).
    const uint32_t per_nc = map.topsps_per_nc();
    uint64_t cell = map.topsp(root->nc * per_nc + per_nc - 1).device + contract::cc::kBarrier +
                    (world % contract::cc_program::kBarrierCells) * contract::cc::kBarrierStride;
    if (root->chip != c_.core.device().chip()) cell = map.peer_address(root->chip, cell);
    ccl::Completion completion;
    completion.address = map.nc_semaphores(c_.core.nc()) + contract::sem::kInc +
                         uint64_t{contract::sem::kIncStride} * c_.triggers.barrier_semaphore();
    return place_program(&c_.core.barrier_cc(), ccl::barrier_program(cell, world, completion),
                         c_.triggers.barrier_op());
  }

  const CollectiveContext& c_;
  CollectiveOffer& offer_;
  std::vector<ccl::Lowered> lowered_;  // by operation
  CollectiveImage image_;
};

base::Result<CollectiveImage> CollectiveImage::load(const CollectiveContext& context,
                                                    CollectiveOffer* offer, PeerResources peers) {
  try {
    return Loader(context, offer).run(&peers);
  } catch (const std::bad_alloc&) {  // peers are to hear of it
    return error(NRT_RESOURCE, "Out of host memory", base::Fault::kResource);
  }
}

}  // namespace nrt
