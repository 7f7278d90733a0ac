#include "tools/soma/sdk.h"

#include <system_error>

namespace soma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShim = "libsoma-shim.so";
constexpr const char* kPrograms[] = {"neuron-ls", "neuron-monitor", "neuron-monitor-prometheus.py",
                                     "neuron-top", "nccom-test"};
constexpr const char* kLibraries[] = {"libnrt.so", "libnrt.so.1"};
constexpr const char* kHeaders[] = {"nrt", "ndl"};

template <size_t N>
std::error_code link_all(const fs::path& from, const fs::path& to, const char* const (&names)[N]) {
  std::error_code error;
  fs::create_directories(to, error);
  for (const char* name : names) {
    std::error_code absent;
    if (error || !fs::exists(from / name, absent)) continue;
    fs::create_symlink(from / name, to / name, error);
  }
  return error;
}

}  // namespace

Installation find_installation() {
  std::error_code error;
  Installation found;
  found.bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path prefix = found.bin.parent_path();
  found.include = prefix / "include";
  for (const char* place : {"lib", "lib/soma"}) {
    if (found.lib.empty() && fs::exists(prefix / place / kShim, error)) found.lib = prefix / place;
  }
  return found;
}

std::string sdk_of(const std::string& directory) {
  return directory + "/sdk";
}

base::Status make_sdk(const std::string& directory) {
  const Installation installation = find_installation();
  const fs::path sdk = sdk_of(directory);
  std::error_code error = link_all(installation.bin, sdk / "bin", kPrograms);
  if (!error) error = link_all(installation.lib, sdk / "lib", kLibraries);
  if (!error) error = link_all(installation.include, sdk / "include", kHeaders);
  if (error) return base::Error{base::Fault::kIo, error.value(), sdk.string(), error.message()};
  return {};
}

}  // namespace soma
