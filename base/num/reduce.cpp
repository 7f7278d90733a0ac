#include "base/num/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/num/kernels.h"

#if defined(HAVE_V3_KERNELS)
#include <cpuid.h>
#endif

namespace base::num {

namespace {
constexpr size_t kBlock = 256;  // elements; the float buffers stay in the first-level cache

using Int = __int128;  // holds every integer type

Int load_integer(Type type, const uint8_t* from) {
  uint64_t raw = 0;
  const size_t size = size_of(type);
  std::memcpy(&raw, from, size);
  if (!is_signed(type)) return static_cast<Int>(raw);
  const unsigned shift = 64 - 8 * static_cast<unsigned>(size);
  return static_cast<Int>(static_cast<int64_t>(raw << shift) >> shift);
}

Int lowest(Type type) {
  return is_signed(type) ? -(Int{1} << (8 * size_of(type) - 1)) : Int{0};
}
Int highest(Type type) {
  return (Int{1} << (8 * size_of(type) - (is_signed(type) ? 1 : 0))) - 1;
}

void store_integer(Type type, Int value, uint8_t* to) {
  const auto raw = static_cast<uint64_t>(value);
  std::memcpy(to, &raw, size_of(type));
}

// The value modulo 2^width, in the range of the type.
Int wrap(Type type, Int value) {
  uint8_t bytes[8];
  store_integer(type, value, bytes);
  return load_integer(type, bytes);
}

bool all_integer(const Reduction& r) {
  return is_integer(r.source_type) && is_integer(r.type) && r.op != Reduce::kFma &&
         (!r.has_constant || r.op == Reduce::kAdd || r.constant_kind != 0);
}

Int integer_constant(const Reduction& r) {
  return r.constant_kind == 1 ? Int{static_cast<int32_t>(r.constant_bits)} : Int{r.constant_bits};
}

float float_constant(const Reduction& r) {
  float x;
  switch (r.constant_kind) {
    case 0:
      std::memcpy(&x, &r.constant_bits, sizeof x);
      return x;
    case 1:
      return static_cast<float>(static_cast<int32_t>(r.constant_bits));
    default:
      return static_cast<float>(r.constant_bits);
  }
}

Int fold_integer(Reduce op, Int a, Int b) {
  if (op == Reduce::kMax) return std::max(a, b);
  if (op == Reduce::kMin) return std::min(a, b);
  return a + b;
}

void reduce_integers(const Reduction& r, uint8_t* to, size_t elements) {
  const size_t source_size = size_of(r.source_type);
  const size_t size = size_of(r.type);
  const bool starts_with_constant = r.has_constant && r.op != Reduce::kAdd;
  for (size_t i = 0; i < elements; ++i) {
    Int acc = load_integer(r.source_type, r.sources[0] + i * source_size);
    if (starts_with_constant) acc = fold_integer(r.op, integer_constant(r), acc);
    for (size_t k = 1; k < r.count; ++k) {
      acc = fold_integer(r.op, acc, load_integer(r.source_type, r.sources[k] + i * source_size));
    }
    if (r.op == Reduce::kAdd) acc = wrap(r.source_type, acc);
    acc = std::clamp(acc, lowest(r.type), highest(r.type));
    store_integer(r.type, acc, to + i * size);
  }
}

template <typename T>
void fold_block(Reduce op, T* acc, const uint8_t* from, size_t n) {
  T x[kBlock];
  std::memcpy(x, from, n * sizeof(T));
  switch (op) {
    case Reduce::kMax:
      for (size_t i = 0; i < n; ++i) acc[i] = acc[i] < x[i] ? x[i] : acc[i];
      return;
    case Reduce::kMin:
      for (size_t i = 0; i < n; ++i) acc[i] = x[i] < acc[i] ? x[i] : acc[i];
      return;
    default:
      // Unsigned, so that it wraps.
      using U = std::make_unsigned_t<T>;
      for (size_t i = 0; i < n; ++i) {
        acc[i] = static_cast<T>(static_cast<U>(static_cast<U>(acc[i]) + static_cast<U>(x[i])));
      }
      return;
  }
}

// Sources and result of one integer type, without a constant.
template <typename T>
void reduce_same(const Reduction& r, uint8_t* to, size_t elements) {
  T acc[kBlock];
  for (size_t done = 0; done < elements;) {
    const size_t n = std::min(kBlock, elements - done);
    std::memcpy(acc, r.sources[0] + done * sizeof(T), n * sizeof(T));
    for (size_t k = 1; k < r.count; ++k) {
      fold_block(r.op, acc, r.sources[k] + done * sizeof(T), n);
    }
    std::memcpy(to + done * sizeof(T), acc, n * sizeof(T));
    done += n;
  }
}

void reduce_same_integers(const Reduction& r, uint8_t* to, size_t elements) {
  switch (r.type) {
    case Type::kInt8:
      return reduce_same<int8_t>(r, to, elements);
    case Type::kUint8:
      return reduce_same<uint8_t>(r, to, elements);
    case Type::kInt16:
      return reduce_same<int16_t>(r, to, elements);
    case Type::kUint16:
      return reduce_same<uint16_t>(r, to, elements);
    case Type::kInt32:
      return reduce_same<int32_t>(r, to, elements);
    case Type::kUint32:
      return reduce_same<uint32_t>(r, to, elements);
    case Type::kInt64:
      return reduce_same<int64_t>(r, to, elements);
    default:
      return reduce_same<uint64_t>(r, to, elements);
  }
}

Fold fold_of(Reduce op) {
  switch (op) {
    case Reduce::kAdd:
      return Fold::kAdd;
    case Reduce::kFma:
      return Fold::kFma;
    case Reduce::kMax:
      return Fold::kMax;
    case Reduce::kMin:
      return Fold::kMin;
  }
  return Fold::kAdd;
}

float scale_of(const Reduction& r, size_t source) {
  float scale = 1.0F;
  if (r.scale_bits != nullptr) std::memcpy(&scale, &r.scale_bits[source], sizeof scale);
  return scale;
}

void reduce_floats(const Reduction& r, uint8_t* to, size_t elements) {
  const Kernels& k = kernels();
  const size_t source_size = size_of(r.source_type);
  const size_t size = size_of(r.type);
  const bool starts_with_constant =
      r.has_constant && (r.op == Reduce::kMax || r.op == Reduce::kMin);
  const Fold op = fold_of(r.op);
  float acc[kBlock];
  float x[kBlock];
  for (size_t done = 0; done < elements;) {
    const size_t n = std::min(kBlock, elements - done);
    size_t next = 0;
    if (starts_with_constant) {
      std::fill_n(acc, n, float_constant(r));
    } else if (r.op == Reduce::kFma) {
      // The first product is rounded like the others: fused with a zero that keeps its sign.
      std::fill_n(acc, n, -0.0F);
    } else {
      k.to_float(r.source_type, r.sources[0] + done * source_size, acc, n);
      next = 1;
    }
    for (; next < r.count; ++next) {
      k.to_float(r.source_type, r.sources[next] + done * source_size, x, n);
      k.fold(op, acc, x, scale_of(r, next), n);
    }
    k.from_float(r.type, acc, to + done * size, n);
    done += n;
  }
}

#if defined(HAVE_V3_KERNELS)
// clang 14 does not know this feature's name in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif
}  // namespace

const Kernels& kernels() {
#if defined(HAVE_V3_KERNELS)
  static const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (v3) return kKernelsV3;
#endif
  return kKernelsBase;
}

float load_float(Type type, const void* from) {
  float x = 0;
  kernels().to_float(type, static_cast<const uint8_t*>(from), &x, 1);
  return x;
}

void store_float(Type type, float value, void* to) {
  kernels().from_float(type, &value, static_cast<uint8_t*>(to), 1);
}

void convert(Type from_type, const void* from, Type to_type, void* to, size_t count) {
  if (from_type == to_type) {
    std::memmove(to, from, count * size_of(from_type));
    return;
  }
  const auto* source = static_cast<const uint8_t*>(from);
  Reduction r;
  r.source_type = from_type;
  r.type = to_type;
  r.sources = &source;
  r.count = 1;
  reduce(r, to, count);
}

void reduce(const Reduction& r, void* to, size_t elements) {
  auto* out = static_cast<uint8_t*>(to);
  if (r.op == Reduce::kAdd && r.count == 2 && r.source_type == r.type) {
    kernels().add(r.type, out, r.sources[0], r.sources[1], elements);
  } else if (all_integer(r)) {
    const bool starts_with_constant = r.has_constant && r.op != Reduce::kAdd;
    if (r.source_type == r.type && !starts_with_constant) {
      reduce_same_integers(r, out, elements);
    } else {
      reduce_integers(r, out, elements);
    }
  } else {
    reduce_floats(r, out, elements);
  }
}

void elementwise(Binary op, Type a_type, const void* a, Type b_type, const void* b, Type type,
                 void* to, size_t elements) {
  static constexpr Fold folds[] = {Fold::kAdd, Fold::kSubtract, Fold::kMultiply, Fold::kMin,
                                   Fold::kMax};
  const Kernels& k = kernels();
  const auto* from_a = static_cast<const uint8_t*>(a);
  const auto* from_b = static_cast<const uint8_t*>(b);
  float x[kBlock];
  float y[kBlock];
  for (size_t done = 0; done < elements;) {
    const size_t n = std::min(kBlock, elements - done);
    k.to_float(a_type, from_a + done * size_of(a_type), x, n);
    k.to_float(b_type, from_b + done * size_of(b_type), y, n);
    k.fold(folds[static_cast<size_t>(op)], x, y, 1.0F, n);
    k.from_float(type, x, static_cast<uint8_t*>(to) + done * size_of(type), n);
    done += n;
  }
}

}  // namespace base::num
