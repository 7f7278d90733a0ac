#include "references.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <tuple>

namespace kernel_test {
namespace {

Data tensor_add(const Tensors& t, const Sizes& s) {
  Data c(s[0]);
  for (size_t i = 0; i < c.size(); ++i) c[i] = t.at("a")[i] + t.at("b")[i];
  return c;
}

Data softmax(const Tensors& t, const Sizes& s) {
  Data y(s[0] * s[1]);
  for (size_t row = 0; row < s[0]; ++row) {
    const float* x = &t.at("x")[row * s[1]];
    const double most = *std::max_element(x, x + s[1]);
    double sum = 0;
    for (size_t i = 0; i < s[1]; ++i) sum += std::exp(x[i] - most);
    for (size_t i = 0; i < s[1]; ++i) {
      y[row * s[1] + i] = static_cast<float>(std::exp(x[i] - most) / sum);
    }
  }
  return y;
}

Data norm(const Tensors& t, const Sizes& s) {
  const auto beta = t.find("beta");
  Data y(s[0] * s[1]);
  const auto n = static_cast<double>(s[1]);
  for (size_t row = 0; row < s[0]; ++row) {
    const float* x = &t.at("x")[row * s[1]];
    double mean = 0;
    if (beta != t.end()) {
      for (size_t i = 0; i < s[1]; ++i) mean += x[i] / n;
    }
    double square = 0;
    for (size_t i = 0; i < s[1]; ++i) square += (x[i] - mean) * (x[i] - mean) / n;
    for (size_t i = 0; i < s[1]; ++i) {
      const double value = (x[i] - mean) / std::sqrt(square + 1e-5) * t.at("gamma")[i];
      y[row * s[1] + i] = static_cast<float>(value + (beta == t.end() ? 0 : beta->second[i]));
    }
  }
  return y;
}

Data matmul(const Tensors& t, const Sizes& s) {
  const auto [rows, inner, columns] = std::tuple(s[0], s[1], s[2]);
  std::vector<double> c(rows * columns);
  for (size_t k = 0; k < inner; ++k) {
    for (size_t m = 0; m < rows; ++m) {
      const double a = t.at("at")[k * rows + m];
      for (size_t n = 0; n < columns; ++n) c[m * columns + n] += a * t.at("b")[k * columns + n];
    }
  }
  return {c.begin(), c.end()};
}

// Every 32 rows 8 g to 8 g + 7 of a chunk of 512, and 128, 256, 384 further on, share a power of
// two that makes their largest number one of 128 to 256; of e4m3 there are 3 bits behind the first
// one, down to 2^-9.
Data quantized(const Data& x, size_t rows, size_t columns) {
  constexpr size_t kChunk = 512;
  Data y(x.size());
  for (size_t group = 0; group < (rows + kChunk - 1) / kChunk * 16; ++group) {
    for (size_t c = 0; c < columns; ++c) {
      std::vector<size_t> members;
      for (size_t i = 0; i < 32; ++i) {
        const size_t row = group / 16 * kChunk + i / 8 * 128 + group % 16 * 8 + i % 8;
        if (row < rows) members.push_back(row * columns + c);
      }
      double largest = 0;
      for (const size_t i : members) largest = std::max(largest, std::fabs(double{x[i]}));
      if (largest == 0) continue;
      const double scale = std::exp2(std::floor(std::log2(largest)) - 7);
      for (const size_t i : members) {
        const double value = x[i] / scale;
        const int exponent = value == 0 ? -6 : std::max(std::ilogb(value), -6);
        const double unit = std::ldexp(1.0, exponent - 3);
        y[i] = static_cast<float>(std::nearbyint(value / unit) * unit * scale);
      }
    }
  }
  return y;
}

Data matmul_mx(const Tensors& t, const Sizes& s) {
  return matmul(
      {{"at", quantized(t.at("at"), s[1], s[0])}, {"b", quantized(t.at("b"), s[1], s[2])}}, s);
}

// Groups of unlike size, and zeros.
void spread(const std::string& /*name*/, Data* data) {
  for (size_t i = 0; i < data->size(); ++i) {
    float& x = (*data)[i];
    x = i % 7 == 0 ? 0 : std::ldexp(x, static_cast<int>(i / 1000 % 5) - 2);
  }
}

Data transpose(const Tensors& t, const Sizes& s) {
  Data y(s[0] * s[1]);
  for (size_t r = 0; r < s[0]; ++r) {
    for (size_t c = 0; c < s[1]; ++c) y[c * s[0] + r] = t.at("x")[r * s[1] + c];
  }
  return y;
}

Data average_pool(const Tensors& t, const Sizes& s) {
  const auto [height, width, pool, stride] = std::tuple(s[1], s[2], s[3], s[4]);
  Data y;
  for (size_t c = 0; c < s[0]; ++c) {
    for (size_t h = 0; h + pool <= height; h += stride) {
      for (size_t w = 0; w + pool <= width; w += stride) {
        double sum = 0;
        for (size_t i = 0; i < pool * pool; ++i) {
          sum += t.at("x")[(c * height + h + i / pool) * width + w + i % pool];
        }
        y.push_back(static_cast<float>(sum / static_cast<double>(pool * pool)));
      }
    }
  }
  return y;
}

// The sum over the keys that a query sees, in one pass over the scores and another over the values.
Data attention(const Tensors& t, const Sizes& s) {
  const auto [heads, tokens, d, causal] = std::tuple(s[0], s[1], s[2], s[3] != 0);
  Data y(heads * tokens * d);
  std::vector<double> p(tokens);
  std::vector<double> row(d);
  for (size_t i = 0; i < heads * tokens; ++i) {
    const size_t head = i / tokens * tokens;
    const size_t keys = causal ? i - head + 1 : tokens;
    double most = -1e300;
    for (size_t j = 0; j < keys; ++j) {
      p[j] = 0;
      for (size_t x = 0; x < d; ++x) {
        p[j] += static_cast<double>(t.at("q")[i * d + x]) * t.at("k")[(head + j) * d + x];
      }
      p[j] /= std::sqrt(static_cast<double>(d));
      most = std::max(most, p[j]);
    }
    double sum = 0;
    std::fill(row.begin(), row.end(), 0);
    for (size_t j = 0; j < keys; ++j) {
      const double weight = std::exp(p[j] - most);
      sum += weight;
      for (size_t x = 0; x < d; ++x) row[x] += weight * t.at("v")[(head + j) * d + x];
    }
    for (size_t x = 0; x < d; ++x) y[i * d + x] = static_cast<float>(row[x] / sum);
  }
  return y;
}

Data rotary(const Tensors& t, const Sizes& s) {
  const auto [tokens, heads, half] = std::tuple(s[0], s[1], s[2] / 2);
  const Data& x = t.at("x");
  Data y(x.size());
  for (size_t i = 0; i < tokens * heads; ++i) {
    for (size_t j = 0; j < half; ++j) {
      const double c = t.at("cos")[i / heads * half + j];
      const double n = t.at("sin")[i / heads * half + j];
      const size_t low = i * 2 * half + j;
      y[low] = static_cast<float>(x[low] * c - x[low + half] * n);
      y[low + half] = static_cast<float>(x[low + half] * c + x[low] * n);
    }
  }
  return y;
}

Data mamba_scan(const Tensors& t, const Sizes& s) {
  const auto [channels, states, time] = std::tuple(s[0], s[1], s[2]);
  Data y(channels * time);
  for (size_t c = 0; c < channels; ++c) {
    std::vector<double> h(states);
    for (size_t i = 0; i < time; ++i) {
      const double delta = t.at("delta")[c * time + i];
      double sum = 0;
      for (size_t n = 0; n < states; ++n) {
        h[n] = std::exp(delta * t.at("a")[c * states + n]) * h[n] +
               delta * t.at("u")[c * time + i] * t.at("b")[n * time + i];
        sum += t.at("c")[n * time + i] * h[n];
      }
      y[c * time + i] = static_cast<float>(sum);
    }
  }
  return y;
}

// Steps forward and negative rates: states decay, so that late results still tell of all terms.
void decaying(const std::string& name, Data* data) {
  for (float& x : *data) {
    if (name == "delta") x = std::fabs(x);
    if (name == "a") x = -std::fabs(x);
  }
}

// a[rows, inner] times b[inner, columns].
std::vector<double> product(const double* a, const float* b, size_t rows, size_t inner,
                            size_t columns) {
  std::vector<double> c(rows * columns);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t k = 0; k < inner; ++k) {
      const double scale = a[m * inner + k];
      for (size_t n = 0; n < columns; ++n) c[m * columns + n] += scale * b[k * columns + n];
    }
  }
  return c;
}

