#include "compiler/kernel/program.h"

#include <algorithm>
#include <cstring>

#include "arch/contract/dge.h"
#include "arch/contract/isa_rules.h"
#include "neff_loader/dtype.h"
#include "neff_loader/status.h"

namespace kernel {
namespace {

// What software finds free in a partition of SBUF (spec/engine-isa.md 2).
int64_t sbuf_bytes(Generation generation) {
  switch (generation) {
    case Generation::kV2:
      return 180224;
    case Generation::kV3:
      return 212984;
    case Generation::kV4:
      return 245752;
  }
  return 0;
}

constexpr int64_t kPsumBytes = contract::tpb::kPsumPartitionBytes;
constexpr int64_t kPsumBank = 2048;  // spec/engine-isa.md 2

// Callers give one tensor for both when an input is named after an output like this
// (spec/neff.md 2.9).
constexpr std::string_view kAlias = ".must_alias_input";

bool is_alias(const Tensor& t) {
  return t.usage == Usage::kInput && t.name.size() > kAlias.size() &&
         t.name.compare(t.name.size() - kAlias.size(), kAlias.size(), kAlias) == 0;
}

}  // namespace

std::string to_string(const Location& at) {
  return std::string(at.file) + ":" + std::to_string(at.line);
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

isa::DataType data_type(DType dtype) {
  return static_cast<isa::DataType>(dtype);
}

unsigned bytes_of(DType dtype) {
  return isa::data_type_bytes(data_type(dtype));
}

bool is_integer(DType dtype) {
  return contract::dtype_is_integer(isa::dtype_of(data_type(dtype)));
}

const char* engine_name(uint32_t engine) {
  constexpr const char* kNames[] = {"Tensor", "Scalar", "GpSimd", "Vector", "Sync"};
  return engine < std::size(kNames) ? kNames[engine] : "?";
}

Program::Program(Kernel::Params given)
    : params(std::move(given)),
      sbuf("SBUF", sbuf_bytes(params.generation), 0),
      psum("PSUM", kPsumBytes, kPsumBank),
      names_{kStateBuffer, kDgeTable} {
  if (params.dma_engines < 1 || params.dma_engines > kMostDmaEngines) {
    fail(base::Fault::kUsage, {},
         "transfers over " + std::to_string(params.dma_engines) + " DMA engines; a core has " +
             std::to_string(kMostDmaEngines));
  }
}

void Program::fail(base::Fault fault, Location at, std::string what) {
  if (error_) return;
  const bool resource = fault == base::Fault::kResource;
  error_ = base::Error{fault, resource ? neff::status::kResource : neff::status::kInvalid,
                       to_string(at), std::move(what)};
}

// ---- Memory ----

uint64_t Program::memory_of(const Tensor& tensor) {
  const uint64_t own = kFirstTensor + tensors.size();
  if (tensor.usage != Usage::kOutput && !is_alias(tensor)) return own;
  const size_t length = tensor.name.size() - (is_alias(tensor) ? kAlias.size() : 0);
  return shared_.emplace(tensor.name.substr(0, length), own).first->second;
}

// What never changes needs no order.
bool Program::changes(const Tensor& tensor) const {
  return tensor.usage == Usage::kOutput || tensor.usage == Usage::kScratch || is_alias(tensor);
}

View Program::add_tensor(Tensor tensor, Location at) {
  if (!ok()) return {};
  const std::string what = "tensor '" + tensor.name + "': ";
  if (tensor.name.empty() || tensor.name.size() > 255 || printable(tensor.name) != tensor.name ||
      !names_.insert(tensor.name).second) {
    fail(base::Fault::kUsage, at,
         what + "a name has 1 to 255 printable characters of ASCII and is used once");
    return {};
  }
  View view;
  int64_t elements = 1;
  for (size_t i = tensor.shape.size(); i > 0; --i) {
    const int64_t n = tensor.shape[i - 1];
    if (n < 1 || n > (int64_t{1} << 40) / elements) {
      fail(base::Fault::kUsage, at,
           what + "a size is not positive, or the tensor has over 2^40 elements");
      return {};
    }
    view.dims_.insert(view.dims_.begin(), Dim{elements, n});
    elements *= n;
  }
  if (!isa::has_dtype(data_type(tensor.dtype))) {
    fail(base::Fault::kUsage, at,
         what + "tensors in HBM have none of the types of MX; take integers of as many bytes");
    return {};
  }
  tensor.bytes = elements * bytes_of(tensor.dtype);
  if (tensor.usage == Usage::kConstant &&
      static_cast<int64_t>(tensor.content.size()) != tensor.bytes) {
    fail(base::Fault::kUsage, at,
         what + std::to_string(tensor.content.size()) + " bytes are given, its shape takes " +
             std::to_string(tensor.bytes));
    return {};
  }
  tensor.memory = memory_of(tensor);
  view.space_ = Space::kHbm;
  view.dtype_ = tensor.dtype;
  view.buffer_ = static_cast<uint32_t>(tensors.size());
  tensors.push_back(std::move(tensor));
  return view;
}

View Program::allocate(Space space, const View::Sizes& shape, DType dtype, const std::string& name,
                       int64_t start_partition, Location at) {
  if (!ok()) return {};
  const std::string what = "tile '" + name + "': ";
  const bool positive =
      !shape.empty() && std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n >= 1; });
  if (!positive) {
    fail(base::Fault::kUsage, at, what + "its shape is partitions, then positive sizes");
    return {};
  }
  if (start_partition < 0 || start_partition + shape[0] > isa::kPartitions) {
    fail(base::Fault::kUsage, at,
         what + std::to_string(shape[0]) + " partitions from " + std::to_string(start_partition) +
             " on; there are " + std::to_string(isa::kPartitions));
    return {};
  }
  View view;
  int64_t elements = 1;
  for (size_t i = shape.size() - 1; i > 0; --i) {
    view.dims_.insert(view.dims_.begin(), Dim{elements, shape[i]});
    elements *= std::min<int64_t>(shape[i], int64_t{1} << 31);
    elements = std::min<int64_t>(elements, int64_t{1} << 31);
  }
  view.dims_.insert(view.dims_.begin(), Dim{0, shape[0]});
  Arena& memory = arena(space);
  const int64_t bytes = elements * bytes_of(dtype);
  const auto id = memory.allocate(name, start_partition, shape[0], bytes);
  if (!id) {
    fail(base::Fault::kResource, at,
         what + std::to_string(bytes) + " bytes in each of " + std::to_string(shape[0]) +
             " partitions do not fit in " + memory.name() + " of " +
             std::to_string(memory.capacity()) + ": " + std::to_string(memory.allocated()) +
             " are allocated, the largest free piece has " +
             std::to_string(memory.largest_free(start_partition, shape[0])) +
             "; allocated: " + memory.list());
    return {};
  }
  view.space_ = space;
  view.dtype_ = dtype;
  view.buffer_ = *id;
  view.start_partition_ = start_partition;
  view.offset_ = memory.piece(*id).offset;
  return view;
}

