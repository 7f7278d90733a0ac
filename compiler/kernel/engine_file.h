// One engine's program file (spec/neff.md 5): its instructions with semaphores, loops and branches.
// Internal to this room.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/kernel/program.h"

namespace kernel {

// Which events are waited for, and the semaphore values that say that they are complete. Each
// segment begins anew.
class Signals {
 public:
  explicit Signals(const Program& program);

  bool awaited(uint32_t segment, const Event& event) const;
  isa::Wait wait(uint32_t segment, const Event& event) const;
  static uint8_t transfer_semaphore(const Event& event);

 private:
  // Per segment, engine and number: the semaphore's value, or 0.
  std::vector<std::array<std::vector<uint32_t>, isa::kEngines>> rank_;
  unsigned dma_engines_;  // what one transfer adds (spec/neff.md 3.8)
};

class EngineFile {
 public:
  EngineFile(const Program& program, const Signals& signals, uint32_t engine)
      : program_(program), signals_(signals), engine_(engine) {}

  // In the order of the program: the beginning of a segment, its entries of this engine, and its
  // end if another one follows.
  void begin(const Segment& segment);
  void add(const Entry& entry);
  void end();

  bool empty() const { return records_.empty(); }
  std::vector<uint8_t> finish();

 private:
  // A branch to what is not yet written.
  struct Jump {
    int32_t at = 0;
    isa::Instruction branch;
  };
  struct Opened {
    int32_t top = 0;         // first record of a loop's turns
    std::vector<Jump> past;  // those to behind its end
  };

  int32_t here() const { return static_cast<int32_t>(records_.size() / isa::kRecordBytes); }

  isa::Instruction control(isa::Opcode opcode) const;
  isa::Instruction set(uint8_t r, uint32_t value) const;
  isa::Instruction alu(isa::AluOp op, uint8_t dst, uint8_t a, uint32_t b) const;
  isa::Instruction branch() const;
  isa::Instruction branch(isa::BranchCond cond, uint8_t a, isa::Value b, int32_t target = 0) const;

  void begin_loop(const Turning& turning);
  void end_loop(const Turning& turning);
  void look_at(const Turning::Cell& cell, uint8_t to);
  void go_past(const isa::Instruction& branch);
  void land();
  void add_scale(const Moves& moves, uint8_t to);
  void add_barrier();
  void clear(size_t first, size_t last);
  void append(const isa::Instruction& in);
  uint32_t symbol(const std::string& name);

  const Program& program_;
  const Signals& signals_;
  uint32_t engine_;
  uint32_t call_ = 0;           // of the segment that has begun last
  std::vector<Opened> opened_;  // loops and branches around it
  std::vector<uint8_t> records_;
  std::vector<std::string> symbols_{""};
};

}  // namespace kernel
