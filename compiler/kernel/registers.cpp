// Registers of engines: arithmetic, cells in memory, and addresses that they displace.
#include <type_traits>

#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

bool names_engine(Program* p, const Call& call, Engine engine) {
  if (!p->check(call, {})) return false;
  return require(p, call, engine != Engine::kAuto, "of which engine?");
}

// `o` are the operands of `in`: of registers, or of pairs.
template <typename Operands>
void calculate(Program* p, const Call& call, Engine engine, isa::Instruction* in, Operands* o,
               Register to, Alu op, Register a, const Scalar& b) {
  constexpr bool kPair = std::is_same_v<Operands, isa::RegisterAlu64>;
  if (!names_engine(p, call, engine) || !p->is_register(call, to.number, kPair) ||
      !p->is_register(call, a.number, kPair) || !p->value(call, b, kPair, &o->b)) {
    return;
  }
  o->op = static_cast<isa::AluOp>(op);
  o->dst = to.number;
  o->a = a.number;
  p->add(call, static_cast<uint32_t>(engine), *in);
}

}  // namespace

bool Program::is_register(const Call& call, int number, bool pair) {
  const int last = kFirstOwnRegister - (pair ? 2 : 1);
  if (number >= 0 && number <= last) return ok();
  fail(base::Fault::kUsage, call.at,
       std::string(call.name) + ": register " + std::to_string(number) + "; a kernel has " +
           (pair ? "pairs from " : "") + "0 to " + std::to_string(last));
  return false;
}

bool Program::value(const Call& call, const Scalar& b, bool pair, isa::Value* to) {
  const bool reg = b.kind_ == Scalar::kRegister;
  if (reg && !is_register(call, static_cast<int>(b.bits_), pair)) return false;
  if (!require(this, call, reg || (b.kind_ == Scalar::kImmediate && b.integer_),
               "b is neither an integer nor a register")) {
    return false;
  }
  *to = {b.bits_, reg};
  return true;
}

void Program::control(const Call& call, uint32_t engine, const isa::Instruction& in) {
  if (!ok()) return;
  Order::Step step = order_.instruction(engine, {});
  push({in, engine, begin_call(call), step.event, std::move(step.waits)});
}

// The register that says how many bytes further on `view` begins: the kernel's own where that
// counts bytes, or a temporary of the engine's next instruction.
uint8_t Program::displace(const Call& call, uint32_t engine, const View& view, size_t temporary) {
  const View::Displacement& by = view.displacement_;
  const uint8_t moved =
      view.moves_.empty() ? uint8_t{isa::kNoRegister} : scaled(call, moves_of(view));
  if (by.positions == 0) return moved;
  if (by.bytes == 1 && view.moves_.empty()) return by.by.number;
  const auto to = static_cast<uint8_t>(kFirstTemporary + temporary);
  isa::Instruction in = make(Opcode::kRegisterAlu);
  in.operands.register_alu = {
      isa::AluOp::kMul, to, by.by.number, {static_cast<uint32_t>(by.bytes), false}};
  control(call, engine, in);
  if (!view.moves_.empty()) {
    in.operands.register_alu = {isa::AluOp::kAdd, to, to, {moved, true}};
    control(call, engine, in);
  }
  return to;
}

// Cells of tiles are operands like others; those of tensors are named by the table.
void Program::add_cell(const Call& call, Engine engine, const View& cell, uint8_t number,
                       bool write) {
  const auto on = static_cast<uint32_t>(engine);
  if (!check(call, {{"the cell", &cell, write}})) return;
  const std::string what = std::string(call.name) + ": the cell (" + describe(cell) + ") ";
  const unsigned bytes = bytes_of(cell.dtype_);
  const bool hbm = cell.space_ == Space::kHbm;
  if (cell.elements() != 1 || cell.space_ == Space::kPsum || (!hbm && bytes > 4) || cell.index_) {
    return fail(base::Fault::kUsage, call.at,
                what + "is not one element of a tensor, or of up to 4 bytes of a tile in SBUF");
  }
  if (!is_register(call, number, bytes == 8)) return;
  if (!hbm) {
    isa::Instruction in = make(write ? Opcode::kRegisterStore : Opcode::kRegisterLoad);
    const isa::TensorOperand operand = tensor(call, {"the cell", &cell, write});
    if (write) {
      in.operands.register_store = {operand, number, 1};
    } else {
      in.operands.register_load = {number, operand, 1};
    }
    return add(call, on, in);
  }
  const isa::SideOperand operand = side(call, "the cell", cell, on, false, true);
  isa::Instruction in = make(write ? Opcode::kTensorStore : Opcode::kTensorLoad);
  if (write) {
    in.operands.tensor_store = {operand, number, isa::DgeBounds::kError};
  } else {
    in.operands.tensor_load = {number, operand, isa::DgeBounds::kError};
  }
  if (!ok()) return;
  std::vector<MemoryAccess> accesses;
  if (write || changes(tensors[cell.buffer_])) accesses.push_back({footprint(cell), write});
  Order::Step step = order_.instruction(on, accesses);
  push({in, on, begin_call(call), step.event, std::move(step.waits)});
}

void Kernel::set_register(Engine engine, uint8_t number, uint32_t value, Location at) {
  Program& p = *program_;
  const Call call{at, "set_register"};
  if (!names_engine(&p, call, engine) || !p.is_register(call, number)) return;
  isa::Instruction in = make(Opcode::kRegisterMove);
  in.operands.register_move = {number, {value, false}};
  p.add(call, static_cast<uint32_t>(engine), in);
}

void Kernel::register_alu(Engine engine, Register to, Alu op, Register a, const Scalar& b,
                          Location at) {
  isa::Instruction in = make(Opcode::kRegisterAlu);
  const Call call{at, "register_alu"};
  calculate(program_.get(), call, engine, &in, &in.operands.register_alu, to, op, a, b);
}

void Kernel::register_alu64(Engine engine, Register to, Alu op, Register a, const Scalar& b,
                            Location at) {
  isa::Instruction in = make(Opcode::kRegisterAlu64);
  const Call call{at, "register_alu64"};
  calculate(program_.get(), call, engine, &in, &in.operands.register_alu64, to, op, a, b);
}

void Kernel::register_load(Engine engine, Register to, const View& cell, Location at) {
  const Call call{at, "register_load"};
  if (!names_engine(program_.get(), call, engine)) return;
  program_->add_cell(call, engine, cell, to.number, false);
}

void Kernel::register_store(Engine engine, const View& cell, Register from, Location at) {
  const Call call{at, "register_store"};
  if (!names_engine(program_.get(), call, engine)) return;
  program_->add_cell(call, engine, cell, from.number, true);
}

void Kernel::rank_id(Engine engine, Register to, Location at) {
  Program& p = *program_;
  const Call call{at, "rank_id"};
  if (!names_engine(&p, call, engine) || !p.is_register(call, to.number)) return;
  isa::Instruction in = make(Opcode::kGetGlobalRankId);
  in.operands.get_global_rank_id = {to.number};
  p.add(call, static_cast<uint32_t>(engine), in);
}

}  // namespace kernel
