// Registers, loops and branches.
#include "compute_cases.h"

namespace kernel_case {
namespace {

// Slices that numbers in a tile and in a tensor name, from and to tiles and tensors.
Case goes_by_registers() {
  const std::vector<float> x = numbers(kLanes * 64, 17);
  const std::vector<float> rows = numbers(6 * kLanes * 8, 18);
  const std::vector<uint16_t> places = {5, 60, 0, 31};
  const std::vector<uint32_t> row = {9, 4, 2};
  std::vector<float> y;
  std::vector<float> z(kLanes * 8 * 3, 0.0F);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (const uint16_t place : places) {
      for (size_t i = 0; i < 4; ++i) y.push_back(x[lane * 64 + place + i]);
    }
    for (size_t i = 0; i < 8; ++i) z[lane * 24 + 8 + i] = rows[4 * kLanes * 8 + lane * 8 + i];
  }
  // 5 * 60 + 31, stored as 16 bits in a tile, and times 2^32 as 64 bits in a tensor.
  const std::vector<uint16_t> sum = {331};
  const std::vector<uint64_t> wide = {uint64_t{331} << 32};
  return {
      [](Kernel& k) {
        const Tile in = loaded(k, "x", kF32, {128, 64});
        const Tile index = loaded(k, "places", kU16, {1, 4});
        const View table = k.input("rows", kF32, {6, 128, 8});
        const View number = k.input("row", kU32, {3});
        const View out64 = k.output("wide", DType::kUint64, {1});
        const Tile out = k.sbuf({128, 16}, kF32, "out");
        const Tile three = k.sbuf({128, 24}, kF32, "three");
        const Tile total = k.sbuf({1, 1}, kU16, "total");
        k.memset(three, 0.0);
        for (int i = 0; i < 4; ++i) {
          k.register_load(Engine::kVector, Register{1}, index.slice(1, i, 1));
          k.tensor_copy(out.slice(1, 4 * i, 4), in.slice(1, Register{1}, 4));
        }
        // GpSimd makes transfers on every generation.
        kernel::Transfer how;
        how.generate = kernel::Generate::kSoftware;
        k.register_load(Engine::kGpSimd, Register{2}, number.slice(0, 1, 1));
        k.set_register(Engine::kGpSimd, 3, 1);
        k.dma_copy(three.reshape({128, 3, 8}).slice(1, Register{3}, 1).reshape({128, 8}),
                   table.slice(0, Register{2}, 1).reshape({128, 8}), how);
        using kernel::Alu;
        k.register_load(Engine::kSync, Register{4}, index.slice(1, 0, 1));
        k.register_load(Engine::kSync, Register{5}, index.slice(1, 1, 1));
        k.register_load(Engine::kSync, Register{6}, index.slice(1, 3, 1));
        k.register_alu(Engine::kSync, Register{4}, Alu::kMultiply, Register{4}, Register{5});
        k.register_alu(Engine::kSync, Register{4}, Alu::kAdd, Register{4}, Register{6});
        k.register_store(Engine::kSync, total, Register{4});
        k.set_register(Engine::kSync, 5, 0);
        k.register_alu64(Engine::kSync, Register{8}, Alu::kShiftLeft, Register{4}, 32);
        k.register_store(Engine::kSync, out64, Register{8});
        stored(k, "y", out);
        stored(k, "z", three);
        stored(k, "sum", total);
      },
      {{"x", bytes_of(x)},
       {"places", bytes_of(places)},
       {"rows", bytes_of(rows)},
       {"row", bytes_of(row)}},
      {{"y", bytes_of(y)}, {"z", bytes_of(z)}, {"sum", bytes_of(sum)}, {"wide", bytes_of(wide)}}};
}

// Loops in a loop: c[i, j] = a[i] + b[j], in a tile, with a static transfer in each outer turn, and
// counts of the inner turns that differ from turn to turn.
Case loops_in_loops() {
  constexpr size_t kI = 3, kJ = 4, kN = 5;
  const std::vector<float> a = numbers(kI * kLanes * kN, 19);
  const std::vector<float> b = numbers(kJ * kLanes * kN, 20);
  const std::vector<float> one = numbers(kLanes * kN, 21);
  const std::vector<uint32_t> count = {4, 0, 2};
  std::vector<float> c(kLanes * kI * kJ * kN);
  for (size_t at = 0; at < c.size(); ++at) {
    const size_t n = at % kN, j = at / kN % kJ, i = at / (kN * kJ) % kI, lane = at / (kN * kJ * kI);
    if (j >= count[i]) continue;
    c[at] = a[(i * kLanes + lane) * kN + n] + b[(j * kLanes + lane) * kN + n] + one[lane * kN + n];
  }
  return {
      [](Kernel& k) {
        const View x = k.input("a", kF32, {kI, 128, kN});
        const View y = k.input("b", kF32, {kJ, 128, kN});
        const View z = k.input("one", kF32, {128, kN});
        const View number = k.input("count", kU32, {kI});
        const Tile from_x = k.sbuf({128, kN}, kF32, "from x");
        const Tile from_y = k.sbuf({128, kN}, kF32, "from y");
        const Tile out = k.sbuf({128, kI * kJ * kN}, kF32, "out");
        k.memset(out, 0.0);
        k.for_loop(kI, [&](const Index& i) {
          k.dma_compute(from_x, {z});  // the same in each turn
          k.load(from_y, x.slice(0, i, 1).reshape({128, kN}));
          k.tensor_tensor(from_x, from_x, from_y, Op::kAdd);
          k.for_loop({number.slice(0, i, 1), kJ}, [&](const Index& j) {
            k.load(from_y, y.slice(0, j, 1).reshape({128, kN}));
            k.tensor_tensor(out.slice(1, i * (kJ * kN), kJ * kN).slice(1, j * kN, kN), from_x,
                            from_y, Op::kAdd);
          });
        });
        stored(k, "c", out);
      },
      {{"a", bytes_of(a)}, {"b", bytes_of(b)}, {"one", bytes_of(one)}, {"count", bytes_of(count)}},
      {{"c", bytes_of(c)}}};
}

// Doubles x until it is past the limit, which a tile says; then goes one way or the other.
Case decides(int32_t limit) {
  int32_t n = 3;
  int32_t turns = 0;
  while (n < limit && turns < 20) n *= 2, ++turns;
  const std::vector<int32_t> start = {3};
  const std::vector<int32_t> stop = {limit};
  const std::vector<int32_t> way = {turns > 4 ? 111 : 222};
  const std::vector<int32_t> last = {limit < 0 ? 1 : 0};
  return {[](Kernel& k) {
            const View bound = k.input("limit", kI32, {1});
            const Tile x = loaded(k, "start", kI32, {1, 1});
            const Tile top = k.sbuf({1, 1}, kI32, "top");
            const Tile less = k.sbuf({1, 1}, kI32, "less");
            const Tile turns = k.sbuf({1, 1}, kI32, "turns");
            const Tile way = k.sbuf({1, 1}, kI32, "way");
            const Tile negative = k.sbuf({1, 1}, kI32, "negative");
            k.load(top, bound.reshape({1, 1}));
            k.memset(turns, 0);
            k.memset(negative, 0);
            k.tensor_tensor(less, x, top, Op::kLess, Engine::kVector);
            k.while_loop({less}, 20, [&](const Index&) {
              k.tensor_tensor(x, x, x, Op::kAdd);
              k.tensor_scalar(turns, turns, {Op::kAdd, 1.0});
              k.tensor_tensor(less, x, top, Op::kLess, Engine::kVector);
            });
            k.branch(
                {turns, Op::kGreater, 4}, [&] { k.memset(way, 111); }, [&] { k.memset(way, 222); });
            k.branch({bound, Op::kLess, 0}, [&] { k.memset(negative, 1); });
            stored(k, "n", x);
            stored(k, "turned", turns);
            stored(k, "way", way);
            stored(k, "negative", negative);
          },
          {{"start", bytes_of(start)}, {"limit", bytes_of(stop)}},
          {{"n", bytes_of(std::vector<int32_t>{n})},
           {"turned", bytes_of(std::vector<int32_t>{turns})},
           {"way", bytes_of(way)},
           {"negative", bytes_of(last)}}};
}

}  // namespace

Cases control_cases() {
  return {{"goes_by_registers", goes_by_registers()},
          {"loops_in_loops", loops_in_loops()},
          {"decides", decides(1000)},
          {"decides_soon", decides(20)},
          {"decides_at_once", decides(-5)}};
}

}  // namespace kernel_case