Data mlp(const Tensors& t, const Sizes& s) {
  const auto [tokens, width, hidden] = std::tuple(s[0], s[1], s[2]);
  const std::vector<double> x(t.at("x").begin(), t.at("x").end());
  std::vector<double> gate = product(x.data(), t.at("w1").data(), tokens, width, hidden);
  const std::vector<double> up = product(x.data(), t.at("w3").data(), tokens, width, hidden);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
  const std::vector<double> y = product(gate.data(), t.at("w2").data(), tokens, hidden, width);
  return {y.begin(), y.end()};
}

// An expert takes the first `capacity` tokens that chose it.
Data experts(const Tensors& t, const Sizes& s) {
  const auto [tokens, width, experts, top, capacity] = std::tuple(s[0], s[1], s[2], s[3], s[4]);
  const Data& x = t.at("x");
  std::vector<double> y(tokens * width);
  std::vector<size_t> taken(experts);
  for (size_t i = 0; i < tokens; ++i) {
    const float* logits = &t.at("logits")[i * experts];
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    double sum = 0;
    for (size_t j = 0; j < top; ++j) sum += std::exp(logits[order[j]]);
    for (size_t j = 0; j < top; ++j) {
      const size_t expert = order[j];
      if (taken[expert]++ >= capacity) continue;
      const std::vector<double> row(&x[i * width], &x[i * width] + width);
      const float* w = &t.at("w")[expert * width * width];
      const std::vector<double> result = product(row.data(), w, 1, width, width);
      for (size_t n = 0; n < width; ++n) {
        y[i * width + n] += std::exp(logits[expert]) / sum * result[n];
      }
    }
  }
  return {y.begin(), y.end()};
}

