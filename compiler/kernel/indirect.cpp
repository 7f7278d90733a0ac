// Operands that go by indices (spec/engine-isa.md 3 rule 9).
#include <utility>

#include "arch/contract/isa_rules.h"
#include "compiler/kernel/calls.h"

namespace kernel {
namespace {

constexpr int64_t kGroupLanes = 16;  // the Tensor engine's groups have twice as many

// The operand of scales, which go by the indices of the one before it; none: 0.
unsigned scales_of(Opcode opcode) {
  return opcode == Opcode::kLdweightsMx ? 1 : opcode == Opcode::kMatmulMx ? 2 : 0;
}

}  // namespace

View View::indirect(const View& index, int64_t count, Location at) const {
  if (!program_) return {};
  const bool fits = on_chip() && rank() == 2 && !index_ && moves_.empty() &&
                    displacement_.positions == 0 && index && index.rank() == 2 &&
                    (index.dtype() == DType::kUint16 || index.dtype() == DType::kUint32);
  if (!fits || count < 0) {
    return fail("indirect",
                "a tile of partitions and one dimension goes by a tile of uint16 or uint32 of "
                "partitions and one dimension",
                at);
  }
  View out = *this;
  out.index_ = std::make_shared<const View>(index);
  out.extent_ = dims_[1].count;
  out.dims_[1].count = count == 0 ? index.size(1) * kGroupLanes : count;
  return out;
}

// Loads the indices of the operands that are marked, and takes off the marks. Such an operand may
// touch every element of its view, which `whole` tells.
bool Program::add_indices(const Call& call, uint32_t engine, isa::Instruction* instruction,
                          std::vector<std::optional<Footprint>>* whole) {
  const std::vector<View> views = std::exchange(indirections_, {});
  if (params.generation != Generation::kV4) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": LOAD_INDEX does not exist on NeuronCore v" +
             std::to_string(static_cast<int>(params.generation)));
    return false;
  }
  const isa::TensorUses uses = isa::tensors_of(*instruction);
  const char* name = isa::find_op(instruction->opcode)->name;
  const unsigned scales = scales_of(instruction->opcode);
  std::vector<isa::Instruction> loads;
  std::vector<const View*> indices(uses.count, nullptr);
  whole->resize(uses.count);
  for (unsigned i = 0; i < uses.count; ++i) {
    auto& tensor = const_cast<isa::TensorOperand&>(*uses.uses[i].tensor);  // of *instruction
    if (tensor.dims[3].count != 0 || tensor.dims[3].step == 0) continue;
    View base = views[static_cast<size_t>(tensor.dims[3].step) - 1];
    tensor.dims[3].step = 0;
    const Operand index{"index", base.index_.get(), false};  // lives in `views`
    if (!check(call, {index})) return false;
    isa::Instruction load = make(Opcode::kLoadIndex);
    load.operands.load_index = {static_cast<uint8_t>(i), this->tensor(call, index),
                                lanes_of(*index.view)};
    const bool of_scales = scales != 0 && i == scales;
    if (!ok()) return false;
    if (!of_scales && !isa::indexable(*instruction, static_cast<isa::Engine>(engine), i,
                                      load.operands.load_index.src.start_partition)) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) + ": tensor " + std::to_string(i) + " of " + name + " (" +
               describe(base) + ") cannot go by these indices on the " + engine_name(engine) +
               " engine; docs/kernels.md says which can, and where indices begin");
      return false;
    }
    base.dims_[1].count = base.extent_;
    (*whole)[i] = footprint(base);
    indices[i] = index.view;
    if (!of_scales) loads.push_back(load);
  }
  if (scales != 0 && !same_place(indices[scales], indices[scales - 1])) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": data and their scales go by the same indices");
  }
  for (const isa::Instruction& load : loads) add_one(call, engine, load);
  return ok();
}

bool Program::same_place(const View* a, const View* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->buffer_ == b->buffer_ && a->offset_ == b->offset_ && a->shape() == b->shape() &&
         a->start_partition_ == b->start_partition_;
}

}  // namespace kernel
