// The kernel builder: C++ that writes a kernel for one NeuronCore and gets a NEFF that any program
// loads (docs/kernels.md).
//
//   kernel::Kernel k({"add"});
//   auto a = k.input("a", kernel::DType::kFloat32, {128, 512});
//   auto b = k.input("b", kernel::DType::kFloat32, {128, 512});
//   auto c = k.output("c", kernel::DType::kFloat32, {128, 512});
//   auto x = k.sbuf({128, 512}, kernel::DType::kFloat32, "x");
//   auto y = k.sbuf({128, 512}, kernel::DType::kFloat32, "y");
//   k.load(x, a);
//   k.load(y, b);
//   k.tensor_tensor(x, x, y, kernel::Op::kAdd);
//   k.store(c, x);
//   base::Result<std::vector<uint8_t>> neff = k.finish();
//
// Calls are recorded in order and mean what they would mean if each were complete before the next.
// Engines and transfers run at the same time all the same: the builder knows what every call reads
// and writes, and lets an engine wait, by semaphores, for exactly those earlier ones of others that
// it must come after. C++ loops are unrolled: but for for_loop(), while_loop() and branch(), a
// kernel is straight-line code for each engine.
//
// Errors: the first mistake is kept, with the line of the kernel, and finish() returns it; later
// calls do nothing. So a kernel is written without checks, and nothing throws.
//
// Semaphores: 0 to 4 count completed instructions of an engine, 16 from 16 on the transfers of each
// queue set in turn: a semaphore is used again only when its last transfer is known to be complete,
// so that its value says of every queue that it is through. 5 to 8 count the completed collectives
// of a stream. They are all back at 0 at the end.
//
// Loops and branches have further ones, 9 to 13, for a barrier; around each turn everything else is
// 0.
//
// Registers: 0 to 31 of each engine are the kernel's, the others those of loops and addresses.
//
// Missing: turns that overlap, collectives in loops and on tiles, permutes and collectives of
// variable size, two cores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernel_operands.h"
#include "kernel_view.h"

namespace kernel {

class __attribute__((visibility("default"))) Kernel {
 public:
  struct Params {
    std::string name = "kernel";
    Generation generation = Generation::kV2;
    // DMA engines that each transfer is spread over, 1 to 16; a queue of each.
    unsigned dma_engines = 16;
  };
  using Sizes = View::Sizes;

  explicit Kernel(Params params);

  // ---- Memory ----
  // Tensors in HBM, row-major. Inputs and outputs are bound by name when the NEFF is executed.
  View input(const std::string& name, DType dtype, Sizes shape, Location at = Location::here());
  View output(const std::string& name, DType dtype, Sizes shape, Location at = Location::here());
  View constant(const std::string& name, DType dtype, Sizes shape, const void* data, size_t bytes,
                Location at = Location::here());
  View scratch(const std::string& name, DType dtype, Sizes shape, Location at = Location::here());

  // A tile: shape[0] partitions from `start_partition` on, the rest in each of them.
  Tile sbuf(Sizes shape, DType dtype, const std::string& name, int start_partition = 0,
            Location at = Location::here());
  Tile psum(Sizes shape, DType dtype, const std::string& name, int start_partition = 0,
            Location at = Location::here());
  Ring ring(size_t tiles, const Sizes& shape, DType dtype, const std::string& name,
            Space space = Space::kSbuf, Location at = Location::here());

  // Bytes in each partition: all there are for tiles, and the largest piece that is free in all.
  int64_t capacity(Space space) const;
  int64_t largest_free(Space space) const;

  // ---- Transfers, from and to HBM and SBUF; elements in row-major order, converted if need be
  // ----
  void load(const View& dst, const View& src, Engine trigger = Engine::kSync,
            Location at = Location::here());
  void store(const View& dst, const View& src, Engine trigger = Engine::kGpSimd,
             Location at = Location::here());
  void dma_copy(const View& dst, const View& src, Engine trigger = Engine::kSync,
                Location at = Location::here());

  void dma_copy(const View& dst, const View& src, const Transfer& how,
                Location at = Location::here());
  // Row by row of a tensor in HBM: dst[p] = tensor[index[p]], and tensor[index[p]] = src[p], with
  // one uint32 or int32 index in each partition. By GpSimd, on v3 and later. With `accumulate` rows
  // are added; those of store_rows that share an index need `repeated`.
  void load_rows(const View& dst, const View& tensor, const View& index, const Transfer& how = {},
                 Location at = Location::here());
  void store_rows(const View& tensor, const View& src, const View& index, const Transfer& how = {},
                  bool repeated = false, Location at = Location::here());
  // The first and the last dimension of src change places on the way to dst: types of 2 and 4
  // bytes. kHardware, on v3 and later: to a tile, 2 bytes, a multiple of 16 rows, up to 128
  // columns.
  void dma_transpose(const View& dst, const View& src, const Transfer& how = {},
                     Location at = Location::here());
  // The same of rows that an index names: dst[c, i] = tensor[index[i], c], for each of the index's
  // elements, column by column. By GpSimd.
  void load_rows_transposed(const View& dst, const View& tensor, const View& index,
                            const Transfer& how = {}, Location at = Location::here());
  // dst = fold of up to 16 sources of one type.
  void dma_compute(const View& dst, const std::vector<View>& srcs, const Fold& fold = {},
                   Engine trigger = Engine::kSync, Location at = Location::here());