void Program::release(const View& tile, Location /*at*/) {
  arena(tile.space_).release(tile.buffer_);
}

bool Program::alive(const View& view) const {
  return view.space_ == Space::kHbm ? view.buffer_ < tensors.size()
                                    : arena(view.space_).has(view.buffer_);
}

// ---- Recording ----

uint32_t Program::begin_call(const Call& call) {
  const bool same = !calls.empty() && calls.back().name == call.name &&
                    calls.back().at.file == call.at.file && calls.back().at.line == call.at.line;
  if (!same) calls.push_back(call);
  return static_cast<uint32_t>(calls.size());
}

void Program::push(Entry entry) {
  entry.segment = static_cast<uint32_t>(segments.size() - 1);
  entries.push_back(std::move(entry));
}

// Whether the engine has the instruction, with these types.
bool Program::runs(const Call& call, uint32_t engine, const isa::Instruction& instruction) {
  const isa::OpInfo* op = isa::find_op(instruction.opcode);
  const auto on = static_cast<isa::Engine>(engine);
  if (!op->runs_on(on)) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": " + op->name + " does not run on the " + engine_name(engine) +
             " engine");
    return false;
  }
  const auto gen = static_cast<contract::Gen>(params.generation);
  const int foreign = isa::foreign_type(instruction, on, gen);
  if (foreign >= 0) {
    const isa::DataType type = isa::tensors_of(instruction).uses[foreign].tensor->dtype;
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": the " + engine_name(engine) + " engine of NeuronCore v" +
             std::to_string(static_cast<int>(gen)) + " takes no " + neff::to_string(type) + " in " +
             op->name);
  }
  return ok();
}

