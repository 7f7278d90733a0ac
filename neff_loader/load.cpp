// The load algorithm of spec/neff.md 1.9: header, archive, subgraphs, programs, tensors.
#include <algorithm>

#include "neff_loader/parse.h"

namespace neff {
namespace {

struct ArchName {
  const char* name;
  Arch arch;
  unsigned core_version;
};
constexpr ArchName kArchs[] = {{"inf1", Arch::kInf1, 1},
                               {"trn1", Arch::kTrn1, 2},
                               {"inf2", Arch::kInf2, 2},
                               {"trn2", Arch::kTrn2, 3},
                               {"trn3", Arch::kTrn3, 4}};

// "kelf-0.json" and Inf1's "kelf-a.json", at the top of the archive.
bool is_kelf(const std::string& name) {
  return name.rfind("kelf-", 0) == 0 && name.size() > 10 && name.find('/') == std::string::npos &&
         name.compare(name.size() - 5, 5, ".json") == 0;
}

bool is_definition(const std::string& name) {
  return name.rfind("sg", 0) == 0 && name.size() > 9 && name.find('/') == name.size() - 9 &&
         name.compare(name.size() - 9, 9, "/def.json") == 0;
}

struct GraphRef {
  std::string name;
  std::string definition;
};

std::vector<GraphRef> graphs_of_kelf(const Context& c, const Member& kelf) {
  std::vector<GraphRef> out;
  const std::optional<Json> root = parse_json(kelf, c.options.limits, &c.report);
  if (!root) return out;
  const Fields top(*root, kelf.name, "V-14", &c.report);
  const Json* graphs = top.array("graphs");
  if (graphs == nullptr || graphs->empty()) {
    c.report.fail("V-14", kelf.name, "no accelerator subgraph");
    return out;
  }
  for (const Json& item : *graphs) {
    const Fields f(item, kelf.name + " graphs", "V-14", &c.report);
    const std::optional<std::string> definition = f.text("definition");
    if (!definition) f.fail("subgraph without 'definition'");
    base::Result<std::string> path = safe_name(definition.value_or(""));
    if (!path) c.report.fail(path.error());
    if (!c.report.ok()) return out;
    out.push_back({f.text("name").value_or(directory_of(*path)), *path});
  }
  return out;
}

std::vector<GraphRef> find_graphs(const Context& c) {
  std::vector<GraphRef> out;
  std::vector<const Member*> kelfs;
  for (uint32_t i : c.archive.by_name) {
    if (is_kelf(c.archive.members[i].name)) kelfs.push_back(&c.archive.members[i]);
  }
  if (kelfs.size() > 1) {
    c.report.fail(violation("V-14", "NEFF", "several accelerator nodes are not supported",
                            status::kInvalid, base::Fault::kUnsupported));
    return out;
  }
  if (kelfs.size() == 1) return graphs_of_kelf(c, *kelfs[0]);
  for (uint32_t i : c.archive.by_name) {
    const std::string& name = c.archive.members[i].name;
    if (is_definition(name)) out.push_back({directory_of(name), name});
  }
  if (out.empty()) {
    c.report.fail("V-14", "NEFF", "no accelerator subgraph: neither kelf-*.json nor sgNN/def.json");
  } else {
    c.report.warn("NEFF", "no kelf-*.json; using the sgNN directories in order");
  }
  return out;
}

const Member* open_member(const Context& c, const std::string& name) {
  const Member* member = c.archive.find(name);
  if (member == nullptr) c.report.fail("V-12", name, "Unable to open: " + name + " - 2");
  return member;
}

void parse_programs(const Context& c, Subgraph* sg) {
  for (EngineProgram& p : sg->programs) {
    if (!p.instr_file.empty()) {
      const Member* member = open_member(c, p.instr_file);
      if (member != nullptr && c.executable) parse_engine_file(c, *member, *sg, &p);
    }
    if (!c.report.ok()) return;
    if (!p.json_file.empty()) {
      const Member* member = open_member(c, p.json_file);
      if (member != nullptr) parse_engine_json(c, *member, *sg, &p);
    }
    if (!c.report.ok()) return;
  }
}

// x_arch, or what the first engine file says: E-09 needs the SBUF size before programs are read.
unsigned find_core_version(const Context& c, const Subgraph& sg) {
  if (sg.arch) return core_version(*sg.arch);
  for (const EngineProgram& p : sg.programs) {
    const Member* member = c.executable ? c.archive.find(p.instr_file) : nullptr;
    if (member != nullptr && member->data.size() > 13) return member->data[13];
  }
  return 0;
}

// Rule V-17.
void check_target(const Context& c, const Subgraph& sg) {
  const unsigned target = c.options.target_core_version;
  if (target == 0 || sg.core_version == 0 || sg.core_version == target) return;
  if (c.options.allow_legacy && sg.core_version < target) return;
  c.report.fail("V-17", sg.name,
                "built for NeuronCore v" + std::to_string(sg.core_version) + ", this device has v" +
                    std::to_string(target));
}

Subgraph parse_subgraph(const Context& c, const GraphRef& ref) {
  Subgraph sg;
  sg.name = ref.name;
  sg.directory = directory_of(ref.definition);
  const Member* definition = open_member(c, ref.definition);
  if (definition != nullptr) parse_definition(c, *definition, &sg);
  if (!c.report.ok()) return sg;
  sg.core_version = find_core_version(c, sg);
  check_target(c, sg);
  if (c.report.ok()) parse_programs(c, &sg);
  if (c.report.ok()) check_references(c, &sg);
  return sg;
}

// Rules V-15, V-16.
void check_cores(const Context& c, size_t subgraphs) {
  const unsigned lnc = c.header.lnc();
  if (subgraphs != lnc) {
    c.report.fail("V-15", "NEFF",
                  std::to_string(subgraphs) + " subgraphs but lnc_size " + std::to_string(lnc));
  }
  if (c.options.target_lnc != 0 && c.options.target_lnc != lnc) {
    c.report.fail("V-15", "NEFF",
                  "built for a logical core of " + std::to_string(lnc) +
                      " physical cores, the runtime uses " + std::to_string(c.options.target_lnc));
  }
  if (c.options.available_cores != 0 && subgraphs > c.options.available_cores) {
    c.report.fail("V-16", "NEFF",
                  std::to_string(subgraphs) + " cores needed, " +
                      std::to_string(c.options.available_cores) + " available",
                  status::kNotEnoughCores);
  }
}

void list_tensors(const Subgraph& sg, VariableType type, std::vector<TensorInfo>* out) {
  for (const Variable& v : sg.variables) {
    if (v.type != type) continue;
    TensorInfo t;
    t.name = v.name;
    t.is_input = type == VariableType::kInput;
    t.size = v.size;
    t.dtype = v.dtype;
    t.shape = v.shape;
    t.format = v.format;
    out->push_back(std::move(t));
  }
}

// Only for readers of messages: whatever it is, the file loads.
std::optional<DebugInfo> find_debug_info(const Context& c) {
  const Member* member = c.archive.find(kDebugInfoFile);
  Report own;
  if (member == nullptr || !json_within_limits(*member, c.options.limits, &own)) {
    return std::nullopt;
  }
  return read_debug_info(member->data);
}

base::Status parse_all(const Context& c, Neff* neff) {
  const std::vector<GraphRef> graphs = find_graphs(c);
  if (c.report.ok()) check_cores(c, graphs.size());
  for (const GraphRef& ref : graphs) {
    if (!c.report.ok()) break;
    neff->subgraphs.push_back(parse_subgraph(c, ref));
  }
  if (c.report.ok()) {
    list_tensors(neff->subgraphs[0], VariableType::kInput, &neff->tensors);
    list_tensors(neff->subgraphs[0], VariableType::kOutput, &neff->tensors);
    parse_graph(c, neff);
  }
  if (!c.report.ok()) return c.report.error();
  return {};
}

}  // namespace

std::optional<Arch> parse_arch(std::string_view name) {
  for (const ArchName& a : kArchs) {
    if (name == a.name) return a.arch;
  }
  return std::nullopt;
}

const char* to_string(Arch arch) {
  return kArchs[static_cast<size_t>(arch)].name;
}

unsigned core_version(Arch arch) {
  return kArchs[static_cast<size_t>(arch)].core_version;
}

const char* to_string(Engine engine) {
  constexpr const char* kNames[kEngines] = {"pe", "act", "pool", "dve", "sp"};
  return static_cast<unsigned>(engine) < kEngines ? kNames[static_cast<unsigned>(engine)] : "?";
}

const Variable* Subgraph::find_variable(std::string_view name) const {
  const auto it = std::lower_bound(
      variables_by_name.begin(), variables_by_name.end(), name,
      [&](uint32_t i, std::string_view wanted) { return variables[i].name < wanted; });
  return it != variables_by_name.end() && variables[*it].name == name ? &variables[*it] : nullptr;
}

const QueueSet* Subgraph::find_queue(std::string_view wanted) const {
  const auto it = std::find_if(queues.begin(), queues.end(),
                               [&](const QueueSet& q) { return q.name == wanted; });
  return it != queues.end() ? &*it : nullptr;
}

const Variable* Subgraph::dge_table() const {
  const auto it = std::find_if(variables.begin(), variables.end(),
                               [](const Variable& v) { return v.type == VariableType::kDgeTable; });
  return it != variables.end() ? &*it : nullptr;
}

const Variable* Subgraph::find_variable(uint32_t var_id) const {
  const auto it = std::lower_bound(variables.begin(), variables.end(), var_id,
                                   [](const Variable& v, uint32_t id) { return v.var_id < id; });
  return it != variables.end() && it->var_id == var_id ? &*it : nullptr;
}

const EngineProgram* Subgraph::program(Engine engine) const {
  for (const EngineProgram& p : programs) {
    if (p.engine == engine) return &p;
  }
  return nullptr;
}

base::Result<Neff> load(base::ConstByteSpan file, const LoadOptions& options) {
  base::Result<Container> container = open_container(file);
  if (!container) return container.error();
  if (base::Status s = check_version(container->header, options.supported_features); !s) {
    return s.error();
  }
  if (options.verify_hash) {
    if (base::Status s = check_hash(*container); !s) return s.error();
  }
  base::Result<Archive> archive = read_archive(container->payload, container->gzip, options.limits);
  if (!archive) return archive.error();
  Neff neff;
  neff.header = container->header;
  neff.executable = (neff.header.features() & kFeatureEmulator) != 0;
  neff.archive = std::make_shared<const Archive>(std::move(*archive));
  Report report;
  const Context context{*neff.archive, neff.header, options, report, neff.executable};
  if (base::Status s = parse_all(context, &neff); !s) return s.error();
  neff.debug_info = find_debug_info(context);
  neff.warnings = container->warnings;
  const auto append = [&](const std::vector<std::string>& more) {
    neff.warnings.insert(neff.warnings.end(), more.begin(), more.end());
  };
  append(neff.archive->warnings);
  append(report.warnings());
  return neff;
}

}  // namespace neff
