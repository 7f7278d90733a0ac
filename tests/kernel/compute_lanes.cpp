// Instructions on lanes: shuffles, selections and searches, element by element, random numbers.
#include <algorithm>

#include "compute_cases.h"

namespace kernel_case {
namespace {

// ---- Lanes ----

Case shuffles() {
  const std::vector<float> x = numbers(kLanes * 40, 1);
  std::vector<float> y(kLanes * 40, 7.0F);
  std::vector<uint8_t> mask;
  for (uint8_t i = 0; i < 32; ++i)
    mask.push_back(i % 5 == 4 ? 255 : static_cast<uint8_t>(i * 7 % 32));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (mask[lane % 32] == 255) continue;
    const size_t from = lane / 32 * 32 + mask[lane % 32];
    std::copy_n(x.begin() + static_cast<long>(from * 40), 40,
                y.begin() + static_cast<long>(lane * 40));
  }
  return {[=](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 40});
            const Tile out = k.sbuf({128, 40}, kF32, "out");
            k.memset(out, 7.0);
            k.stream_shuffle(out, in, mask);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

Case turns_blocks() {
  const std::vector<float> x = numbers(kLanes * 64, 2);
  const std::vector<float> small = numbers(8 * 20, 3);
  std::vector<float> y(kLanes * 64);
  std::vector<float> turned(20 * 8);
  for (size_t r = 0; r < kLanes; ++r) {
    for (size_t c = 0; c < 64; ++c) {
      y[(r / 32 * 32 + c % 32) * 64 + c / 32 * 32 + r % 32] = x[r * 64 + c];
    }
  }
  for (size_t r = 0; r < 8; ++r) {
    for (size_t c = 0; c < 20; ++c) turned[c * 8 + r] = small[r * 20 + c];
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 64});
            const Tile few = loaded(k, "small", kF32, {8, 20});
            const Tile out = k.sbuf({128, 64}, kF32, "out");
            const Tile back = k.sbuf({20, 8}, kF32, "back");
            k.transpose_blocks(out, in);
            k.transpose_blocks(back, few);
            stored(k, "y", out);
            stored(k, "turned", back);
          },
          {{"x", bytes_of(x)}, {"small", bytes_of(small)}},
          {{"y", bytes_of(y)}, {"turned", bytes_of(turned)}}};
}

Case gathers_locally() {
  const std::vector<float> x = numbers(kLanes * 50, 4);
  std::vector<uint16_t> index(kLanes * 2);
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<uint16_t>(i * 37 % 47);
  std::vector<float> y(kLanes * 24 * 4);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t j = 0; j < 24; ++j) {
      const size_t from = index[(lane / 16 * 16 + j % 16) * 2 + j / 16];
      for (size_t t = 0; t < 4; ++t) {
        y[lane * 96 + j * 4 + t] = from + t < 50 ? x[lane * 50 + from + t] : 0;
      }
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 50});
            const Tile places = loaded(k, "index", kU16, {128, 2});
            const Tile out = k.sbuf({128, 96}, kF32, "out");
            k.local_gather(out, in, places, 4);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}, {"index", bytes_of(index)}},
          {{"y", bytes_of(y)}}};
}

// ---- Selections and searches ----

Case selects() {
  const std::vector<float> x = numbers(kLanes * 30, 5);
  std::vector<uint8_t> mask(kLanes * 30);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i * 5 % 3 == 0 ? static_cast<uint8_t>(i) : 0;
  std::vector<float> y;
  std::vector<float> z;
  std::vector<float> most(kLanes, -1e30F);
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(mask[i] != 0 ? x[i] : -600.0F);
    z.push_back(mask[i] == 0 ? 2.5F : x[i]);
    most[i / 30] = std::max(most[i / 30], y[i]);
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 30});
            const Tile chosen = loaded(k, "mask", kU8, {128, 30});
            const Tile out = k.sbuf({128, 30}, kF32, "out");
            const Tile largest = k.sbuf({128, 1}, kF32, "largest");
            k.select_reduce(out, chosen, in, -600.0, false, Reduce::kResetReduce);
            k.read_accumulator(largest, Engine::kVector);
            k.copy_predicated(in, 2.5, chosen, true);
            stored(k, "y", out);
            stored(k, "z", in);
            stored(k, "most", largest);
          },
          {{"x", bytes_of(x)}, {"mask", bytes_of(mask)}},
          {{"y", bytes_of(y)}, {"z", bytes_of(z)}, {"most", bytes_of(most)}}};
}