void Program::add(const Call& call, uint32_t engine, const isa::Instruction& instruction) {
  add_one(call, engine, instruction);
  displaced_.clear();
}

void Program::add_one(const Call& call, uint32_t engine, const isa::Instruction& instruction) {
  if (!ok() || !runs(call, engine, instruction)) return;
  const isa::OpInfo* op = isa::find_op(instruction.opcode);
  isa::Instruction in = instruction;
  std::vector<std::optional<Footprint>> whole;
  if (!indirections_.empty() && !add_indices(call, engine, &in, &whole)) return;
  std::vector<MemoryAccess> accesses;
  size_t temporary = 0;
  for (const isa::TensorUse& use : isa::tensors_of(in)) {
    auto& tensor = const_cast<isa::TensorOperand&>(*use.tensor);  // of `in`
    const bool in_psum = tensor.memory == isa::Memory::kPsum;
    if (in_psum && engine == contract::kPool) {
      fail(base::Fault::kUsage, call.at,
           std::string(call.name) + ": the GpSimd engine does not reach PSUM");
      return;
    }
    const size_t i = accesses.size();
    const bool write = use.access != isa::Access::kRead;
    if (tensor.offset_register != isa::kNoRegister) {
      const View& view = displaced_[tensor.offset_register];
      accesses.push_back({footprint(view), write});
      tensor.offset_register = displace(call, engine, view, temporary++);
      continue;
    }
    const Footprint footprint =
        i < whole.size() && whole[i]
            ? *whole[i]
            : footprint_of(in_psum ? kPsumMemory : kSbufMemory, tensor, use.partitions);
    accesses.push_back({footprint, write});
  }
  isa::Record room[1 + isa::kMaxExtensions];
  if (isa::encode(in, room[0].bytes, sizeof room) == 0) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": these operands do not go together in " + op->name);
    return;
  }
  const auto gen = static_cast<contract::Gen>(params.generation);
  if (!op->pseudo && !isa::executes(in, static_cast<isa::Engine>(engine), gen)) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": the " + engine_name(engine) + " engine of NeuronCore v" +
             std::to_string(static_cast<int>(gen)) + " does not execute " + op->name +
             " with these operands");
    return;
  }
  if (!ok()) return;
  Order::Step step = order_.instruction(engine, accesses);
  push({in, engine, begin_call(call), step.event, std::move(step.waits)});
}

QueueSet* Program::queue_set(const Call& call, uint32_t engine, const View& dst, const View& src) {
  const auto io = [&](const View& v, Usage usage) {
    return v.space_ == Space::kHbm && tensors[v.buffer_].usage == usage;
  };
  const char* type = io(dst, Usage::kOutput) ? "out" : io(src, Usage::kInput) ? "in" : "data";
  for (QueueSet& q : queues) {
    if (q.engine == engine && !q.alone && scope() == 0 && std::strcmp(q.type, type) == 0) return &q;
  }
  std::string name = std::string("q") + engine_name(engine) + type + "0";
  name[1 + std::strlen(engine_name(engine))] =
      static_cast<char>(std::toupper(static_cast<unsigned char>(type[0])));
  QueueSet set;
  set.alone = scope() != 0;
  if (set.alone) name += "Alone" + std::to_string(queues.size());
  set.name = std::move(name);
  set.type = type;
  set.engine = engine;
  return add_queue_set(std::move(set), call);
}

