// Cases of check_compute: what each file of them makes for a generation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernel_case.h"

namespace kernel_case {

using kernel::DType;
using kernel::Engine;
using kernel::Generation;
using kernel::Index;
using kernel::Kernel;
using kernel::Op;
using kernel::Reduce;
using kernel::Register;
using kernel::Tile;
using kernel::View;

inline constexpr DType kF32 = DType::kFloat32;
inline constexpr DType kBf16 = DType::kBfloat16;
inline constexpr DType kI32 = DType::kInt32;
inline constexpr DType kU32 = DType::kUint32;
inline constexpr DType kU16 = DType::kUint16;
inline constexpr DType kU8 = DType::kUint8;
inline constexpr size_t kLanes = 128;

// Small integers, many of them equal.
inline std::vector<float> numbers(size_t n, uint32_t seed, uint32_t most = 1000) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t hash = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    out[i] = static_cast<float>(static_cast<int32_t>((hash >> 12) % most) -
                                static_cast<int32_t>(most / 2));
  }
  return out;
}

// Of small integers: exact.
inline std::vector<uint16_t> to_bf16(const std::vector<float>& x) {
  std::vector<uint16_t> out;
  for (const float value : x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

// A tile from and to tensors of the same size.
inline Tile loaded(Kernel& k, const std::string& name, DType dtype, const View::Sizes& shape) {
  const View tensor = k.input(name, dtype, shape);
  Tile tile = k.sbuf(shape, dtype, "tile of " + name);
  k.load(tile, tensor);
  return tile;
}
inline void stored(Kernel& k, const std::string& name, const View& tile) {
  k.store(k.output(name, tile.dtype(), tile.shape()), tile);
}

using Cases = std::map<std::string, Case>;
Cases lane_cases(Generation generation);
Cases product_cases(Generation generation);
Cases control_cases();

}  // namespace kernel_case
