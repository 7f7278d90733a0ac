// Stands in for libFuzzer where it is not available: runs the target over the files of a corpus.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Cut inputs per corpus, so that a large one takes no longer than a small one.
constexpr size_t kPrefixes = 4096;
constexpr size_t kMaxPrefixes = 256;  // of one file
constexpr size_t kMinPrefixes = 4;
constexpr size_t kSmall = 4096;

void replay(const std::filesystem::path& path, size_t prefixes) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  LLVMFuzzerTestOneInput(data, bytes.size());
  // Every prefix of a small file is an input too: truncation is the most common damage.
  const size_t end = bytes.size() < kSmall ? bytes.size() : 0;
  for (size_t size = 0; size < end; size += 1 + end / prefixes) {
    LLVMFuzzerTestOneInput(data, size);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  const size_t each = files.empty() ? 0 : kPrefixes / files.size();
  for (const auto& path : files) {
    replay(path, std::clamp(each, kMinPrefixes, kMaxPrefixes));
  }
  std::printf("%zu corpus files replayed\n", files.size());
  return files.empty() ? 1 : 0;
}