// An int32 that is below the sizes of every test's vocabulary, as the bits of a float32.
void as_ids(const std::string& name, Data* data) {
  constexpr uint32_t kVocabulary = 50;
  if (name != "ids") return;
  for (float& x : *data) {
    const auto id = static_cast<uint32_t>((x + 1) / 2 * kVocabulary) % kVocabulary;
    std::memcpy(&x, &id, sizeof x);
  }
}

Data embedding(const Tensors& t, const Sizes& s) {
  const size_t width = s[2];
  Data y;
  for (const float bits : t.at("ids")) {
    uint32_t id = 0;
    std::memcpy(&id, &bits, sizeof id);
    const float* row = &t.at("table")[id * width];
    y.insert(y.end(), row, row + width);
  }
  return y;
}

// Heads and hidden units of a rank at a time; s: tokens, width, heads, d, hidden, ranks.
Data transformer_layer(const Tensors& t, const Sizes& s) {
  const size_t tokens = s[0], width = s[1], d = s[3], hidden = s[4] / s[5];
  const size_t heads = s[2] / s[5];
  const auto part = [&](const char* name, size_t rank) {
    const Data& all = t.at(name);
    const auto size = static_cast<std::ptrdiff_t>(all.size() / s[5]);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank) * size;
    return Data(first, first + size);
  };
  const auto times = [&](const Data& a, const Data& b, size_t inner, size_t columns) {
    const std::vector<double> wide(a.begin(), a.end());
    const std::vector<double> c = product(wide.data(), b.data(), tokens, inner, columns);
    return Data(c.begin(), c.end());
  };
  // [tokens, heads, d] to [heads, tokens, d], and back.
  const auto exchanged = [&](const Data& x, size_t first, size_t second) {
    Data y(x.size());
    for (size_t i = 0; i < first * second; ++i) {
      const size_t to = i % second * first + i / second;
      for (size_t j = 0; j < d; ++j) y[to * d + j] = x[i * d + j];
    }
    return y;
  };
  const auto rotated = [&](const Data& x) {
    return exchanged(
        rotary({{"x", x}, {"cos", t.at("cos")}, {"sin", t.at("sin")}}, {tokens, heads, d}), tokens,
        heads);
  };
  Data h = t.at("x");
  const auto add = [&](const Data& x) {
    for (size_t i = 0; i < h.size(); ++i) h[i] += x[i];
  };
  const Data first = norm({{"x", h}, {"gamma", t.at("norm1")}}, {tokens, width});
  for (size_t r = 0; r < s[5]; ++r) {
    const Data q = times(first, part("wq", r), width, heads * d);
    const Data k = times(first, part("wk", r), width, heads * d);
    const Data v = times(first, part("wv", r), width, heads * d);
    const Data mixed =
        attention({{"q", rotated(q)}, {"k", rotated(k)}, {"v", exchanged(v, tokens, heads)}},
                  {heads, tokens, d, 1});
    add(times(exchanged(mixed, heads, tokens), part("wo", r), heads * d, width));
  }
  const Data second = norm({{"x", h}, {"gamma", t.at("norm2")}}, {tokens, width});
  for (size_t r = 0; r < s[5]; ++r) {
    add(mlp({{"x", second}, {"w1", part("w1", r)}, {"w3", part("w3", r)}, {"w2", part("w2", r)}},
            {tokens, width, hidden}));
  }
  return h;
}

bool is_weight(const std::string& name) {
  return name[0] == 'w';
}

// So that scores are of a size that leaves several keys their weight.
void small_weights(const std::string& name, Data* data) {
  if (!is_weight(name)) return;
  for (float& x : *data) x /= 8;
}

}  // namespace

const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all = {
      {"tensor_add", {1, tensor_add}},
      {"softmax", {2, softmax}},
      {"norm", {2, norm}},
      {"matmul", {3, matmul}},
      {"matmul_mx", {3, matmul_mx, spread}},
      {"transpose", {2, transpose}},
      {"average_pool", {5, average_pool}},
      {"attention", {4, attention}},
      {"rotary", {3, rotary}},
      {"mamba_scan", {3, mamba_scan, decaying}},
      {"mlp", {3, mlp}},
      {"experts", {5, experts}},
      {"embedding", {3, embedding, as_ids}},
      {"transformer_layer",
       {6, transformer_layer, small_weights, [](const Sizes& s) { return s[5]; }, is_weight}},
      {"time", {1, nullptr, nullptr, [](const Sizes& s) { return s[0]; }}}};
  return all;
}

}  // namespace kernel_test