  // ---- Collectives: contiguous views of tensors in HBM, of one type (spec/neff.md 4) ----
  // Every rank executes the same kernel, loaded with nrt_load_collectives; in groups of one rank
  // they are copies, and nrt_load will do. n is the number of ranks in a list.
  // dst = op (kAdd, kMin, kMax) over the ranks of src; dst may be src.
  void all_reduce(const View& dst, const View& src, Op op, const Group& group,
                  const Stream& stream = {}, Location at = Location::here());
  // dst: the n srcs, one after the other.
  void all_gather(const View& dst, const View& src, const Group& group, const Stream& stream = {},
                  Location at = Location::here());
  // Part `index` of n of what all_reduce would give.
  void reduce_scatter(const View& dst, const View& src, Op op, const Group& group,
                      const Stream& stream = {}, Location at = Location::here());
  // Part i of dst is part `index` of the src of rank i of the list.
  void all_to_all(const View& dst, const View& src, const Group& group, const Stream& stream = {},
                  Location at = Location::here());

  // ---- Compute (spec/engine-isa.md 10) ----
  void tensor_tensor(const View& dst, const View& a, const View& b, Op op,
                     Engine engine = Engine::kAuto, Location at = Location::here());
  void tensor_scalar(const View& dst, const View& src, const Step& first, const Step& second = {},
                     Engine engine = Engine::kAuto, Location at = Location::here());
  void scalar_tensor_tensor(const View& dst, const View& src, const Step& first, Op second,
                            const View& other, bool reverse = false,
                            Location at = Location::here());
  // r = (a op0 r) op1 b along the stream, from `initial` on.
  // Reversed: r op0 a, b op1 what comes of it.
  void tensor_tensor_scan(const View& dst, const View& a, const View& b, const Scalar& initial,
                          Op op0, Op op1, bool reverse0 = false, bool reverse1 = false,
                          Location at = Location::here());
  void tensor_copy(const View& dst, const View& src, Engine engine = Engine::kAuto,
                   Location at = Location::here());
  void reciprocal(const View& dst, const View& src, Location at = Location::here());
  void memset(const View& dst, double value, Engine engine = Engine::kAuto,
              Location at = Location::here());
  void iota(const View& dst, const Affine& values, Location at = Location::here());
  // dst = (values compare 0) ? src : fill.
  void affine_select(const View& dst, const View& src, const Affine& values, Op compare,
                     double fill, Location at = Location::here());

  // Where the predicate is not 0 (reverse: is 0), dst = src.
  void copy_predicated(const View& dst, const View& src, const View& predicate,
                       bool reverse = false, Location at = Location::here());
  // The same with one number for all elements of a partition.
  void copy_predicated(const View& dst, const Scalar& src, const View& predicate,
                       bool reverse = false, Location at = Location::here());
  // dst = predicate (of 8 or 16 bits) is not 0 (reverse: is 0) ? on_true : on_false; the largest
  // goes into Vector's accumulators.
  void select_reduce(const View& dst, const View& predicate, const View& on_true,
                     const Scalar& on_false, bool reverse = false, Reduce reduce = Reduce::kIdle,
                     Location at = Location::here());
  // dst = inside of the range ? src : its fill, whose largest goes into Vector's accumulators. On
  // v3 and later.
  void range_select(const View& dst, const View& src, const Range& range,
                    Reduce reduce = Reduce::kResetReduce, Location at = Location::here());
  // dst = exp(src - maximum), whose sum goes into Vector's accumulators. NeuronCore v4.
  void exponential(const View& dst, const View& src, const Scalar& maximum = 0.0,
                   Reduce reduce = Reduce::kIdle, const Scalar& initial = 0.0,
                   Location at = Location::here());
  // In each partition: dst[i] = src[index[i]], uint32 indices.
  void gather(const View& dst, const View& src, const View& index, Location at = Location::here());
  // In each group of 16 partitions with the uint16 indices I, number j in partition j mod 16 of the
  // group, column j / 16: dst[p, j * width + t] = src[p, I[j] + t], t < width, a power of two up to
  // 32.
  void local_gather(const View& dst, const View& src, const View& index, int width = 1,
                    Location at = Location::here());
  // In each quadrant of 32 partitions: partition i of dst is partition mask[i] of src, or stays as
  // it is where mask[i] is 255.
  void stream_shuffle(const View& dst, const View& src, const std::vector<uint8_t>& mask,
                      Location at = Location::here());
  // dst (columns x partitions) = src transposed, up to 32 x 32; or of tiles that are equally large
  // and have multiples of 32 on both sides: each block of 32 x 32, where it is. By Vector, bit by
  // bit.
  void transpose_blocks(const View& dst, const View& src, Location at = Location::here());

