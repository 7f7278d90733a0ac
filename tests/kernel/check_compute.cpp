// Instructions and control, through the whole stack, against references that are written in
// compute_*.cpp from the specification:   check_compute v2|v3|v4 [CASE]   (kernel_case.h says what
// comes out).
#include <cstdio>

#include "compute_cases.h"

using kernel::Generation;

int main(int argc, char** argv) {
  const std::map<std::string, Generation> generations = {
      {"v2", Generation::kV2}, {"v3", Generation::kV3}, {"v4", Generation::kV4}};
  if (argc < 2 || argc > 3 || generations.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: %s v2|v3|v4 [CASE]\n", argv[0]);
    return 2;
  }
  const Generation generation = generations.at(argv[1]);
  kernel_case::Cases all = kernel_case::lane_cases(generation);
  all.merge(kernel_case::product_cases(generation));
  all.merge(kernel_case::control_cases());
  return kernel_case::run_all(all, argc == 3 ? argv[2] : "", generation);
}
