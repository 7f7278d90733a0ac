#include "sim/source_lines.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "arch/config/platform.h"
#include "base/file.h"
#include "base/json.h"

namespace sim {

namespace fs = std::filesystem;

SourceLines::SourceLines(std::string directory, const config::Platform& platform)
    : directory_(std::move(directory)) {
  for (const config::Chip& chip : platform.chips) {
    chips_[{chip.node, chip.local_id}] = chip.id;
    nodes_.insert(chip.node);
  }
}

bool SourceLines::refresh() {
  if (directory_.empty()) return false;
  // A later program takes the place of an earlier one at the same address.
  using Found = std::tuple<fs::file_time_type, std::string, uint32_t>;
  std::vector<Found> found;
  std::error_code error;
  for (const uint32_t node : nodes_) {
    const fs::path place = fs::path(directory_) / std::to_string(node);
    for (fs::recursive_directory_iterator each(place, error), end; each != end;
         each.increment(error)) {
      if (error) break;
      const std::string name = each->path().string();
      if (each->path().extension() != ".json" || read_.count(name) != 0) continue;
      found.emplace_back(each->last_write_time(error), name, node);
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, name, node] : found) read(name, node);
  return !found.empty();
}

void SourceLines::read(const fs::path& file, uint32_t node) {
  read_.insert(file.string());
  const auto text = base::read_file(file.string());
  if (!text) return;
  // A client wrote it: what does not fit is left out.
  try {
    const nlohmann::json root = base::parse_json(*text);
    if (root.at("x_format") != "emu-program-listing" || root.at("x_version") != 1) return;
    auto listing = std::make_shared<Listing>();
    listing->files = root.at("x_files").get<std::vector<std::string>>();
    listing->calls = root.at("x_calls").get<std::vector<std::string>>();
    for (const auto& entry : root.at("x_locations")) {
      const auto [source, line, call] = entry.get<std::tuple<uint32_t, uint32_t, uint32_t>>();
      if (source >= listing->files.size() || call >= listing->calls.size()) return;
      listing->locations.push_back({source, line, call});
    }
    const auto chip = chips_.find({node, root.at("x_device").get<uint32_t>()});
    if (chip == chips_.end()) return;
    const std::string device = "d" + std::to_string(chip->second) + ".nc";
    for (const auto& program : root.at("x_programs")) {
      programs_[{device + std::to_string(program.at("nc").get<uint32_t>()),
                 program.at("engine").get<uint32_t>(), program.at("address").get<uint64_t>()}] =
          listing;
    }
  } catch (const nlohmann::json::exception&) {
    return;
  }
}

std::string SourceLines::find(const std::string& core, uint32_t engine, uint64_t program,
                              uint64_t debug_id) const {
  const auto known = programs_.find({core, engine, program});
  if (known == programs_.end()) return "";
  const Listing& listing = *known->second;
  const uint64_t instruction = debug_id & 0xFFFFFFFF;  // spec/neff.md 2.11; 0: none
  if (instruction == 0 || instruction > listing.locations.size()) return "";
  const Listing::Location& at = listing.locations[instruction - 1];
  const std::string& file = listing.files[at.file];
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line) + " (" +
         listing.calls[at.call] + ")";
}

}  // namespace sim