// A causal mask: lane p of block 1 sees columns up to 128 + p.
Case selects_ranges() {
  const std::vector<float> x = numbers(kLanes * 200, 6);
  std::vector<float> y;
  std::vector<float> most(kLanes, -1e30F);
  std::vector<float> last(kLanes);
  for (size_t lane = 0; lane < kLanes; ++lane) last[lane] = static_cast<float>(64 + lane);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto column = static_cast<float>(i % 200);
    y.push_back(column + 3 >= 20 && column + 3 <= last[i / 200] ? x[i] : -4096.0F);
    most[i / 200] = std::max(most[i / 200], y[i]);
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 200});
            const Tile bound = loaded(k, "last", kF32, {128, 1});
            const Tile out = k.sbuf({128, 200}, kF32, "out");
            const Tile largest = k.sbuf({128, 1}, kF32, "largest");
            k.range_select(out, in, {Op::kGreaterEqual, 20, Op::kLessEqual, bound, 3, -4096});
            k.read_accumulator(largest, Engine::kVector);
            stored(k, "y", out);
            stored(k, "most", largest);
          },
          {{"x", bytes_of(x)}, {"last", bytes_of(last)}},
          {{"y", bytes_of(y)}, {"most", bytes_of(most)}}};
}

// The sixteen largest of each row, by two searches, and where they are.
Case replaces() {
  const std::vector<float> x = numbers(kLanes * 90, 7, 1 << 20);
  std::vector<float> best(kLanes * 16);
  std::vector<uint32_t> places(kLanes * 8);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<float> row(x.begin() + static_cast<long>(lane * 90),
                           x.begin() + static_cast<long>(lane * 90 + 90));
    std::vector<float> sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    std::copy_n(sorted.begin(), 16, best.begin() + static_cast<long>(lane * 16));
    // From the last value to the first: the earliest place is that of the last equal value.
    for (size_t i = 8; i-- > 0;) {
      const auto at = std::find(row.begin(), row.end(), sorted[i]);
      places[lane * 8 + i] = static_cast<uint32_t>(at - row.begin());
      *at = -1e30F;
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 90});
            const Tile found = k.sbuf({128, 16}, kF32, "found");
            const Tile where = k.sbuf({128, 8}, kU32, "where");
            k.max8(found.slice(1, 0, 8), in);
            k.match_replace8(in, in, found.slice(1, 0, 8), -1e30, where);
            k.max8(found.slice(1, 8, 8), in);
            stored(k, "best", found);
            stored(k, "places", where);
          },
          {{"x", bytes_of(x)}},
          {{"best", bytes_of(best)}, {"places", bytes_of(places)}}};
}

Case searches() {
  constexpr size_t kN = 150, kK = 6;  // of each group of 16 lanes, 10 columns
  std::vector<float> x(kLanes * 10);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 251);
  std::vector<float> largest(kLanes * kK);
  std::vector<uint32_t> index(kLanes * kK);
  for (size_t group = 0; group < kLanes; group += 16) {
    std::vector<std::pair<float, uint32_t>> all;
    for (uint32_t i = 0; i < kN; ++i) all.push_back({x[(group + i % 16) * 10 + i / 16], i});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.first < b.first || (a.first == b.first && a.second > b.second);
    });
    for (size_t lane = group; lane < group + 16; ++lane) {
      for (size_t i = 0; i < kK; ++i) {
        largest[lane * kK + i] = all[kN - kK + i].first;
        index[lane * kK + i] = all[kN - kK + i].second;
      }
    }
  }
  const std::vector<float> ids = {0, 1, 1, 2, 2, 2, 0, 3, 3};
  const std::vector<int32_t> bounds = {9, 1, 1, 3, 3, 3, 9, 7, 7, -1, 3, 3, 6, 6, 6, -1, 9, 9};
  return {[=](Kernel& k) {
            const Tile in = loaded(k, "x", kBf16, {128, 10});
            const Tile runs = loaded(k, "ids", kF32, {1, 9});
            const Tile values = k.sbuf({128, kK}, kBf16, "values");
            const Tile where = k.sbuf({128, kK}, kU32, "where");
            const Tile ends = k.sbuf({1, 18}, kI32, "ends");
            k.topk(values, where, in, kN);
            k.sequence_bounds(ends, runs);
            stored(k, "largest", values);
            stored(k, "index", where);
            stored(k, "bounds", ends);
          },
          {{"x", bytes_of(to_bf16(x))}, {"ids", bytes_of(ids)}},
          {{"largest", bytes_of(to_bf16(largest))},
           {"index", bytes_of(index)},
           {"bounds", bytes_of(bounds)}}};
}

