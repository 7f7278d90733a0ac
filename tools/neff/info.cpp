#include "tools/neff/info.h"

#include <algorithm>

#include "base/json.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"

namespace tool {
namespace {

using Json = nlohmann::ordered_json;

// Public feature names have no public bit numbers (spec/neff.md 1.6): print bits.
std::string features_text(uint64_t bits) {
  if (bits == 0) return "N/A";
  std::string out;
  for (int i = 0; i < 64; ++i) {
    if (((bits >> i) & 1) == 0) continue;
    out += (out.empty() ? "bit " : ", bit ") + std::to_string(i);
  }
  return out;
}

// Only what a terminal and JSON can hold.
std::string printable(const std::string& text) {
  std::string out;
  for (char c : text) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

Json header_json(const neff::Header& h) {
  const size_t digest = h.pkg_version == 1 ? 32 : 16;
  return {{"package_version", h.pkg_version},
          {"header_size", h.header_size},
          {"data_size", h.data_size},
          {"neff_version_major", h.version_major},
          {"neff_version_minor", h.version_minor},
          {"build_version", printable(h.build_version)},
          {"num_tpb", h.num_tpb},
          {"hash", neff::hex({h.hash.data(), digest})},
          {"uuid", neff::hex({h.uuid.data(), h.uuid.size()})},
          {"network_name", printable(h.name)},
          {"lnc_size", h.lnc_size},
          {"features", features_text(h.features())}};
}

Json tensor_json(const std::string& name, uint64_t size, const char* usage,
                 const std::optional<neff::DataType>& dtype, const std::vector<uint64_t>& shape,
                 const std::string& format) {
  Json out = {{"name", printable(name)}, {"size", size}, {"usage", usage}};
  out["format"] = format.empty() ? "N/A" : printable(format);
  out["dtype"] = dtype ? neff::to_string(*dtype) : "N/A";
  out["shape"] = shape;
  return out;
}

Json tensors_json(const neff::Neff& neff, const neff::Subgraph& sg, const InfoOptions& options) {
  Json out = Json::array();
  for (const neff::TensorInfo& t : neff.tensors) {
    out.push_back(
        tensor_json(t.name, t.size, t.is_input ? "IN" : "OUT", t.dtype, t.shape, t.format));
  }
  for (const neff::Variable& v : sg.variables) {
    const bool weight = options.weights && v.type == neff::VariableType::kFile;
    const bool spill = options.spills && (v.type == neff::VariableType::kTmpBuf ||
                                          v.type == neff::VariableType::kVirtual);
    if (!weight && !spill) continue;
    out.push_back(
        tensor_json(v.name, v.size, weight ? "WEIGHT" : "SPILL", v.dtype, v.shape, v.format));
  }
  return out;
}

Json subgraph_json(const neff::Neff& neff, const neff::Subgraph& sg, const InfoOptions& options) {
  Json programs = Json::array();
  for (const neff::EngineProgram& p : sg.programs) {
    programs.push_back({{"engine", neff::to_string(p.engine)},
                        {"instructions", p.steps.size()},
                        {"dma_blocks", p.blocks.size()}});
  }
  Json out = {{"executor", "NeuronCore"}, {"name", printable(sg.name)}};
  out["arch"] = sg.arch ? neff::to_string(*sg.arch) : "N/A";
  out["scratchpad_bytes"] = sg.scratchpad_bytes;
  out["collectives"] = sg.collectives.size();
  out["programs"] = programs;
  out["tensors"] = tensors_json(neff, sg, options);
  return out;
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : base::json_text(value);
}

std::string render(const Json& root) {
  std::string out;
  const auto line = [&](const std::string& indent, const std::string& key, const Json& value) {
    out += indent + key + ": " + value_text(value) + "\n";
  };
  for (const auto& [key, value] : root["header"].items()) line("", key, value);
  line("", "loadable", root["loadable"]);
  line("", "executable", root["executable"]);
  size_t node = 0;
  for (const Json& sg : root["nodes"]) {
    out += "node " + std::to_string(node++) + "\n";
    for (const auto& [key, value] : sg.items()) {
      if (!value.is_array()) line("  ", key, value);
    }
    for (const Json& p : sg["programs"]) {
      out += "  program " + value_text(p["engine"]) + ": " + base::json_text(p["instructions"]) +
             " instructions, " + base::json_text(p["dma_blocks"]) + " DMA blocks\n";
    }
    for (const Json& t : sg["tensors"]) {
      out += "  tensor " + value_text(t["name"]) + ": " + base::json_text(t["size"]) + " bytes, " +
             value_text(t["usage"]) + ", format " + value_text(t["format"]) + ", shape " +
             base::json_text(t["shape"]) + ", " + value_text(t["dtype"]) + "\n";
    }
  }
  for (const Json& w : root["warnings"]) out += "warning: " + value_text(w) + "\n";
  return out;
}

}  // namespace

base::Result<std::string> describe(base::ConstByteSpan file, const InfoOptions& options) {
  base::Result<neff::Container> container = neff::open_container(file, neff::Layout::kLenient);
  if (!container) return container.error();
  neff::LoadOptions load_options;
  load_options.verify_hash = true;
  base::Result<neff::Neff> neff = neff::load(file, load_options);
  Json root = {{"header", header_json(container->header)}};
  root["loadable"] = neff.ok() ? "yes" : "no: " + printable(neff.error().message());
  root["executable"] = neff.ok() && neff->executable;
  root["nodes"] = Json::array();
  root["warnings"] = Json::array();
  if (!neff) {  // list what can be listed in spite of version, features and hash
    load_options.verify_hash = false;
    load_options.supported_features = ~0ull;
    neff = neff::load(file, load_options);
  }
  if (neff) {
    for (const neff::Subgraph& sg : neff->subgraphs)
      root["nodes"].push_back(subgraph_json(*neff, sg, options));
  }
  for (const std::string& w : neff ? neff->warnings : container->warnings) {
    root["warnings"].push_back(printable(w));
  }
  return options.json ? base::json_text(root, 2) + "\n" : render(root);
}

}  // namespace tool
