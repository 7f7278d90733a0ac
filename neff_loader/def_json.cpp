// sgNN/def.json: variables, queue sets, collective configuration (spec/neff.md 2.6, 4.4).
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "neff_loader/parse.h"

namespace neff {
namespace {

constexpr int64_t kMaxVariableBytes = 1ll << 53;  // far above any HBM; keeps offsets exact
constexpr int64_t kMaxRank = 1 << 20;

struct TypeName {
  const char* name;
  VariableType type;
};
constexpr TypeName kVariableTypes[] = {
    {"state-buffer", VariableType::kStateBuffer},
    {"input", VariableType::kInput},
    {"output", VariableType::kOutput},
    {"file", VariableType::kFile},
    {"tmp-buf", VariableType::kTmpBuf},
    {"virtual", VariableType::kVirtual},
    {"pointer", VariableType::kPointer},
    {"dge-table", VariableType::kDgeTable},
};

FabricPath fabric_path(const Fields& f) {
  const std::string path = f.text("fabric_path").value_or("main");
  if (path != "main" && path != "alt")
    f.fail("D-13", "fabric_path '" + path + "' is not main or alt");
  return path == "alt" ? FabricPath::kAlt : FabricPath::kMain;
}

std::optional<Engine> parse_owner(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t dot = text.find(".json");
  if (dot != std::string::npos) text.resize(dot);
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  constexpr const char* kNames[kEngines][4] = {{"pe", "tensor", "tensore", ""},
                                               {"act", "scalar", "activation", "scalare"},
                                               {"pool", "gpsimd", "gpsimde", ""},
                                               {"dve", "vector", "vectore", ""},
                                               {"sp", "sync", "synce", ""}};
  for (unsigned e = 0; e < kEngines; ++e) {
    for (const char* name : kNames[e]) {
      if (!text.empty() && text == name) return static_cast<Engine>(e);
    }
  }
  return std::nullopt;
}

QueueType queue_type(const Fields& f) {
  const std::optional<std::string> type = f.text("type");
  if (!type) f.fail("D-11", "queue set without 'type'");
  if (type == "in") return QueueType::kIn;
  if (type == "out") return QueueType::kOut;
  if (type == "data") return QueueType::kData;
  if (type == "embedding_update") return QueueType::kEmbeddingUpdate;
  if (type == "dynamic") return QueueType::kDynamic;
  f.fail("D-11", "unknown queue type '" + type.value_or("") + "'");
  return QueueType::kData;
}

QueueSet parse_queue(const Fields& f, std::string name, bool inf1) {
  QueueSet q;
  q.name = std::move(name);
  q.type = queue_type(f);
  const int64_t most = inf1 ? 1 : 16;
  q.num_queues = static_cast<unsigned>(f.integer_in("num_queues", 1, most, "D-12").value_or(1));
  if (const auto owner = f.text("owner")) {
    q.owner = parse_owner(*owner);
    if (!q.owner) f.warn("unknown owner '" + *owner + "'");
  }
  q.instances = f.texts("queue_instances");
  if (!q.instances.empty() && inf1) f.fail("D-14", "queue_instances on inf1");
  if (const auto n = f.integer_in("semaphore", 0, 255, "D-15"))
    q.semaphore = static_cast<uint8_t>(*n);
  for (int64_t n : f.integers("semaphore_set")) {
    if (n < 0 || n > 255) f.fail("D-15", "semaphore_set holds " + std::to_string(n));
    q.semaphore_set.push_back(static_cast<uint8_t>(n));
  }
  q.fabric_path = fabric_path(f);
  if (f.has("pinned") && !inf1) f.warn("'pinned' has no meaning here and is ignored (D-16)");
  return q;
}

void parse_queues(const Context& c, const Json& root, const std::string& where, Subgraph* sg) {
  const auto it = root.find("dma_queue");
  if (it == root.end()) return;
  if (!it->is_object()) return c.report.fail("D-11", where, "'dma_queue' is not an object");
  std::set<std::string> instances;
  for (const auto& [name, value] : it->items()) {
    const Fields f(value, where + " dma_queue " + name, "D-11", &c.report);
    sg->queues.push_back(parse_queue(f, name, sg->arch == Arch::kInf1));
    for (const std::string& instance : sg->queues.back().instances) {
      if (!instances.insert(instance).second) {
        f.fail("D-14", "instance '" + instance + "' belongs to two queue sets");
      }
    }
  }
}

uint32_t var_id(const Fields& f, const char* key, const char* rule) {
  const std::optional<int64_t> id = f.integer_in(key, 0, 0xFFFFFFFFll, rule);
  if (!id) f.fail(rule, std::string("'") + key + "' is missing");
  return static_cast<uint32_t>(id.value_or(0));
}

void warn_misplaced(const Fields& f, VariableType type) {
  constexpr struct {
    const char* key;
    VariableType type;
  } kRestricted[] = {{"file_name", VariableType::kFile},
                     {"backing_variable_off", VariableType::kVirtual},
                     {"referenced_var_id", VariableType::kPointer},
                     {"list", VariableType::kDgeTable}};
  for (const auto& r : kRestricted) {
    if (r.type != type && f.has(r.key)) {
      f.warn(std::string("'") + r.key + "' does not belong to type " + to_string(type) + " (D-10)");
    }
  }
}

void parse_io_metadata(const Fields& f, Variable* v) {
  if (const auto name = f.text("x_dtype")) {
    v->dtype = data_type(*name);
    if (!v->dtype) f.warn("unknown x_dtype '" + *name + "'");
  }
  for (int64_t n : f.integers("x_shape")) {
    if (n < 0) f.fail("D-02", "negative dimension in x_shape");
    v->shape.push_back(static_cast<uint64_t>(n));
  }
  v->format = f.text("x_format").value_or("");
}

void parse_by_type(const Context& c, const Fields& f, const std::string& directory, Variable* v) {
  switch (v->type) {
    case VariableType::kVirtual: {
      const auto offset = f.integer_in("backing_variable_off", 0, kMaxVariableBytes, "D-06");
      if (!offset) f.fail("D-06", "virtual variable without a valid backing_variable_off");
      v->scratchpad_offset = static_cast<uint64_t>(offset.value_or(0));
      v->backing_buf = f.text("backing_buf").value_or("");
      return;
    }
    case VariableType::kFile:
      return load_constant(c, f, directory, v);
    case VariableType::kPointer:
      v->referenced_var_id = var_id(f, "referenced_var_id", "D-08");
      return;
    case VariableType::kDgeTable:
      for (int64_t n : f.integers("list")) {
        if (n < 0 || n > 0xFFFFFFFFll) f.fail("D-09", "list holds " + std::to_string(n));
        v->table_var_ids.push_back(static_cast<uint32_t>(n));
      }
      if (v->table_var_ids.empty()) f.fail("D-09", "dge-table without a list");
      if (v->size / 16 < v->table_var_ids.size()) f.fail("D-09", "size below 16 bytes per entry");
      return;
    default:
      return;
  }
}

Variable parse_variable(const Context& c, const Fields& f, std::string name,
                        const std::string& directory) {
  Variable v;
  v.name = std::move(name);
  const std::optional<std::string> type = f.text("type");
  if (!type) f.fail("D-02", "variable without 'type'");
  const auto* known = std::find_if(std::begin(kVariableTypes), std::end(kVariableTypes),
                                   [&](const TypeName& t) { return type == t.name; });
  if (known == std::end(kVariableTypes)) {
    f.fail("D-03", "unknown variable type '" + type.value_or("") + "'");
    return v;
  }
  v.type = known->type;
  v.var_id = var_id(f, "var_id", "D-02");
  const auto size = f.integer_in("size", 0, kMaxVariableBytes, "D-02");
  if (!size && v.type != VariableType::kStateBuffer) f.fail("D-02", "variable without 'size'");
  v.size = static_cast<uint64_t>(size.value_or(0));
  const int64_t alignment = f.integer_in("alignment", 0, kMaxVariableBytes, "D-05").value_or(0);
  if ((alignment & (alignment - 1)) != 0) {
    f.fail("D-05", "alignment " + std::to_string(alignment) + " is not a power of two");
  }
  v.alignment = static_cast<uint64_t>(alignment);
  v.fabric_path = fabric_path(f);
  warn_misplaced(f, v.type);
  parse_io_metadata(f, &v);
  if (c.report.ok()) parse_by_type(c, f, directory, &v);
  return v;
}

void check_variable_ids(const Context& c, const std::string& where, const Subgraph& sg) {
  for (size_t i = 1; i < sg.variables.size(); ++i) {
    if (sg.variables[i - 1].var_id == sg.variables[i].var_id) {
      c.report.fail("D-04", where,
                    "var_id " + std::to_string(sg.variables[i].var_id) + " is used by " +
                        sg.variables[i - 1].name + " and " + sg.variables[i].name);
    }
  }
  for (const Variable& v : sg.variables) {
    if (v.type == VariableType::kPointer && sg.find_variable(v.referenced_var_id) == nullptr) {
      c.report.fail(
          "D-08", where + " var " + v.name,
          "referenced_var_id " + std::to_string(v.referenced_var_id) + " is not declared");
    }
    for (uint32_t id : v.table_var_ids) {
      if (sg.find_variable(id) == nullptr) {
        c.report.fail("D-09", where + " var " + v.name,
                      "list names unknown id " + std::to_string(id));
      }
    }
  }
}

void parse_variables(const Context& c, const Json& root, const std::string& where, Subgraph* sg) {
  const auto it = root.find("var");
  if (it == root.end() || !it->is_object()) {
    return c.report.fail("D-01", where, "'var' is missing or not an object");
  }
  for (const auto& [name, value] : it->items()) {
    const Fields f(value, where + " var " + name, "D-02", &c.report);
    sg->variables.push_back(parse_variable(c, f, name, sg->directory));
    if (!c.report.ok()) return;
  }
  std::sort(sg->variables.begin(), sg->variables.end(),
            [](const Variable& a, const Variable& b) { return a.var_id < b.var_id; });
  sg->variables_by_name.resize(sg->variables.size());
  for (uint32_t i = 0; i < sg->variables.size(); ++i) sg->variables_by_name[i] = i;
  std::sort(sg->variables_by_name.begin(), sg->variables_by_name.end(),
            [&](uint32_t a, uint32_t b) { return sg->variables[a].name < sg->variables[b].name; });
  check_variable_ids(c, where, *sg);
}

std::vector<RankList> parse_lists(const Json& value, size_t exact, const Fields& f) {
  std::vector<RankList> out;
  if (!value.is_array()) {
    f.fail("'replica_groups' and 'source_target_pairs' hold lists of lists of ranks");
    return out;
  }
  for (const Json& list : value) {
    RankList ranks;
    for (const Json& item : list.is_array() ? list : Json::array()) {
      const std::optional<int64_t> n = as_integer(item);
      if (!n || *n < 0 || *n > kMaxRank) f.fail("rank is not a number in 0..2^20");
      ranks.push_back(static_cast<uint32_t>(n.value_or(0)));
    }
    if (ranks.empty() || (exact != 0 && ranks.size() != exact)) f.fail("malformed list of ranks");
    out.push_back(std::move(ranks));
  }
  return out;
}

void parse_collectives(const Context& c, const Json& root, const std::string& where, Subgraph* sg) {
  const auto it = root.find("x_cc");
  if (it == root.end()) return;
  const Fields f(*it, where + " x_cc", "C-11", &c.report);
  if (const Json* groups = f.array("replica_groups")) {
    for (const Json& config : *groups) {
      sg->cc.groups.push_back({parse_lists(config, 0, f), {}});
      std::set<uint32_t> seen;
      for (const RankList& list : sg->cc.groups.back().lists) {
        for (uint32_t rank : list) {
          if (!seen.insert(rank).second)
            f.fail("rank " + std::to_string(rank) + " occurs twice in a group");
        }
      }
    }
  }
  if (const Json* pairs = f.array("source_target_pairs")) {
    for (size_t g = 0; g < pairs->size(); ++g) {
      if ((*pairs)[g].is_null()) continue;
      if (g >= sg->cc.groups.size()) return f.fail("source_target_pairs without a replica group");
      for (const RankList& p : parse_lists((*pairs)[g], 2, f)) {
        if (p.size() == 2) sg->cc.groups[g].source_target_pairs.push_back({p[0], p[1]});
      }
    }
  }
  sg->cc.participants =
      static_cast<uint32_t>(f.integer_in("participants", 0, kMaxRank, "C-11").value_or(0));
  sg->cc.streams = static_cast<uint32_t>(f.integer_in("streams", 0, 4, "C-15").value_or(1));
  sg->cc.ops = static_cast<uint32_t>(f.integer_in("ops", 0, 1 << 30, "C-11").value_or(0));
}

// Per area the largest end; areas add up (spec/neff.md 3.13).
uint64_t scratchpad_bytes(const std::vector<Variable>& variables) {
  std::vector<std::pair<std::string, uint64_t>> areas;
  for (const Variable& v : variables) {
    if (v.type != VariableType::kVirtual) continue;
    const std::string area = (v.fabric_path == FabricPath::kAlt ? "alt " : "main ") + v.backing_buf;
    auto it =
        std::find_if(areas.begin(), areas.end(), [&](const auto& a) { return a.first == area; });
    if (it == areas.end()) it = areas.insert(areas.end(), {area, 0});
    it->second = std::max(it->second, v.scratchpad_offset + v.size);
  }
  uint64_t total = 0;
  for (const auto& area : areas) total += area.second;
  return total;
}

void parse_engine_names(const Fields& f, Subgraph* sg) {
  for (unsigned e = 0; e < kEngines; ++e) {
    EngineProgram p;
    p.engine = static_cast<Engine>(e);
    const std::string key = to_string(p.engine);
    for (const auto& [file, name] :
         {std::pair{&p.json_file, key}, {&p.instr_file, key + "_instr"}}) {
      const std::optional<std::string> value = f.text(name.c_str());
      if (!value) continue;
      base::Result<std::string> path = member_path(sg->directory, *value);
      if (!path) return f.report().fail(path.error());
      *file = *path;
    }
    if (!p.json_file.empty() || !p.instr_file.empty()) sg->programs.push_back(std::move(p));
  }
}

}  // namespace

const char* to_string(VariableType type) {
  for (const TypeName& t : kVariableTypes) {
    if (t.type == type) return t.name;
  }
  return "unknown";
}

void parse_definition(const Context& c, const Member& definition, Subgraph* sg) {
  const std::optional<Json> root = parse_json(definition, c.options.limits, &c.report);
  if (!root) return;
  const std::string& where = definition.name;
  const Fields f(*root, where, "D-01", &c.report);
  if (const auto arch = f.text("x_arch")) {
    sg->arch = parse_arch(*arch);
    if (!sg->arch) f.fail("V-17", "unknown x_arch '" + *arch + "': inf1, trn1, inf2, trn2, trn3");
  }
  parse_engine_names(f, sg);
  parse_queues(c, *root, where, sg);
  if (c.report.ok()) parse_variables(c, *root, where, sg);
  if (c.report.ok()) parse_collectives(c, *root, where, sg);
  sg->scratchpad_bytes = scratchpad_bytes(sg->variables);
}

}  // namespace neff