// Null, with an error, if there are too many.
QueueSet* Program::add_queue_set(QueueSet set, const Call& call) {
  if (queues.size() >= kMostQueueSets) {
    fail(base::Fault::kResource, call.at,
         std::string(call.name) + ": more than " + std::to_string(kMostQueueSets) +
             " combinations of triggering engine and direction");
    return nullptr;
  }
  set.agent = order_.add_agent();
  queues.push_back(std::move(set));
  return &queues.back();
}

void Program::record(const Call& call, uint32_t engine, QueueSet* queue, const isa::Instruction& in,
                     const std::vector<MemoryAccess>& accesses) {
  Order::Step step = order_.transfer(engine, queue->agent, accesses);
  push({in, engine, begin_call(call), step.event, std::move(step.waits)});
}

// What has its address when the file is loaded.
bool Program::stays(const Call& call, const char* name, const View& view) {
  if (!moving(view)) return true;
  fail(base::Fault::kUsage, call.at,
       std::string(call.name) + ": " + name + " (" + describe(view) +
           ") moves with a loop or a register; this one is laid out when the file is loaded");
  return false;
}

// Otherwise what comes out is undefined (spec/neff.md 3.4).
bool Program::apart(const Call& call, const View& dst, const View& src) {
  if (!may_overlap(footprint(dst), footprint(src))) return true;
  fail(base::Fault::kUsage, call.at,
       std::string(call.name) + ": dst (" + describe(dst) + ") and src (" + describe(src) +
           ") overlap");
  return false;
}

// Descriptors of a transfer in one direction, at least: each moves a run that is contiguous on both
// sides, or of a transposition up to 16 elements. Counted without enumerating them.
uint64_t Program::least_descriptors(const Copy& copy) {
  uint64_t count = 0;
  for (const Copy::Part& part : copy.parts) {
    uint64_t n = std::max(part.to.innermost_passes(), part.to.bytes() / neff::kMaxDescriptorBytes);
    if (copy.sources.empty()) n = std::max(n, part.from.innermost_passes());
    for (const Copy::Source& source : copy.sources) {
      n = std::max(n, source.pattern.innermost_passes());
    }
    if (copy.shape[0] != 0) {
      const uint64_t elements = part.to.bytes() / bytes_of(copy.to_dtype);
      n = std::max(n, elements / contract::dge::kTransposeRows);
    }
    count += n;
  }
  return count;
}

// The rings of a queue set hold the descriptors of all of its transfers.
bool Program::fits_rings(const Call& call, QueueSet* queue, const Copy& copy) {
  const uint64_t most = uint64_t{contract::ring::kMost} * params.dma_engines;
  const uint64_t more = least_descriptors(copy);
  queue->descriptors += more;
  if (queue->descriptors <= most) return true;
  fail(base::Fault::kResource, call.at,
       std::string(call.name) + ": this transfer takes " + std::to_string(more) +
           " descriptors or more, which makes " + std::to_string(queue->descriptors) + " in " +
           queue->name + "; its rings hold " + std::to_string(most) +
           ". Cut it into parts that hardware makes (dma_copy), or move longer runs");
  return false;
}