Case finds_nonzeros() {
  std::vector<int32_t> x(kLanes * 12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i * 11 % 4 == 0 ? static_cast<int32_t>(i) : 0;
  std::vector<int32_t> y(kLanes * 13, 77);
  for (size_t lane = 0; lane < kLanes; lane += 16) {
    int32_t* row = &y[lane * 13];
    std::fill_n(row, 12, -2);
    int32_t count = 0;
    for (int32_t i = 0; i < 12; ++i) {
      if (x[lane * 12 + static_cast<size_t>(i)] != 0) row[count++] = i + 100;
    }
    row[12] = count;
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kI32, {128, 12});
            const Tile out = k.sbuf({128, 13}, kI32, "out");
            k.memset(out, 77);
            k.nonzero_with_count(out, in, 100, -2);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// ---- Element by element ----

Case scans_in_reverse() {
  const std::vector<float> x = numbers(kLanes * 20, 8, 16);
  std::vector<float> y;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    float r = 1;
    for (size_t i = 0; i < 20; ++i) {
      const float v = x[lane * 20 + i];
      r = v - (r - v);  // b reversed-subtract (r reversed-subtract a)
      y.push_back(r);
    }
  }
  return {[](Kernel& k) {
            const Tile in = loaded(k, "x", kF32, {128, 20});
            const Tile out = k.sbuf({128, 20}, kF32, "out");
            k.tensor_tensor_scan(out, in, in, 1.0, Op::kSubtract, Op::kSubtract, true, true);
            stored(k, "y", out);
          },
          {{"x", bytes_of(x)}},
          {{"y", bytes_of(y)}}};
}

// relu(b - 2 x) and its largest; exp of what is 0 or infinitely small, and its sum.
Case activates() {
  const std::vector<float> x = numbers(kLanes * 25, 9);
  const std::vector<float> b = numbers(kLanes, 10);
  std::vector<float> y;
  std::vector<float> most(kLanes, -1e30F);
  std::vector<float> e;
  std::vector<float> sum(kLanes, 3.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(std::max(0.0F, b[i / 25] - 2 * x[i]));
    most[i / 25] = std::max(most[i / 25], y[i]);
    e.push_back(y[i] == 0 ? 1.0F : 0.0F);
    sum[i / 25] += e[i];
  }
  return {
      [](Kernel& k) {
        const Tile in = loaded(k, "x", kF32, {128, 25});
        const Tile bias = loaded(k, "b", kF32, {128, 1});
        const Tile out = k.sbuf({128, 25}, kF32, "out");
        const Tile in_psum = k.psum({128, 25}, kF32, "in psum");
        const Tile powers = k.sbuf({128, 25}, kF32, "powers");
        const Tile largest = k.sbuf({128, 1}, kF32, "largest");
        const Tile total = k.sbuf({128, 1}, kF32, "total");
        kernel::Activation2 what;
        what.function = kernel::Function::kRelu;
        what.first = {Op::kMultiply, 2.0};
        what.second = {Op::kSubtract, bias, true};
        what.reduce = Reduce::kResetReduce;
        what.reduce_op = Op::kMax;
        k.activation2(out, in, what);
        k.read_accumulator(largest, Engine::kScalar);
        k.tensor_scalar(in_psum, out, {Op::kMultiply, -1000.0}, {Op::kAdd, 5.0});
        k.exponential(powers, in_psum, 5.0, Reduce::kLoadReduce, 3.0);
        k.read_accumulator(total, Engine::kVector);
        stored(k, "y", out);
        stored(k, "most", largest);
        stored(k, "e", powers);
        stored(k, "sum", total);
      },
      {{"x", bytes_of(x)}, {"b", bytes_of(b)}},
      {{"y", bytes_of(y)}, {"most", bytes_of(most)}, {"e", bytes_of(e)}, {"sum", bytes_of(sum)}}};
}

// ---- Random numbers ----

// The same seed gives the same bits; dropping nothing, and everything, is exact.
Case seeds() {
  const std::vector<uint32_t> seed = {4711};
  const std::vector<float> x = numbers(kLanes * 64, 11);
  return {[](Kernel& k) {
            const Tile s = loaded(k, "seed", kU32, {1, 1});
            const Tile in = loaded(k, "x", kF32, {128, 64});
            const Tile a = k.sbuf({128, 64}, kU32, "a");
            const Tile b = k.sbuf({128, 64}, kU32, "b");
            const Tile c = k.sbuf({128, 64}, kU32, "c");
            const Tile equal = k.sbuf({128, 64}, kU8, "equal");
            k.set_rng_seed(s);
            k.rng(a);
            k.rng(c);
            k.set_rng_seed(s);
            k.rng(b);
            k.tensor_tensor(b, a, b, Op::kXor);
            k.tensor_tensor(c, a, c, Op::kXor);
            stored(k, "same", b);
            // Two times 32 bits are hardly equal anywhere.
            k.tensor_scalar(equal, c.as(kI32), {Op::kEqual, 0.0});
            stored(k, "differs", equal);
            const Tile all = k.sbuf({128, 64}, kF32, "all");
            const Tile none = k.sbuf({128, 64}, kF32, "none");
            k.dropout(all, in, 0.0);
            k.dropout(none, in, 1.0);
            stored(k, "all", all);
            stored(k, "none", none);
          },
          {{"seed", bytes_of(seed)}, {"x", bytes_of(x)}},
          {{"same", bytes_of(std::vector<uint32_t>(kLanes * 64))},
           {"differs", bytes_of(std::vector<uint8_t>(kLanes * 64))},
           {"all", bytes_of(x)},
           {"none", bytes_of(std::vector<float>(kLanes * 64))}}};
}

Case states(bool vector) {
  return {[=](Kernel& k) {
            const Engine engine = vector ? Engine::kVector : Engine::kGpSimd;
            const Tile state = k.sbuf({128, vector ? 24 : 6}, kU32, "state");
            const Tile a = k.sbuf({128, 48}, kU32, "a");
            const Tile b = k.sbuf({128, 48}, kU32, "b");
            k.rand_get_state(state, engine);
            k.rng(a, engine);
            k.rand_set_state(state, engine);
            k.rng(b, engine);
            k.tensor_tensor(b, a, b, Op::kXor);
            stored(k, "same", b);
          },
          {},
          {{"same", bytes_of(std::vector<uint32_t>(kLanes * 48))}}};
}

Case is_uniform() {
  return {[](Kernel& k) {
            const Tile x = k.sbuf({128, 512}, kF32, "x");
            const Tile inside = k.sbuf({128, 512}, kU8, "inside");
            const Tile above = k.sbuf({128, 512}, kU8, "above");
            k.rand2(x, 0.1, 0.7);
            k.tensor_scalar(inside, x, {Op::kGreaterEqual, 0.1});
            k.tensor_scalar(above, x, {Op::kGreaterEqual, 0.7});
            stored(k, "inside", inside);
            stored(k, "above", above);
          },
          {},
          {{"inside", bytes_of(std::vector<uint8_t>(kLanes * 512, 1))},
           {"above", bytes_of(std::vector<uint8_t>(kLanes * 512))}}};
}

}  // namespace

Cases lane_cases(Generation generation) {
  Cases all = {{"shuffles", shuffles()},
               {"turns_blocks", turns_blocks()},
               {"gathers_locally", gathers_locally()},
               {"selects", selects()},
               {"replaces", replaces()},
               {"searches", searches()},
               {"scans_in_reverse", scans_in_reverse()},
               {"seeds", seeds()}};
  if (generation == Generation::kV2) return all;
  all["selects_ranges"] = selects_ranges();
  all["finds_nonzeros"] = finds_nonzeros();
  all["states_of_gpsimd"] = states(false);
  if (generation == Generation::kV3) return all;
  all["activates"] = activates();
  all["is_uniform"] = is_uniform();
  all["states_of_vector"] = states(true);
  return all;
}

}  // namespace kernel_case
