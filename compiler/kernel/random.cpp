// Random numbers (spec/engine-isa.md 10.5). An engine's generators are its own, and what it
// executes is in order, so that they take no part in the order of others.
#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

// Six words of each generator: GpSimd has one in each lane, Vector four.
int64_t state_words(uint32_t engine) {
  return engine == contract::kPool ? 6 : 24;
}

bool is_state(Program* p, const Call& call, const View& state, const char* name, uint32_t engine) {
  const int64_t words = state_words(engine);
  return require(p, call, state.dtype() == DType::kUint32 && free_elements(state) == words,
                 std::string(name) + " is not " + std::to_string(words) +
                     " uint32 in each partition, the state of the " + engine_name(engine) +
                     " engine");
}

}  // namespace

void Kernel::rng(const View& dst, Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "rng"};
  const Program::Operand operand{"dst", &dst, true};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kRng);
  in.operands.rng = {p.tensor(call, operand), lanes_of(dst)};
  if (!require(&p, call, is_integer(dst.dtype()), "dst is no tile of integers")) return;
  p.add(call, chosen(engine, Engine::kVector), in);
}

void Kernel::rand2(const View& dst, const Scalar& low, const Scalar& high, Location at) {
  Program& p = *program_;
  const Call call{at, "rand2"};
  const Program::Operand operand{"dst", &dst, true};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kRand2);
  in.operands.rand2 = {p.tensor(call, operand), p.scalar(call, "low", low, Op::kAdd, dst.size(0)),
                       p.scalar(call, "high", high, Op::kAdd, dst.size(0)), lanes_of(dst)};
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::dropout(const View& dst, const View& src, const Scalar& probability, bool keep,
                     Location at) {
  Program& p = *program_;
  const Call call{at, "dropout"};
  const Program::Operand operands[] = {{"dst", &dst, true}, {"src", &src, false}};
  if (!alike(&p, call, {operands[0], operands[1]})) return;
  isa::Instruction in = make(Opcode::kDropout);
  isa::Dropout& o = in.operands.dropout;
  o.dst = p.tensor(call, operands[0]);
  o.src = p.tensor(call, operands[1]);
  o.probability = p.scalar(call, "the probability", probability, Op::kAdd, dst.size(0));
  o.keep = keep ? 1 : 0;
  o.partitions = lanes_of(dst);
  if (!require(&p, call, dst.dtype() == src.dtype(), "dst has another type than src")) return;
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::set_rng_seed(const View& src, Location at) {
  Program& p = *program_;
  const Call call{at, "set_rng_seed"};
  const Program::Operand operand{"src", &src, false};
  if (!p.check(call, {operand})) return;
  isa::Instruction in = make(Opcode::kSetRngSeed);
  in.operands.set_rng_seed = {p.tensor(call, operand), lanes_of(src)};
  if (!require(&p, call, src.elements() == 1 && bytes_of(src.dtype()) == 4,
               "src is not one element of 4 bytes")) {
    return;
  }
  p.add(call, chosen(Engine::kAuto, Engine::kVector), in);
}

void Kernel::rand_get_state(const View& dst, Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "rand_get_state"};
  const Program::Operand operand{"dst", &dst, true};
  if (!p.check(call, {operand})) return;
  const uint32_t on = chosen(engine, Engine::kGpSimd);
  isa::Instruction in = make(Opcode::kRandGetState);
  in.operands.rand_get_state = {p.tensor(call, operand), lanes_of(dst)};
  if (is_state(&p, call, dst, "dst", on)) p.add(call, on, in);
}

void Kernel::rand_set_state(const View& src, Engine engine, Location at) {
  Program& p = *program_;
  const Call call{at, "rand_set_state"};
  const Program::Operand operand{"src", &src, false};
  if (!p.check(call, {operand})) return;
  const uint32_t on = chosen(engine, Engine::kGpSimd);
  isa::Instruction in = make(Opcode::kRandSetState);
  in.operands.rand_set_state = {p.tensor(call, operand), lanes_of(src)};
  if (is_state(&p, call, src, "src", on)) p.add(call, on, in);
}

}  // namespace kernel
