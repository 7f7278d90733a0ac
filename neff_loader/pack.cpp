#include "neff_loader/pack.h"

#include <algorithm>
#include <map>

#include "base/json.h"
#include "neff_loader/asm.h"
#include "neff_loader/neff.h"
#include "neff_loader/status.h"

namespace neff {
namespace {

using nlohmann::ordered_json;
using MemberMap = std::map<std::string, std::vector<uint8_t>>;

std::string with_suffix(const std::string& path, const std::string& suffix) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool has_dot = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return (has_dot ? path.substr(0, dot) : path) + suffix;
}

ordered_json parse(const std::vector<uint8_t>& bytes) {
  return base::parse_ordered_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<uint8_t> dump(const ordered_json& json) {
  return text_bytes(base::json_text(json, 2) + "\n");
}

std::string text_field(const ordered_json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// "sg00/def.json" and so on, in order.
std::vector<std::string> definitions(const MemberMap& members) {
  std::vector<std::string> out;
  for (const auto& [name, data] : members) {
    const std::string directory = directory_of(name);
    const bool flat = directory.find('/') == std::string::npos;
    if (flat && directory.rfind("sg", 0) == 0 && name == directory + "/def.json")
      out.push_back(name);
  }
  return out;
}

// Assembles programs of one subgraph that are there only as text.
base::Status assemble_programs(const std::string& definition, MemberMap* members) {
  const ordered_json def = parse(members->at(definition));
  if (!def.is_object()) {
    return violation("V-13", definition, "Unable to parse: " + definition + " - 1");
  }
  for (unsigned e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    const std::string file = text_field(def, (std::string(to_string(engine)) + "_instr").c_str());
    if (file.empty()) continue;
    const std::string binary = directory_of(definition) + "/" + file;
    const std::string source = with_suffix(binary, ".s");
    const auto it = members->find(source);
    if (it == members->end()) continue;
    if (members->count(binary) != 0) {
      return base::Error{base::Fault::kUsage, status::kInvalid, source,
                         "both " + source + " and " + binary + " are given: remove one"};
    }
    AsmOptions options;
    options.engine = engine;
    if (const auto arch = parse_arch(text_field(def, "x_arch"))) {
      options.core_version = static_cast<uint8_t>(core_version(*arch));
    }
    const std::string_view text(reinterpret_cast<const char*>(it->second.data()),
                                it->second.size());
    base::Result<std::vector<uint8_t>> program = assemble(text, options);
    if (!program) {
      base::Error error = program.error();
      error.where = source + " " + error.where;
      return error;
    }
    members->erase(it);
    members->emplace(binary, std::move(*program));
  }
  return {};
}

ordered_json default_kelf(const std::vector<std::string>& defs) {
  ordered_json graphs = ordered_json::array();
  for (const std::string& d : defs)
    graphs.push_back({{"definition", d}, {"name", directory_of(d)}});
  return {{"graphs", graphs}, {"version", "0.5"}};
}

ordered_json default_info(const ordered_json& def, size_t cores, const PackOptions& options) {
  ordered_json out = {{"num_tpb", cores}, {"tool_version", options.build_version}};
  const std::string arch = text_field(def, "x_arch");
  if (!arch.empty()) out["x_arch"] = arch;
  out["x_features"] = ordered_json::array();
  return out;
}

ordered_json default_graph(const ordered_json& def) {
  ordered_json nodes = ordered_json::array();
  ordered_json inputs = ordered_json::array();
  ordered_json outputs = ordered_json::array();
  ordered_json tensors = ordered_json::array();
  const auto vars = def.find("var");
  for (const char* usage : {"input", "output"}) {
    if (vars == def.end() || !vars->is_object()) break;
    const bool input = std::string_view(usage) == "input";
    for (const auto& [name, v] : vars->items()) {
      if (!v.is_object() || text_field(v, "type") != usage) continue;
      (input ? inputs : outputs).push_back(name);
      if (input) nodes.push_back({{"kind", "input"}, {"name", name}});
      ordered_json t = {{"name", name}, {"usage", input ? "in" : "out"}};
      if (v.contains("x_dtype")) t["dtype"] = v["x_dtype"];
      if (v.contains("x_shape")) t["shape"] = v["x_shape"];
      if (v.contains("x_format")) t["format"] = v["x_format"];
      if (v.contains("size")) t["size"] = v["size"];
      tensors.push_back(t);
    }
  }
  nodes.push_back(
      {{"kind", "accelerator"}, {"name", "kelf-0.json"}, {"inputs", inputs}, {"outputs", outputs}});
  return {
      {"x_format", "emu-neff-graph"}, {"x_version", 1}, {"x_nodes", nodes}, {"x_tensors", tensors}};
}

void add_defaults(const std::vector<std::string>& defs, const PackOptions& options,
                  MemberMap* members) {
  if (defs.empty()) return;
  const ordered_json def = parse(members->at(defs[0]));
  const bool has_kelf = members->lower_bound("kelf-") != members->end() &&
                        members->lower_bound("kelf-")->first.rfind("kelf-", 0) == 0;
  if (!has_kelf) members->emplace("kelf-0.json", dump(default_kelf(defs)));
  if (members->count("info.json") == 0)
    members->emplace("info.json", dump(default_info(def, defs.size(), options)));
  if (members->count("neff.json") == 0) members->emplace("neff.json", dump(default_graph(def)));
}

// neff.json, kelf-0.json, info.json, other files of the root, then each directory, def.json first
// (spec/neff.md 1.8 rule 3).
std::vector<Member> in_file_order(MemberMap&& members) {
  std::vector<Member> out;
  for (auto& [name, data] : members) out.push_back({name, std::move(data)});
  const auto key = [](const Member& m) {
    const std::string directory = directory_of(m.name);
    int rank = 4;
    if (m.name == "neff.json") rank = 0;
    if (m.name == "kelf-0.json") rank = 1;
    if (m.name == "info.json") rank = 2;
    if (rank == 4 && directory.empty()) rank = 3;
    return std::make_tuple(rank, directory, m.name != directory + "/def.json", m.name);
  };
  std::sort(out.begin(), out.end(),
            [&](const Member& a, const Member& b) { return key(a) < key(b); });
  return out;
}

std::array<uint8_t, 16> uuid_of(base::ConstByteSpan payload, const std::string& name) {
  const std::array<uint8_t, 32> content = payload_digest(1, payload);
  std::vector<uint8_t> text(content.begin(), content.end());
  text.insert(text.end(), name.begin(), name.end());
  const std::array<uint8_t, 32> digest = payload_digest(1, text);
  std::array<uint8_t, 16> out{};
  std::copy_n(digest.begin(), out.size(), out.begin());
  out[6] = static_cast<uint8_t>((out[6] & 0x0F) | 0x40);  // version 4
  out[8] = static_cast<uint8_t>((out[8] & 0x3F) | 0x80);  // variant of RFC 4122
  return out;
}

}  // namespace

std::vector<uint8_t> engine_file(contract::isa::EngineFileHeader header,
                                 base::ConstByteSpan records, base::ConstByteSpan functions,
                                 const std::vector<std::string>& symbols) {
  namespace isa = contract::isa;
  std::vector<uint8_t> out(isa::kFileHeaderBytes);
  header.record_count = static_cast<uint32_t>(records.size() / isa::kRecordBytes);
  out.insert(out.end(), records.begin(), records.end());
  if (!functions.empty()) {
    header.functions_offset = out.size();
    header.function_count = functions.size() / isa::kFunctionEntryBytes;
    out.insert(out.end(), functions.begin(), functions.end());
  }
  if (symbols.size() > 1) {
    header.strings_offset = out.size();
    for (const std::string& s : symbols) out.insert(out.end(), s.c_str(), s.c_str() + s.size() + 1);
    header.strings_bytes = out.size() - header.strings_offset;
  }
  isa::store(header, out.data());
  return out;
}

std::vector<uint8_t> text_bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

base::Result<std::vector<uint8_t>> pack(std::vector<Member> members, const PackOptions& options) {
  if (options.pkg_version != 1 && options.pkg_version != 2) {
    return violation("V-03", "pack", "package version is not 1 or 2", status::kUnsupportedVersion);
  }
  MemberMap map;
  for (Member& m : members) {
    base::Result<std::string> name = safe_name(m.name);
    if (!name) return name.error();
    if (name->empty() || !map.emplace(*name, std::move(m.data)).second) {
      return violation("V-11", m.name, "member name is empty or given twice");
    }
  }
  const std::vector<std::string> defs = definitions(map);
  for (const std::string& d : defs) {
    if (base::Status s = assemble_programs(d, &map); !s) return s.error();
  }
  add_defaults(defs, options, &map);
  base::Result<std::vector<uint8_t>> payload =
      write_archive(in_file_order(std::move(map)), options.gzip);
  if (!payload) return payload.error();
  Header h;
  h.pkg_version = options.pkg_version;
  h.data_size = payload->size();
  h.version_major = options.version_major;
  h.version_minor = options.version_minor;
  h.build_version = options.build_version;
  h.num_tpb = static_cast<uint32_t>(std::max<size_t>(defs.size(), 1));
  h.requested_tpb_count = h.num_tpb;
  h.tpb_per_node[0] = static_cast<uint8_t>(h.num_tpb);
  h.hash = payload_digest(h.pkg_version, *payload);
  h.name = options.name;
  h.feature_bits = options.feature_bits;
  h.lnc_size = options.lnc_size.value_or(h.num_tpb);
  h.uuid = options.uuid.value_or(uuid_of(*payload, h.name));
  const std::array<uint8_t, kHeaderBytes> header = serialize(h);
  std::vector<uint8_t> file(header.begin(), header.end());
  file.insert(file.end(), payload->begin(), payload->end());
  return file;
}

base::Result<Unpacked> unpack(base::ConstByteSpan file, const Limits& limits) {
  base::Result<Container> container = open_container(file, Layout::kLenient);
  if (!container) return container.error();
  base::Result<Archive> archive = read_archive(container->payload, container->gzip, limits);
  if (!archive) return archive.error();
  Unpacked out{container->header, container->payload, std::move(*archive), container->warnings};
  out.warnings.insert(out.warnings.end(), out.archive.warnings.begin(), out.archive.warnings.end());
  return out;
}

}  // namespace neff
