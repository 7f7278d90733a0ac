#include "runtime/load/dma_lowering.h"

#include <algorithm>
#include <string>

#include "base/span.h"
#include "contract/regs/sem.h"
#include "runtime/load/dma_transpose.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

using contract::Descriptor;
namespace desc = contract::desc;

constexpr uint32_t kRingId = 1;  // the check is masked, rings are replayed
constexpr uint32_t kPacketPieces = desc::kMaxPacketDescriptors - 1;  // and a metadata descriptor

// One descriptor-sized piece of a transfer: a destination and as many sources as the operation has,
// their offsets from `first` in Work::offsets, destination last.
struct Piece {
  uint32_t transfer = 0;
  uint32_t elements = 0;  // bytes for copies
  size_t first = 0;
};

struct Work {
  std::vector<const neff::DmaTransfer*> transfers;
  std::vector<TransposeBlock> blocks;  // Piece::first is the number of one
  std::vector<Piece> pieces;
  std::vector<uint64_t> offsets;
};

bool computes(const neff::DmaTransfer& t) {
  return t.op != neff::DmaOp::kCopy;
}

contract::DType dtype(neff::DataType t) {
  return contract::isa::dtype_of(t);
}

base::Status split_copy(const neff::DmaTransfer& t, uint32_t index, uint32_t packet_bytes,
                        Work* work) {
  const uint64_t limit = std::min<uint64_t>(packet_bytes, desc::kMaxLength);
  neff::PieceCursor cursor(t.sources[0].pattern, t.destination.pattern, limit);
  neff::Piece piece{};
  while (cursor.next(&piece)) {
    work->pieces.push_back({index, static_cast<uint32_t>(piece.bytes), work->offsets.size()});
    work->offsets.push_back(piece.from);
    work->offsets.push_back(piece.to);
  }
  return {};
}

// Walks the runs of one operand of an element-wise operation in units of elements.
class ElementCursor {
 public:
  ElementCursor(const neff::AccessPattern& pattern, uint64_t element_bytes)
      : cursor_(pattern), element_bytes_(element_bytes) {}

  // Elements left in the current run; 0 at the end.
  uint64_t available() {
    while (run_.bytes == 0) {
      if (!cursor_.next(&run_)) return 0;
    }
    return run_.bytes / element_bytes_;
  }
  uint64_t take(uint64_t elements) {
    const uint64_t at = run_.offset;
    run_.offset += elements * element_bytes_;
    run_.bytes -= elements * element_bytes_;
    return at;
  }

 private:
  neff::RunCursor cursor_;
  neff::Run run_{0, 0};
  uint64_t element_bytes_;
};

base::Status split_compute(const neff::DmaTransfer& t, uint32_t index, uint32_t packet_bytes,
                           Work* work) {
  const uint64_t destination_bytes = neff::data_type_bytes(t.destination.dtype);
  uint64_t widest = destination_bytes;
  std::vector<ElementCursor> cursors;
  for (const neff::DmaOperand& source : t.sources) {
    if (source.dtype != t.sources[0].dtype) {
      return unsupported(NRT_INVALID, "A DMA reduction with sources of different data types");
    }
    const uint64_t bytes = neff::data_type_bytes(source.dtype);
    widest = std::max(widest, bytes);
    cursors.emplace_back(source.pattern, bytes);
  }
  cursors.emplace_back(t.destination.pattern, destination_bytes);
  const uint64_t limit = std::min<uint64_t>(packet_bytes, desc::kMaxLength) / widest;
  const uint64_t total = t.destination.pattern.bytes() / destination_bytes;
  for (uint64_t done = 0; done < total;) {
    uint64_t n = std::min(limit, total - done);
    for (ElementCursor& cursor : cursors) n = std::min(n, cursor.available());
    if (n == 0) {
      return error(NRT_INVALID, "A run of a DMA operation holds a part of an element",
                   base::Fault::kProgram);
    }
    work->pieces.push_back({index, static_cast<uint32_t>(n), work->offsets.size()});
    for (ElementCursor& cursor : cursors) work->offsets.push_back(cursor.take(n));
    done += n;
  }
  return {};
}

// Appends descriptors for one queue.
class Emitter {
 public:
  Emitter(const DmaContext& context, const Work& work, QueueImage* image)
      : context_(context), work_(work), image_(*image) {}