// A transfer of static descriptors. The loader lays them out in rings that each execution goes
// through once, but for a queue set with one transfer, which may take place any number of times.
void Program::trigger(const Call& call, const View& dst, const View& src, uint32_t engine,
                      Copy copy, const std::vector<MemoryAccess>& accesses) {
  QueueSet* queue = queue_set(call, engine, dst, src);
  if (queue == nullptr || !fits_rings(call, queue, copy)) return;
  queue->copies.push_back(std::move(copy));
  isa::Instruction in{};
  in.opcode = isa::Opcode::kPseudoDmaTrigger;
  in.operands.pseudo_dma_trigger = {static_cast<uint32_t>(queue - queues.data()),
                                    static_cast<uint32_t>(queue->copies.size()), 0};
  record(call, engine, queue, in, accesses);
  queue->copies.back().number = entries.back().event.number;
}

// Types that no transfer knows, as the bits that they are.
void Program::add_moved(const Call& call, const View& dst, const View& src, uint32_t engine) {
  const unsigned bytes = bytes_of(src.dtype_);
  const bool alike = src.dtype_ == dst.dtype_ || is_integer(src.dtype_) || is_integer(dst.dtype_);
  if (!alike || bytes != bytes_of(dst.dtype_)) {
    fail(base::Fault::kUsage, call.at,
         std::string(call.name) + ": transfers do not convert from " +
             neff::to_string(data_type(src.dtype_)) + " to " +
             neff::to_string(data_type(dst.dtype_)));
    return;
  }
  const DType bits = bytes == 1 ? DType::kUint8 : bytes == 2 ? DType::kUint16 : DType::kUint32;
  add_copy(call, dst.as(bits, call.at), src.as(bits, call.at), engine);
}

void Program::add_copy(const Call& call, const View& dst, const View& src, uint32_t engine) {
  if (!check(call, {{"dst", &dst, true}, {"src", &src, false}})) return;
  if (!isa::has_dtype(data_type(src.dtype_)) || !isa::has_dtype(data_type(dst.dtype_))) {
    return add_moved(call, dst, src, engine);
  }
  if (scope() != 0 || moving(dst) || moving(src)) {
    Transfer how;
    const bool hardware = params.generation != Generation::kV2 && dst.dtype_ == src.dtype_;
    how.generate = hardware ? Generate::kHardware : Generate::kSoftware;
    if (hardware && engine == contract::kAct) how.engine = Engine::kScalar;
    return add_generated(call, {dst, src}, how);
  }
  Copy copy;
  copy.from_dtype = src.dtype_;
  copy.to_dtype = dst.dtype_;
  copy.from = variable(src);
  copy.to = variable(dst);
  if (!lower(call, dst, src, &copy) || !apart(call, dst, src)) return;
  std::vector<MemoryAccess> accesses{{footprint(dst), true}};
  if (src.space_ != Space::kHbm || changes(tensors[src.buffer_])) {
    accesses.push_back({footprint(src), false});
  }
  trigger(call, dst, src, engine, std::move(copy), accesses);
}

// Every engine ends with a DRAIN that Sync waits for, as it does for the transfers; then nobody
// waits for a semaphore any more, and it may clear them.
void Program::close(Location at) {
  const Call call{at, "finish"};
  if (scope() != 0) return fail(base::Fault::kUsage, at, "finish: in the body of a loop or branch");
  closed = true;
  std::vector<bool> used(isa::kEngines, false);
  for (const Entry& e : entries) used[e.engine] = true;
  for (uint32_t engine = 0; engine < isa::kEngines; ++engine) {
    if (!used[engine] || engine == contract::kSp) continue;
    isa::Instruction drain{};
    drain.opcode = isa::Opcode::kDrain;
    add(call, engine, drain);
  }
  isa::Instruction clear{};
  clear.opcode = isa::Opcode::kEventSemaphoreRangeClear;
  const size_t sets = queues.size();
  clear.operands.event_semaphore_range_clear = {
      isa::ClearKind::kSemaphore, 0,
      static_cast<uint8_t>(kFirstTransferSemaphore + Order::kWindow * sets - 1)};
  std::vector<Event> waits = order_.join(contract::kSp);
  push({clear, contract::kSp, begin_call(call), Event{}, std::move(waits)});
}

}  // namespace kernel