  // Folds the innermost `dims` dimensions of src.
  void tensor_reduce(const View& dst, const View& src, Op op, size_t dims = 1, bool negate = false,
                     Location at = Location::here());
  void tensor_scalar_reduce(const View& dst, const View& src, const Step& step, Op reduce_op,
                            Reduce reduce = Reduce::kResetReduce, const Scalar& initial = 0.0,
                            Location at = Location::here());
  void activation(const View& dst, const View& src, const Activation& what,
                  Location at = Location::here());
  // activation() into fresh accumulators, then read_accumulator().
  void activation_reduce(const View& dst, const View& result, const View& src, Activation what,
                         Location at = Location::here());
  // NeuronCore v4.
  void activation2(const View& dst, const View& src, const Activation2& what,
                   Location at = Location::here());
  // Has Scalar load the function's table now, not when an activation needs it.
  void load_function(Function function, Location at = Location::here());
  void read_accumulator(const View& dst, Engine engine, bool negate = false,
                        Location at = Location::here());

  // acc = (src op operand) `op` acc along the stream, each of which is stored.
  void tensor_scalar_cumulative(const View& dst, const View& src, const Step& step, Op op,
                                Reduce reduce = Reduce::kResetReduce, const Scalar& initial = 0.0,
                                Location at = Location::here());
  // Count, mean and variance times count, of even and of odd elements; then their mean and
  // variance.
  void bn_stats(const View& dst, const View& src, Location at = Location::here());
  void bn_aggregate(const View& dst, const View& src, Location at = Location::here());
  // Folds the partitions into one.
  void partition_reduce(const View& dst, const View& src, Op op, bool average = false,
                        Location at = Location::here());
  // The eight largest elements, descending; where values are first.
  void max8(const View& dst, const View& src, Location at = Location::here());
  void find_index8(const View& dst, const View& src, const View& values,
                   Location at = Location::here());
  // dst = src, where the first place of each of eight values, the last value first, is `fill`;
  // index (uint16 or uint32), if given, takes the places.
  void match_replace8(const View& dst, const View& src, const View& values, double fill,
                      const View& index = View(), Location at = Location::here());
  // In each group of 16 partitions with n values of src, number i in partition i mod 16 of the
  // group, column i / 16: dst are the largest ones, ascending, index (uint32) their numbers.
  // bfloat16.
  void topk(const View& dst, const View& index, const View& src, int64_t n,
            Location at = Location::here());
  // In partitions 0, 16, ... only: the places of elements of src (int32, float32) that are not 0,
  // plus offset, then padding; the last element of dst (int32), one more than src has, is their
  // number. On v3 and later.
  void nonzero_with_count(const View& dst, const View& src, int32_t offset = 0,
                          int32_t padding = -1, Location at = Location::here());
  // Of one partition: for each element of ids the place where its run of equal ones begins, then
  // for each the one behind it; n and -1 where an id is 0. int32 or float32.
  void sequence_bounds(const View& dst, const View& ids, Location at = Location::here());

  // ---- Random numbers (spec/engine-isa.md 10.5): engines have generators of their own ----
  // Random bits of integers. GpSimd on v3 and later.
  void rng(const View& dst, Engine engine = Engine::kVector, Location at = Location::here());
  // Uniform numbers from `low` up to, without, `high`. NeuronCore v4.
  void rand2(const View& dst, const Scalar& low, const Scalar& high,
             Location at = Location::here());
  // dst = src, or 0 with this probability; keep: 0 unless with it.
  void dropout(const View& dst, const View& src, const Scalar& probability, bool keep = false,
               Location at = Location::here());
  // One element of 4 bytes of one partition seeds Vector's generators.
  void set_rng_seed(const View& src, Location at = Location::here());
  // uint32: 6 of each partition for GpSimd (v3 and later), 24 for Vector (v4).
  void rand_get_state(const View& dst, Engine engine = Engine::kGpSimd,
                      Location at = Location::here());
  void rand_set_state(const View& src, Engine engine = Engine::kGpSimd,
                      Location at = Location::here());

  // dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n]; k and m are partitions.
  void matmul(const View& dst, const View& stationary, const View& moving,
              Accumulate accumulate = Accumulate::kOverwrite, Location at = Location::here());
  void matmul(const View& dst, const View& stationary, const View& moving, const Product& how,
              Location at = Location::here());
  // The two halves of it: weights stay until the next ones.
  // Tiles of the array begin at the first partition of stationary, and at `column`, the first
  // partition of dst.
  void load_weights(const View& stationary, int column = 0, Location at = Location::here());
  void load_weights(const View& stationary, int column, const Product& how,
                    Location at = Location::here());
  void multiply(const View& dst, const View& moving, Accumulate accumulate = Accumulate::kOverwrite,
                Location at = Location::here());
  void multiply(const View& dst, const View& moving, const Product& how,
                Location at = Location::here());
  // ---- Numbers with scales of groups (spec/engine-isa.md 5.6), NeuronCore v4 ----
  // Operands have elements of four numbers: K = 4 x partitions, which are 32, 64, 96 or 128. A
  // scale tile (kFloat8e8 or kUint8) has one element for each element of its operand and group of 8
  // partitions, the four of a quadrant in its first partitions, or 4, 8 or 12 further on if it
  // begins there; it may have as many partitions as the operand, or 28 fewer, which are all it
  // uses. src is float16 or bfloat16, with four times the elements of dst, which is of 8-bit
  // floats.
  void quantize_mx(const View& dst, const View& scale, const View& src,
                   Location at = Location::here());
  // dst[m, n] (+)= sum over partitions p and numbers j of stationary[p, m, j] * moving[p, n, j],
  // each times its scale. M is even.
  void matmul_mx(const View& dst, const View& stationary, const View& stationary_scale,
                 const View& moving, const View& moving_scale,
                 Accumulate accumulate = Accumulate::kOverwrite, Location at = Location::here());
  // The two halves of it.
  void load_weights_mx(const View& stationary, const View& scale, Location at = Location::here());
  void multiply_mx(const View& dst, const View& moving, const View& scale,
                   Accumulate accumulate = Accumulate::kOverwrite, Location at = Location::here());

  // dst (PSUM) = src transposed, by a product with a square identity of src's partitions. From
  // NeuronCore v3 on bit by bit, with dst of src's type.
  void transpose(const View& dst, const View& src, const View& identity,
                 Location at = Location::here());
  // Ones on the diagonal, zeros elsewhere.
  void identity(const View& dst, Location at = Location::here());

  // ---- Registers of one engine: 0 to 31, of 32 bits ----
  void set_register(Engine engine, uint8_t number, uint32_t value, Location at = Location::here());
  // to = a op b; b: a number or a register. The 64-bit form works on pairs of registers, the one
  // that is named and the next one, which has the high half; a number has a high half of 0.
  void register_alu(Engine engine, Register to, Alu op, Register a, const Scalar& b,
                    Location at = Location::here());
  void register_alu64(Engine engine, Register to, Alu op, Register a, const Scalar& b,
                      Location at = Location::here());
  // One element of a tensor, or of a tile in SBUF: integers of less than 32 bits are extended. Of a
  // tensor 8 bytes, too, from and to a pair.
  void register_load(Engine engine, Register to, const View& cell, Location at = Location::here());
  void register_store(Engine engine, const View& cell, Register from,
                      Location at = Location::here());
  // The rank of this core among those that the kernel was loaded with; 0 without.
  void rank_id(Engine engine, Register to, Location at = Location::here());

  // ---- Loops and branches ----
  // `body` is called once and writes the code of all turns, in which views move by slices with the
  // index that it is given. Transfers of what moves are generated, by hardware where that can do
  // them. Between two turns everything is complete. Up to 4 loops may lie in one another. Weights
  // of products do not survive the beginning or the end.
  void for_loop(const Trips& trips, const std::function<void(Index)>& body,
                Location at = Location::here());
  // Turns as long as the condition is met before each of them, at most `most`.
  void while_loop(const Condition& condition, int64_t most, const std::function<void(Index)>& body,
                  Location at = Location::here());
  // Either of them, each of which is called once; what they write is executed as if in a loop.
  void branch(const Condition& condition, const std::function<void()>& then,
              const std::function<void()>& otherwise = {}, Location at = Location::here());

  // ---- The end ----
  // The first mistake so far.
  base::Status status() const;
  // The file. The kernel takes no more calls afterwards.
  base::Result<std::vector<uint8_t>> finish(Location at = Location::here());
  // The same into a file.
  base::Status save(const std::string& path, Location at = Location::here());

 private:
  void product(const char* name, const View& dst, const View& moving, const Product& how,
               bool transpose, Location at);
  bool fits(const char* name, const View& dst, const View& moving, int slices, bool mx,
            Location at);
  View tensor(const std::string& name, int usage, DType dtype, Sizes shape, const void* data,
              size_t bytes, Location at);
  Tile tile(Space space, const Sizes& shape, DType dtype, const std::string& name,
            int start_partition, Location at);

  std::shared_ptr<Program> program_;
};

}  // namespace kernel
