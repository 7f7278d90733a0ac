#include "runtime/load/program_listing.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "runtime/load/loaded_program.h"

namespace nrt {

namespace fs = std::filesystem;

base::Status write_listing(const LoadedProgram& program, const std::string& directory) {
  if (!program.neff().debug_info) return {};
  const neff::DebugInfo& info = *program.neff().debug_info;
  const Core& core = program.core();
  nlohmann::ordered_json engines = nlohmann::ordered_json::array();
  for (const EngineImage* image : program.engines()) {
    engines.push_back({{"nc", core.nc() + image->part},
                       {"engine", static_cast<uint32_t>(image->engine)},
                       {"address", image->memory.address()}});
  }
  nlohmann::ordered_json locations = nlohmann::ordered_json::array();
  for (const neff::DebugInfo::Source& s : info.locations) {
    locations.push_back({s.file, s.line, s.call});
  }
  const nlohmann::ordered_json listing = {{"x_format", "emu-program-listing"},
                                          {"x_version", 1},
                                          {"x_device", core.device().index()},
                                          {"x_programs", engines},
                                          {"x_files", info.files},
                                          {"x_calls", info.calls},
                                          {"x_locations", locations}};
  const fs::path place = fs::path(directory) / ("pid_" + std::to_string(::getpid()));
  std::error_code failed;
  fs::create_directories(place, failed);
  if (failed)
    return base::Error{base::Fault::kIo, failed.value(), place.string(), failed.message()};
  const std::string name = "program_" + std::to_string(program.context().model_id) + "_nc_" +
                           std::to_string(core.nc()) + ".json";
  return base::replace_file((place / name).string(), base::json_text(listing) + "\n");
}

}  // namespace nrt
