// calibrate_kernels trn1|trn2|trn3 NAME SIZE... FILE.neff
#include "calibrate_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace {

using calibration::Case;

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& part :
       {calibration::instruction_cases(), calibration::transfer_cases(),
        calibration::product_cases(), calibration::scan_cases(), calibration::vector_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

size_t words(const char* text) {
  std::istringstream in(text);
  size_t count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s trn1|trn2|trn3 NAME SIZE... FILE.neff\n", program);
  for (const Case& c : all_cases()) std::fprintf(stderr, "  %s %s\n", c.name, c.sizes);
  return 2;
}

const Case* find(const std::vector<Case>& all, const char* name) {
  for (const Case& c : all) {
    if (std::strcmp(c.name, name) == 0) return &c;
  }
  return nullptr;
}

}  // namespace

kernel::DType calibration::dtype_of(int64_t number) {
  constexpr kernel::DType kTypes[] = {kernel::DType::kFloat32, kernel::DType::kBfloat16,
                                      kernel::DType::kFloat16};
  return kTypes[number];
}

int main(int argc, char** argv) {
  const std::vector<Case> all = all_cases();
  const Case* found = argc < 4 ? nullptr : find(all, argv[2]);
  const char* kChips[] = {"trn1", "trn2", "trn3"};
  size_t chip = 0;
  while (argc > 1 && chip < 3 && std::strcmp(argv[1], kChips[chip]) != 0) ++chip;
  if (found == nullptr || chip == 3 || static_cast<size_t>(argc) != 4 + words(found->sizes)) {
    return usage(argv[0]);
  }
  calibration::Sizes sizes;
  for (int i = 3; i + 1 < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  kernel::Kernel k({found->name, static_cast<kernel::Generation>(2 + chip), found->dma_engines});
  found->build(k, sizes);
  const base::Status saved = k.save(argv[argc - 1]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
