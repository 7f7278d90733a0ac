// Untrusted CC programs: any bytes as the program memory of a CC-core, as the Blocks that BLOCK
// records name, and as the words that those name. The firmware runs on a chip of its own (CcChip).
//
// The input is a Head, 1 KiB for the start of the chip's memory, and records. Invariants: a step
// returns; a core in error has a code of the contract and has posted one ERROR notification; a
// BLOCK record reads and writes nothing outside of what its Block declares, moves exactly the tile,
// and adds what it promised to its semaphore; after a reset the core runs a good program.
#include <array>
#include <cstring>

#include "arch/contract/address_map.h"
#include "firmware/cc/interpreter.h"
#include "tests/fuzz/cc_chip.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"

namespace fuzz {
namespace {

namespace cc = firmware::cc;
namespace desc = contract::desc;
namespace program = contract::cc_program;
using contract::CcError;
using contract::CcStatus;
using program::Block;
using program::Op;
using program::Record;

constexpr size_t kDataBytes = 1024;
constexpr uint32_t kMaxSteps = 200;
constexpr uint32_t kMaxReleases = 64;  // waits that somebody satisfies
// 16 engines x 255 pieces of 18 descriptors and what each engine needs besides, rounded up.
constexpr uint64_t kMaxAccesses = 80'000;

struct Head {
  uint32_t trigger;  // the first; others count up from it
  uint32_t argument;
  uint32_t tail;
  uint16_t entry;
  uint16_t shape;  // [8:0] triggers; 0x200: halts now and then; 0x400: barriers fail; [15:11] ring
};
static_assert(sizeof(Head) == 16);

// An offset of [begin, begin + bytes) from `base` lies in [from, from + size); addresses wrap.
bool within(uint64_t address, uint64_t bytes, uint64_t base, uint64_t from, uint64_t size) {
  const uint64_t at = address - base - from;
  return at <= size && bytes <= size - at;
}

// What one BLOCK record may do, from its Block and words before it runs.
class BlockLimits {
 public:
  BlockLimits(CcChip& chip, const Record& record, uint32_t tile) : record_(record) {
    uint32_t count = 0;
    legal_ = chip.read(record.address, &b_, sizeof b_) && chip.read32(b_.count, &count) &&
             word(chip, b_.source_place, &from_) && word(chip, b_.target_place, &to_);
    if (!legal_) return;
    element_ = contract::dtype_size(static_cast<contract::DType>(b_.dtype));
    const bool inside = uint64_t{from_} + count <= b_.source_elements &&
                        uint64_t{to_} + count <= b_.target_elements;
    const uint64_t bytes = inside ? count * element_ : 0;
    const uint64_t whole = uint64_t{b_.engines} * b_.pieces * b_.piece_bytes;
    first_ = std::min(bytes, whole * tile);
    bytes_ = std::min(bytes - first_, whole);
  }

  // After a record that did not fail.
  void check(const CcChip& chip) const {
    if (!legal_) found("a BLOCK that cannot be read succeeds");
    uint64_t received = 0;
    std::array<uint64_t, Block::kMaxSources> sent{};
    uint32_t signals = 0;
    for (uint32_t ring = 0; ring < 2 * CcChip::kEngines; ++ring) {
      const std::vector<contract::Descriptor>& made = chip.made[ring];
      if (made.empty()) continue;
      if (ring % 2 == 0) {
        count_sources(made, &sent);
      } else {
        received += count_targets(made);
        ++signals;
      }
    }
    if (received != bytes_) found("another number of bytes than the tile has");
    for (uint32_t i = 0; i < b_.source_count; ++i) {
      if (sent[i] != bytes_) found("sources of different length");
    }
    for (const CcChip::Store& store : chip.stores) {
      if (store.address == b_.completion) signals += store.value;
    }
    // A semaphore that is a doorbell of the Block's own gets those too.
    if (signals != record_.imm && b_.completion % 4096 != contract::udma::kM2sQTailInc) {
      found("another sum of signals than was promised");
    }
  }

 private:
  static bool word(CcChip& chip, uint64_t address, uint32_t* value) {
    *value = 0;
    return address == 0 || chip.read32(address, value);
  }

  // All but the last, which is the signal.
  uint64_t count_targets(const std::vector<contract::Descriptor>& made) const {
    uint64_t sum = 0;
    for (size_t i = 0; i + 1 < made.size(); ++i) {
      const uint64_t bytes = desc::length(made[i].w0);
      if (!within(made[i].address, bytes, b_.target, to_ * element_ + first_, bytes_)) {
        found("a write outside of the tile");
      }
      sum += bytes;
    }
    if (made.back().address != b_.completion) found("a tile without a signal");
    return sum;
  }
  void count_sources(const std::vector<contract::Descriptor>& made,
                     std::array<uint64_t, Block::kMaxSources>* sent) const {
    uint32_t source = 0;
    for (size_t i = 0; i + 1 < made.size(); ++i) {
      if ((made[i].w0 & desc::kMeta) != 0) continue;
      const bool target = source == 0 && (b_.flags & Block::kAccumulate) != 0;
      const uint64_t base = target ? b_.target : b_.sources[source];
      const uint64_t place = (target ? to_ : from_) * element_ + first_;
      const uint64_t bytes = desc::length(made[i].w0);
      if (!within(made[i].address, bytes, base, place, bytes_)) found("a read outside of the tile");
      (*sent)[source] += bytes;
      source = (source + 1) % b_.source_count;
    }
    if (made.back().address != b_.one) found("a signal that is not 1");
  }

