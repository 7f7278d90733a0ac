// Texts that the printer and the picture share.
#pragma once

#include <string>

#include "runtime/collectives/schedule/schedule.h"

namespace ccl {

std::string print_step(const Step& step, uint32_t rank);  // without its number
std::string print_title(const Shape& shape);

}  // namespace ccl
