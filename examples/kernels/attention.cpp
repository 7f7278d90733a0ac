// o = softmax(q k^T / sqrt(D)) v of each head, q, k, v and o being [HEADS, TOKENS, D] with D up to
// 128; CAUSAL: a token sees itself and those before it. In float32, or with inputs in bfloat16.
//
//   attention float32|bfloat16 HEADS TOKENS D CAUSAL(0|1) FILE.neff
#include "attention.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using kernel::View;
using stages::kFloat;

void heads_of(kernel::Kernel& k, kernel::DType type, int64_t heads, int64_t tokens, int64_t d,
              bool causal) {
  const View q = k.input("q", type, {heads, tokens, d});
  const View keys = k.input("k", type, {heads, tokens, d});
  const View v = k.input("v", type, {heads, tokens, d});
  const View o = k.output("o", kFloat, {heads, tokens, d});
  const kernel::Ring banks = stages::all_banks(k);
  attention::Attention all(k, banks, type, tokens, d, causal);
  for (int64_t h = 0; h < heads; ++h) {
    all.head(q.index(0, h), keys.index(0, h), v.index(0, h), o.index(0, h));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool bfloat16 = argc == 7 && std::strcmp(argv[1], "bfloat16") == 0;
  if (argc != 7 || (!bfloat16 && std::strcmp(argv[1], "float32") != 0)) {
    std::fprintf(stderr, "usage: %s float32|bfloat16 HEADS TOKENS D CAUSAL(0|1) FILE.neff\n",
                 argv[0]);
    return 2;
  }
  kernel::Kernel k({"attention"});
  heads_of(k, bfloat16 ? kernel::DType::kBfloat16 : kFloat, std::atoll(argv[2]),
           std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]) != 0);
  const base::Status saved = k.save(argv[6]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
