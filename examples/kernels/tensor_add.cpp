// c = a + b over float32 tensors of any size.
//
//   tensor_add ELEMENTS FILE.neff
#include <soma/kernel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int64_t kPartitions = 128;
constexpr int64_t kColumns = 2048;  // 8 KiB in each partition: long enough for the DMA engines
constexpr auto kType = kernel::DType::kFloat32;

void tensor_add(kernel::Kernel& k, int64_t elements) {
  const kernel::View a = k.input("a", kType, {elements});
  const kernel::View b = k.input("b", kType, {elements});
  const kernel::View c = k.output("c", kType, {elements});
  kernel::Ring as = k.ring(2, {kPartitions, kColumns}, kType, "a");
  kernel::Ring bs = k.ring(2, {kPartitions, kColumns}, kType, "b");
  kernel::Ring cs = k.ring(2, {kPartitions, kColumns}, kType, "c");
  for (int64_t done = 0; done < elements;) {
    // Whole rows for all partitions; at last what is left, one element in each.
    const int64_t left = elements - done;
    const int64_t rows = std::min(kPartitions, left);
    const int64_t columns = std::min(kColumns, left / rows);
    const auto tile = [&](kernel::Ring& ring) {
      return ring.next().slice(0, 0, rows).slice(1, 0, columns);
    };
    const auto part = [&](const kernel::View& tensor) {
      return tensor.slice(0, done, rows * columns).reshape({rows, columns});
    };
    const kernel::View x = tile(as);
    const kernel::View y = tile(bs);
    const kernel::View z = tile(cs);
    k.load(x, part(a));
    k.load(y, part(b));
    k.tensor_tensor(z, x, y, kernel::Op::kAdd);
    k.store(part(c), z);
    done += rows * columns;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s ELEMENTS FILE.neff\n", argv[0]);
    return 2;
  }
  kernel::Kernel k({"tensor_add"});
  tensor_add(k, std::atoll(argv[1]));
  const base::Status saved = k.save(argv[2]);
  if (!saved) std::fprintf(stderr, "%s\n", saved.error().message().c_str());
  return saved ? 0 : 1;
}
