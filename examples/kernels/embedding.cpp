// The rows of a float32 table that tokens name: y[t] = table[ids[t]], int32 ids. GpSimd follows the
// ids and makes the descriptors of the gather while the kernel runs; trn2 and later.
//
//   embedding TOKENS VOCABULARY WIDTH FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kPartitions = 128;
constexpr auto kType = kernel::DType::kFloat32;

void embedding(kernel::Kernel& k, int64_t tokens, int64_t vocabulary, int64_t width) {
  const kernel::View ids = k.input("ids", kernel::DType::kInt32, {tokens, 1});
  const kernel::View table = k.input("table", kType, {vocabulary, width});
  const kernel::View y = k.output("y", kType, {tokens, width});
  kernel::Ring index = k.ring(2, {kPartitions, 1}, kernel::DType::kInt32, "index");
  kernel::Ring rows = k.ring(3, {kPartitions, width}, kType, "rows");
  kernel::Transfer by_hardware;
  by_hardware.generate = kernel::Generate::kHardware;
  for (int64_t token = 0; token < tokens; token += kPartitions) {
    const int64_t n = std::min(kPartitions, tokens - token);
    const kernel::View these = index.next().slice(0, 0, n);
    const kernel::View data = rows.next().slice(0, 0, n);
    k.load(these, ids.slice(0, token, n));
    k.load_rows(data, table, these);
    k.dma_copy(y.slice(0, token, n), data, by_hardware);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s TOKENS VOCABULARY WIDTH FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"embedding", kernel::Generation::kV3});
  embedding(k, std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
  const base::Status saved = k.save(argv[4]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
