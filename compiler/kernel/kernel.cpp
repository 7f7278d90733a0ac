#include "compiler/kernel/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/kernel/program.h"

namespace kernel {
namespace {

// The installed header has the table's numbers without the table.
static_assert(static_cast<int>(Op::kReciprocal) == static_cast<int>(isa::TensorOp::kReciprocal) &&
              static_cast<int>(Op::kNot) == static_cast<int>(isa::TensorOp::kNot) &&
              static_cast<int>(Op::kShiftRight) == static_cast<int>(isa::TensorOp::kShiftRight));
static_assert(static_cast<int>(Function::kExp) == static_cast<int>(isa::ActFunction::kExp) &&
              static_cast<int>(Function::kAbs) == static_cast<int>(isa::ActFunction::kAbs));
static_assert(static_cast<int>(Reduce::kLoadReduce) ==
              static_cast<int>(isa::ReduceCmd::kLoadReduce));
static_assert(static_cast<int>(Accumulate::kStart) == static_cast<int>(isa::Accumulate::kStart));
static_assert(static_cast<int>(DType::kFloat8e5) == static_cast<int>(isa::DataType::kFloat8e5));
static_assert(static_cast<int>(DType::kFloat8e4fn) ==
                  static_cast<int>(isa::DataType::kFloat8e4fn) &&
              static_cast<int>(DType::kFloat4e2fnx4) ==
                  static_cast<int>(isa::DataType::kFloat4e2fnx4));
static_assert(static_cast<int>(Generation::kV2) == static_cast<int>(contract::Gen::kV2) &&
              static_cast<int>(Generation::kV4) == static_cast<int>(contract::Gen::kV4));
static_assert(static_cast<int>(Engine::kTensor) == static_cast<int>(isa::Engine::kPe) &&
              static_cast<int>(Engine::kScalar) == static_cast<int>(isa::Engine::kAct) &&
              static_cast<int>(Engine::kGpSimd) == static_cast<int>(isa::Engine::kPool) &&
              static_cast<int>(Engine::kVector) == static_cast<int>(isa::Engine::kDve) &&
              static_cast<int>(Engine::kSync) == static_cast<int>(isa::Engine::kSp));

uint32_t number(Engine engine) {
  return static_cast<uint32_t>(engine);
}

}  // namespace

Kernel::Kernel(Params params) : program_(std::make_shared<Program>(std::move(params))) {}

// ---- Memory ----

View Kernel::tensor(const std::string& name, int usage, DType dtype, Sizes shape, const void* data,
                    size_t bytes, Location at) {
  Tensor tensor{name, static_cast<Usage>(usage), dtype, std::move(shape), 0, 0, {}};
  if (bytes > 0) {
    const auto* from = static_cast<const uint8_t*>(data);
    tensor.content.assign(from, from + bytes);
  }
  View view = program_->add_tensor(std::move(tensor), at);
  if (program_->ok()) view.program_ = program_;
  return view;
}

View Kernel::input(const std::string& name, DType dtype, Sizes shape, Location at) {
  return tensor(name, static_cast<int>(Usage::kInput), dtype, std::move(shape), nullptr, 0, at);
}

View Kernel::output(const std::string& name, DType dtype, Sizes shape, Location at) {
  return tensor(name, static_cast<int>(Usage::kOutput), dtype, std::move(shape), nullptr, 0, at);
}

View Kernel::constant(const std::string& name, DType dtype, Sizes shape, const void* data,
                      size_t bytes, Location at) {
  return tensor(name, static_cast<int>(Usage::kConstant), dtype, std::move(shape), data, bytes, at);
}

View Kernel::scratch(const std::string& name, DType dtype, Sizes shape, Location at) {
  return tensor(name, static_cast<int>(Usage::kScratch), dtype, std::move(shape), nullptr, 0, at);
}

Tile Kernel::tile(Space space, const Sizes& shape, DType dtype, const std::string& name,
                  int start_partition, Location at) {
  View view = program_->allocate(space, shape, dtype, name, start_partition, at);
  if (program_->ok()) view.program_ = program_;
  return Tile(std::move(view));
}

Tile Kernel::sbuf(Sizes shape, DType dtype, const std::string& name, int start_partition,
                  Location at) {
  return tile(Space::kSbuf, shape, dtype, name, start_partition, at);
}

Tile Kernel::psum(Sizes shape, DType dtype, const std::string& name, int start_partition,
                  Location at) {
  return tile(Space::kPsum, shape, dtype, name, start_partition, at);
}

Ring Kernel::ring(size_t tiles, const Sizes& shape, DType dtype, const std::string& name,
                  Space space, Location at) {
  std::vector<Tile> all;
  for (size_t i = 0; i < std::max<size_t>(tiles, 1); ++i) {
    all.push_back(tile(space, shape, dtype, name + std::to_string(i), 0, at));
  }
  return Ring(std::move(all));
}

int64_t Kernel::capacity(Space space) const {
  return program_->arena(space).capacity();
}

int64_t Kernel::largest_free(Space space) const {
  return program_->arena(space).largest_free(0, isa::kPartitions);
}

// ---- Transfers ----

void Kernel::load(const View& dst, const View& src, Engine trigger, Location at) {
  program_->add_copy({at, "load"}, dst, src,
                     number(trigger == Engine::kAuto ? Engine::kSync : trigger));
}

void Kernel::store(const View& dst, const View& src, Engine trigger, Location at) {
  program_->add_copy({at, "store"}, dst, src,
                     number(trigger == Engine::kAuto ? Engine::kGpSimd : trigger));
}

void Kernel::dma_copy(const View& dst, const View& src, Engine trigger, Location at) {
  program_->add_copy({at, "dma_copy"}, dst, src,
                     number(trigger == Engine::kAuto ? Engine::kSync : trigger));
}

// ---- The end ----

base::Status Kernel::status() const {
  return program_->error() ? base::Status(*program_->error()) : base::Status();
}

base::Result<std::vector<uint8_t>> Kernel::finish(Location at) {
  if (program_->check({at, "finish"}, {})) program_->close(at);
  if (program_->error()) return *program_->error();
  return make_neff(*program_);
}

base::Status Kernel::save(const std::string& path, Location at) {
  const base::Result<std::vector<uint8_t>> file = finish(at);
  if (!file) return file.error();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(file->data()),
            static_cast<std::streamsize>(file->size()));
  out.close();
  if (!out) return base::Error{base::Fault::kIo, errno, path, std::strerror(errno)};
  return {};
}

}  // namespace kernel
