#include "hw/core/mx_operand.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "arch/contract/isa_checks.h"
#include "hw/core/compute.h"

namespace hw {

namespace isa = contract::isa;
namespace num = base::num;

num::Mx mx_format(isa::DataType type) {
  return type == isa::DataType::kFloat8e5x4     ? num::Mx::kE5M2
         : type == isa::DataType::kFloat8e4fnx4 ? num::Mx::kE4M3Fn
                                                : num::Mx::kE2M1;
}

uint32_t scale_lane(uint32_t lane) {
  return lane / isa::kQuadrant * isa::kQuadrant + lane % isa::kQuadrant / isa::kMxGroupLanes;
}

void read_mx_rows(const TensorAccess& from, const TensorAccess& scale, uint32_t rows,
                  std::vector<float>* to) {
  const num::Mx format = mx_format(from.type());
  const size_t n = from.elements();
  to->resize(num::kMxNumbers * rows * n);
  uint8_t* elements = room<uint8_t>(kFirst, n * num::mx_bytes(format));
  uint8_t* bytes = room<uint8_t>(kSecond, n);
  float* scales = room<float>(kFirst, n);
  for (uint32_t k = 0; k < rows; ++k) {
    if (k % isa::kMxGroupLanes == 0) {
      scale.read(scale_lane(k), bytes);
      for (size_t i = 0; i < n; ++i) scales[i] = num::mx_scale(bytes[i]);
    }
    from.read(k, elements);
    for (size_t j = 0; j < num::kMxNumbers; ++j) {
      float* row = to->data() + (j * rows + k) * n;
      num::unpack_mx(format, elements, n, j, row);
      for (size_t i = 0; i < n; ++i) row[i] *= scales[i];
    }
  }
}

// spec/engine-isa.md 10.2. Lanes of data and of scales mix: all is read before anything is written.
void compute(const isa::QuantizeMx& o, const Lanes& lanes, EngineState& /*state*/) {
  const TensorAccess& from = lanes[o.src];
  const TensorAccess& to = lanes[o.dst];
  const TensorAccess& scale = lanes[o.scale];
  const num::Mx format = mx_format(to.type());
  const num::Type type = format == num::Mx::kE5M2 ? num::Type::kFp8E5 : num::Type::kFp8E4Fn;
  const size_t n = from.elements();
  const size_t m = to.elements();
  constexpr size_t kLanes = isa::kMxGroupLanes;
  float* x = room<float>(kFirst, lanes.count() * n);
  uint8_t* y = room<uint8_t>(kFirst, lanes.count() * n);
  uint8_t* scales = room<uint8_t>(kSecond, lanes.count() / kLanes * m);
  lanes.read(from, 0, lanes.count(), x);
  for (uint32_t group = 0; group < lanes.count() / kLanes; ++group) {
    for (size_t i = 0; i < m; ++i) {
      const auto each = [&](auto&& number) {
        for (size_t p = group * kLanes; p < (group + 1) * kLanes; ++p) {
          for (size_t j = 0; j < num::kMxNumbers; ++j) number(x[p * n + num::kMxNumbers * i + j]);
        }
      };
      float largest = 0;
      bool finite = true;
      each([&](float v) {
        finite = finite && std::isfinite(v);
        largest = std::max(largest, std::fabs(v));
      });
      if (!finite) largest = std::numeric_limits<float>::infinity();
      scales[group * m + i] = num::mx_scale_of(format, largest);
      // The power of two divides without a rounding.
      const float unit = num::mx_scale(scales[group * m + i]);
      each([&](float& v) { v /= unit; });
    }
  }
  for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
    to.convert(type, lane, x + lane * n, n, y + lane * n);
  }
  lanes.write(to, 0, lanes.count(), y, n);
  for (uint32_t group = 0; group < lanes.count() / kLanes; ++group) {
    scale.write(scale_lane(group * kLanes), scales + group * m);
  }
}

}  // namespace hw