  Record record_;
  Block b_;
  bool legal_ = false;
  uint32_t from_ = 0;
  uint32_t to_ = 0;
  uint64_t element_ = 0;
  uint64_t first_ = 0;  // bytes of the block before the tile
  uint64_t bytes_ = 0;
};

class Core {
 public:
  explicit Core(const Head& head) : head_(head) {
    chip_.ring_length = 2 + 2 * (head.shape >> 11);
    chip_.tail = head.tail;
    operations_[0] = head.entry;
    operations_[1] = head.argument;
  }

  void load(uint64_t offset, const std::vector<uint8_t>& bytes) {
    std::copy(bytes.begin(), bytes.end(),
              chip_.memory.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void load_program(const std::vector<uint8_t>& bytes) {
    std::copy_n(bytes.begin(), std::min(bytes.size(), program_.size()), program_.begin());
  }

  void run() {
    firmware_.run();
    for (uint32_t i = 0; i < (head_.shape & 0x1FF); ++i)
      (void)firmware_.trigger(head_.trigger + i, chip_);
    for (uint32_t i = 0; i < kMaxSteps && go_on(i); ++i) {
    }
    check_end();
  }

  // A good program, from reset.
  void run_again() {
    firmware_.reset();
    if (firmware_.status() != CcStatus::kReset) found("a reset that does not");
    const Record done{static_cast<uint8_t>(Op::kDone), 0, 0, 0, 1, CcChip::kIncrement};
    std::memcpy(program_.data(), &done, sizeof done);
    operations_[0] = 0;
    chip_.semaphores[0] = 0;
    firmware_.run();
    (void)firmware_.trigger(0, chip_);
    while (step().next == cc::Next::kSpend) {
    }
    if (firmware_.operations_done() != 1 || chip_.semaphores[0] != 1) {
      found("a good program does not run after a reset");
    }
  }

 private:
  // False at the end.
  bool go_on(uint32_t number) {
    if ((head_.shape & 0x200) != 0 && number % 7 == 6) {
      firmware_.halt();
      if (step().next != cc::Next::kStopped) found("a halted core works");
      firmware_.run();
    }
    const cc::Step last = step();
    switch (last.next) {
      case cc::Next::kSpend:
        return true;
      case cc::Next::kSemaphore:
        return release();
      case cc::Next::kBarrier:
        if ((head_.shape & 0x400) == 0) {
          firmware_.barrier_released();
        } else {
          firmware_.fail(CcError::kBadInstruction, last.members, chip_);
        }
        return true;
      default:
        return false;
    }
  }

  // Somebody signals what the first thread that waits wants.
  bool release() {
    for (uint32_t i = 0; i < program::kThreads; ++i) {
      const cc::Step* wait = firmware_.waits(i);
      if (wait == nullptr) continue;
      chip_.semaphores[wait->semaphore] = wait->value;
      return ++releases_ < kMaxReleases;
    }
    found("a core waits for nothing");
  }

  cc::Step step() {
    const cc::LocalMemory memory{program_.data(), operations_.data()};
    chip_.forget();
    const bool block = moves_block_ && firmware_.status() == CcStatus::kRunning;
    const Record record = block ? record_at(firmware_.pc()) : Record{};
    const BlockLimits limits(chip_, record, firmware_.reg(record.a % program::kRegisters));
    chip_.forget();
    const uint32_t reports = chip_.out_of_bounds;
    const cc::Step step = firmware_.step(memory, chip_, chip_);
    if (chip_.accesses > kMaxAccesses) found("a step that takes too many accesses");
    // What follows a BLOCK in the same step is at most the start of the next record.
    if (block && firmware_.status() != CcStatus::kError) limits.check(chip_);
    if (block) reports_ += chip_.out_of_bounds - reports;
    if (reports_ > 1) found("an operation that is out of bounds twice");
    if (firmware_.operations_done() != done_) reports_ = 0;
    done_ = firmware_.operations_done();
    if (firmware_.status() == CcStatus::kHalted) return step;
    moves_block_ = step.next == cc::Next::kSpend && step.cost == cc::Cost::kBlock;
    return step;
  }

  Record record_at(uint32_t pc) const {
    Record r;
    std::memcpy(&r, program_.data() + size_t{pc} * sizeof r, sizeof r);
    return r;
  }

  void check_end() {
    const bool failed = firmware_.status() == CcStatus::kError;
    const auto code = static_cast<uint32_t>(firmware_.error_code());
    if (failed != (code != 0) || code > static_cast<uint32_t>(CcError::kBusError)) {
      found("an error without a code of the contract");
    }
    if (chip_.errors != (failed ? 1u : 0u)) found("an error without one notification");
    if (failed && firmware_.trigger(0, chip_)) found("a core in error takes a trigger");
  }

  Head head_;
  CcChip chip_;
  cc::Interpreter firmware_;
  // Of exactly their sizes: a sanitizer sees every access beyond.
  std::vector<uint8_t> program_ = std::vector<uint8_t>(program::kMaxRecords * sizeof(Record));
  std::vector<uint32_t> operations_ = std::vector<uint32_t>(size_t{2} * program::kOperations);
  bool moves_block_ = false;
  uint32_t releases_ = 0;
  uint32_t reports_ = 0;  // of blocks out of bounds, in this operation
  uint64_t done_ = 0;
};

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::Core core(input.take<fuzz::Head>());
  core.load(0, input.bytes(fuzz::kDataBytes));
  core.load_program(input.bytes(input.left()));
  core.run();
  core.run_again();
  return 0;
}
