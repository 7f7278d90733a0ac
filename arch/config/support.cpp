#include "arch/config/support.h"

#include "arch/config/embedded.h"
#include "arch/config/json_file.h"

namespace config {

base::Result<std::vector<Feature>> load_support() {
  constexpr const char* kFile = "support.json";
  const auto text = embedded_text(kFile);
  if (!text) return base::Error{base::Fault::kInternal, 0, kFile, "not embedded"};
  const auto file = parse_json(kFile, std::string(*text), "support.schema.json");
  if (!file) return file.error();
  std::vector<Feature> features;
  for (const auto& row : file->value.at("features")) {
    features.push_back({row.at("feature").get<std::string>(), row.at("status").get<std::string>(),
                        row.at("since").get<std::string>(), row.at("note").get<std::string>()});
  }
  return features;
}

}  // namespace config