  void add(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      const Piece& piece = work_.pieces[i];
      const neff::DmaTransfer& t = *work_.transfers[piece.transfer];
      if (t.op == neff::DmaOp::kTranspose) {
        close_packet();
        add_transpose(work_.blocks[piece.first], t);
      } else if (computes(t)) {
        close_packet();
        add_compute(piece, t);
      } else {
        add_copy(piece, t);
      }
    }
    close_packet();
    if (last_data_ != kNone) {
      image_.m2s.descriptors[last_data_].w1 |= desc::kWriteBarrier;
    }
  }

  // A packet of 4 bytes that writes 1 to a semaphore's increment alias or to an event.
  void add_signal(uint64_t address) {
    image_.m2s.descriptors.push_back(desc::tx_copy(context_.one_word, 4, kRingId));
    image_.s2m.descriptors.push_back(desc::rx(address, 4, kRingId));
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  void place(DescriptorList* list, Descriptor d, const neff::DmaOperand& operand, uint64_t offset) {
    const VariableAddress& variable = context_.variables[operand.variable];
    d.address = variable.base + offset;
    if (variable.io) {
      list->io.push_back(
          {static_cast<uint32_t>(list->descriptors.size()), operand.variable, offset});
    }
    list->descriptors.push_back(d);
  }

  void add_copy(const Piece& piece, const neff::DmaTransfer& t) {
    if (in_packet_ > 0 &&
        (in_packet_ == kPacketPieces || packet_size_ + piece.elements > context_.packet_bytes)) {
      close_packet();
    }
    const uint32_t first = in_packet_ == 0 ? desc::kFirst : 0;
    last_data_ = image_.m2s.descriptors.size();
    place(&image_.m2s, desc::tx_copy(0, piece.elements, kRingId, first), t.sources[0],
          work_.offsets[piece.first]);
    place(&image_.s2m, desc::rx(0, piece.elements, kRingId), t.destination,
          work_.offsets[piece.first + 1]);
    ++in_packet_;
    packet_size_ += piece.elements;
  }

  void add_transpose(const TransposeBlock& block, const neff::DmaTransfer& t) {
    contract::DmaTranspose turn;
    turn.rows = block.rows;
    turn.element_bytes = static_cast<uint8_t>(t.transpose_element_size);
    image_.m2s.descriptors.push_back(turn.pack(kRingId));
    for (const neff::Run& run : block.from) {
      last_data_ = image_.m2s.descriptors.size();
      Descriptor d = desc::tx_copy(0, static_cast<uint32_t>(run.bytes), kRingId, 0);
      d.w1 = desc::kOpTranspose;
      place(&image_.m2s, d, t.sources[0], run.offset);
    }
    image_.m2s.descriptors.back().w0 |= desc::kLast;
    for (const neff::Run& run : block.to) {
      place(&image_.s2m, desc::rx(0, static_cast<uint32_t>(run.bytes), kRingId), t.destination,
            run.offset);
    }
  }

  void add_compute(const Piece& piece, const neff::DmaTransfer& t) {
    contract::DmaCompute op;
    op.src = dtype(t.sources[0].dtype);
    op.dst = dtype(t.destination.dtype);
    op.sources = static_cast<uint8_t>(t.sources.size());
    op.op = t.op == neff::DmaOp::kFma   ? contract::ReduceOp::kFma
            : t.op == neff::DmaOp::kMin ? contract::ReduceOp::kMin
            : t.op == neff::DmaOp::kMax ? contract::ReduceOp::kMax
                                        : contract::ReduceOp::kAdd;
    if (t.constant_dtype) set_constant(t, &op);
    const auto bytes_of = [&](neff::DataType type) {
      return static_cast<uint32_t>(piece.elements * neff::data_type_bytes(type));
    };
    bool open = true;  // the metadata descriptor that opens the packet carries FIRST
    for (size_t k = 0; k < t.sources.size(); ++k) {
      if (t.op == neff::DmaOp::kFma && (k == 0 || t.sources[k].scale != t.sources[k - 1].scale)) {
        const auto scale = static_cast<float>(t.sources[k].scale);
        op.has_constant = true;
        op.constant_bits = base::load<uint32_t>(&scale);
        open = open || k > 0;
      }
      if (open) {
        Descriptor meta = op.pack(kRingId);
        if (k > 0) meta.w0 &= ~desc::kFirst;
        image_.m2s.descriptors.push_back(meta);
        open = false;
      }
      const uint32_t last = k + 1 == t.sources.size() ? desc::kLast : 0;
      last_data_ = image_.m2s.descriptors.size();
      Descriptor d = desc::tx_copy(0, bytes_of(t.sources[k].dtype), kRingId, last);
      d.w1 = (d.w1 & ~desc::kOpMask) | (desc::kOpCompute & desc::kOpMask) |
             static_cast<uint32_t>(op.op) << 20;
      place(&image_.m2s, d, t.sources[k], work_.offsets[piece.first + k]);
    }
    place(&image_.s2m, desc::rx(0, bytes_of(t.destination.dtype), kRingId), t.destination,
          work_.offsets[piece.first + t.sources.size()]);
  }

  static void set_constant(const neff::DmaTransfer& t, contract::DmaCompute* op) {
    op->has_constant = true;
    if (*t.constant_dtype == neff::DataType::kInt32) {
      op->constant_kind = 1;
      op->constant_bits = static_cast<uint32_t>(static_cast<int32_t>(t.constant));
    } else if (*t.constant_dtype == neff::DataType::kUint32) {
      op->constant_kind = 2;
      op->constant_bits = static_cast<uint32_t>(t.constant);
    } else {
      const auto value = static_cast<float>(t.constant);
      op->constant_bits = base::load<uint32_t>(&value);
    }
  }

  void close_packet() {
    if (in_packet_ > 0) image_.m2s.descriptors.back().w0 |= desc::kLast;
    in_packet_ = 0;
    packet_size_ = 0;
  }

  const DmaContext& context_;
  const Work& work_;
  QueueImage& image_;
  size_t last_data_ = kNone;
  uint32_t in_packet_ = 0;
  uint64_t packet_size_ = 0;
};

