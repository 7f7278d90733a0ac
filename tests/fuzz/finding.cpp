#include "tests/fuzz/finding.h"

#include <cstdio>
#include <cstdlib>

namespace fuzz {

void found(const char* what) {
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}

}  // namespace fuzz
