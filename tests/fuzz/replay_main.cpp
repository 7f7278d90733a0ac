// Stands in for libFuzzer where it is not available: runs the target over the files of a corpus.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      // Every prefix of a small file is an input too: truncation is the most common damage.
      const size_t prefixes = bytes.size() < 4096 ? bytes.size() : 0;
      for (size_t size = 0; size < prefixes; size += 1 + prefixes / 256) {
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), size);
      }
      ++count;
    }
  }
  std::printf("%zu corpus files replayed\n", count);
  return count == 0 ? 1 : 0;
}