base::Status split(const DmaContext& context, const neff::DmaElement& element, Work* work) {
  for (const neff::DmaTransfer& t : element.transfers) {
    const auto index = static_cast<uint32_t>(work->transfers.size());
    work->transfers.push_back(&t);
    if (t.op == neff::DmaOp::kTranspose) {
      auto blocks = transpose_blocks(t);
      if (!blocks) return blocks.error();
      for (TransposeBlock& block : *blocks) {
        work->pieces.push_back({index, 0, work->blocks.size()});
        work->blocks.push_back(std::move(block));
      }
      continue;
    }
    base::Status status = computes(t) ? split_compute(t, index, context.packet_bytes, work)
                                      : split_copy(t, index, context.packet_bytes, work);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

base::Result<std::vector<DoorbellCounts>> lower_block(
    const DmaContext& context, const std::vector<const neff::DmaElement*>& elements,
    std::vector<QueueImage>* queues) {
  const size_t n = queues->size();
  std::vector<DoorbellCounts> before(n);
  for (size_t q = 0; q < n; ++q) {
    before[q].m2s = static_cast<uint32_t>((*queues)[q].m2s.descriptors.size());
    before[q].s2m = static_cast<uint32_t>((*queues)[q].s2m.descriptors.size());
  }
  for (const neff::DmaElement* element : elements) {
    if (element->event && n > 1) {
      return unsupported(NRT_INVALID, "An event as completion signal of more than one queue");
    }
    if (!element->remote_semaphores.empty() && context.remote_increment == 0) {
      return error(NRT_INVALID, "remote_semaphores need a logical core of two cores",
                   base::Fault::kProgram);
    }
    Work work;
    if (base::Status status = split(context, *element, &work); !status.ok()) return status.error();
    const size_t pieces = work.pieces.size();
    for (size_t q = 0; q < n; ++q) {
      Emitter emitter(context, work, &(*queues)[q]);
      emitter.add((pieces * q + n - 1) / n, (pieces * (q + 1) + n - 1) / n);
      if (element->semaphore) {
        emitter.add_signal(context.semaphore_increment +
                           uint64_t{contract::sem::kIncStride} * *element->semaphore);
      }
      for (const uint8_t remote : element->remote_semaphores) {
        emitter.add_signal(context.remote_increment + uint64_t{contract::sem::kIncStride} * remote);
      }
      if (element->event)
        emitter.add_signal(context.events +
                           uint64_t{contract::sem::kEventStride} * *element->event);
    }
  }
  std::vector<DoorbellCounts> counts(n);
  for (size_t q = 0; q < n; ++q) {
    counts[q].m2s = static_cast<uint32_t>((*queues)[q].m2s.descriptors.size()) - before[q].m2s;
    counts[q].s2m = static_cast<uint32_t>((*queues)[q].s2m.descriptors.size()) - before[q].s2m;
  }
  return counts;
}

uint32_t packet_bytes_from_environment() {
  constexpr uint64_t kDefault = 4096;  // spec/neff.md 3.5.3
  const uint64_t bytes =
      environment_number("NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", kDefault, desc::kMaxLength);
  return static_cast<uint32_t>(std::max(bytes, kDefault));
}

}  // namespace nrt
