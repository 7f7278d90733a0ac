// Which line of source an instruction on the device stands for: what the runtimes of the machine's
// clients have left in the directory that NEURON_RT_INSPECT_OUTPUT_DIR names to them
// (docs/neff-files.md), one below it for each node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace config {
struct Platform;
}  // namespace config

namespace sim {

class SourceLines {
 public:
  // Nothing is known without a directory.
  SourceLines(std::string directory, const config::Platform& platform);

  // Reads what is new. True: something was.
  bool refresh();
  // "softmax.cpp:42 (activation)", or "". `core` as in reports, "d0.nc1"; `program`: address of the
  // engine's first record.
  std::string find(const std::string& core, uint32_t engine, uint64_t program,
                   uint64_t debug_id) const;

 private:
  struct Listing {
    struct Location {
      uint32_t file, line, call;
    };
    std::vector<std::string> files;
    std::vector<std::string> calls;
    std::vector<Location> locations;
  };
  using Key = std::tuple<std::string, uint32_t, uint64_t>;  // core, engine, address

  void read(const std::filesystem::path& file, uint32_t node);

  std::string directory_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> chips_;  // node, device: chip
  std::set<uint32_t> nodes_;
  std::set<std::string> read_;
  std::map<Key, std::shared_ptr<const Listing>> programs_;
};

}  // namespace sim
