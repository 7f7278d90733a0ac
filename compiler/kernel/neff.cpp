// From the recorded kernel to the members of a NEFF: programs, definitions (spec/neff.md 2.6),
// transfers (spec/neff.md 3.2) and where each instruction comes from.
#include <algorithm>
#include <cstring>
#include <map>

#include "arch/contract/dge.h"
#include "base/json.h"
#include "compiler/kernel/engine_file.h"
#include "neff_loader/debug_info.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"

namespace kernel {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDirectory = "sg00/";

const char* arch_name(Generation generation) {
  switch (generation) {
    case Generation::kV2:
      return "trn1";
    case Generation::kV3:
      return "trn2";
    case Generation::kV4:
      return "trn3";
  }
  return "";
}

const char* key_of(uint32_t engine) {
  return neff::to_string(static_cast<neff::Engine>(engine));
}

std::vector<uint8_t> bytes_of_json(const Json& json, int indent = -1) {
  return neff::text_bytes(base::json_text(json, indent) + "\n");
}

const char* usage_name(Usage usage) {
  switch (usage) {
    case Usage::kInput:
      return "input";
    case Usage::kOutput:
      return "output";
    case Usage::kConstant:
      return "file";
    case Usage::kScratch:
      return "tmp-buf";
  }
  return "";
}

Json variables(const Program& program) {
  Json out = {{kStateBuffer, {{"type", "state-buffer"}, {"var_id", 0}, {"size", neff::kPsumBase}}}};
  uint32_t id = 1;
  for (const Tensor& t : program.tensors) {
    Json v = {{"type", usage_name(t.usage)}, {"var_id", id}, {"size", t.bytes}};
    if (t.usage == Usage::kConstant) v["file_name"] = "constant" + std::to_string(id) + ".bin";
    if (t.usage == Usage::kInput || t.usage == Usage::kOutput) {
      v["x_dtype"] = neff::to_string(data_type(t.dtype));
      v["x_shape"] = t.shape;
    }
    out[t.name] = v;
    ++id;
  }
  if (!program.table.empty()) {
    Json list = Json::array();
    for (const uint32_t tensor : program.table) list.push_back(tensor + 1);
    out[kDgeTable] = {{"type", "dge-table"},
                      {"var_id", id},
                      {"size", contract::dge::kEntryBytes * program.table.size()},
                      {"list", std::move(list)}};
  }
  return out;
}

Json queue_sets(const Program& program) {
  Json out = Json::object();
  for (const QueueSet& q : program.queues) {
    Json semaphores = Json::array();
    const uint32_t used = std::min<uint32_t>(Order::kWindow, q.transfers());
    for (uint32_t n = 1; n <= used; ++n) {
      semaphores.push_back(Signals::transfer_semaphore({q.agent, n}));
    }
    out[q.name] = {{"type", q.type},
                   {"num_queues", program.params.dma_engines},
                   {"owner", key_of(q.engine)},
                   {"semaphore_set", semaphores}};
  }
  return out;
}

// Groups, and what the loader checks them against (spec/neff.md 4.4).
Json collectives(const Program& program) {
  Json groups = Json::array();
  size_t ranks = 0;
  for (const auto& list : program.groups[0].lists) ranks += list.size();
  for (const Group& group : program.groups) groups.push_back(group.lists);
  size_t streams = 0;
  uint32_t operations = 0;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    if (program.streams[s].operations > 0) streams = s + 1;
    operations += program.streams[s].operations;
  }
  return {{"replica_groups", std::move(groups)},
          {"source_target_pairs", std::vector<Json>(program.groups.size())},
          {"participants", ranks},
          {"streams", streams},
          {"ops", operations}};
}

void add_side(const std::string& side, const std::string& variable, const neff::AccessPattern& p,
              Json* out) {
  (*out)[side] = variable;
  (*out)[side + "_off"] = p.offset;
  (*out)[side + "_sizes"] = std::vector<int64_t>(p.sizes.begin(), p.sizes.begin() + p.dims);
  (*out)[side + "_steps"] = std::vector<int64_t>(p.steps.begin(), p.steps.begin() + p.dims);
}

Json transfers(const Program& program, uint32_t engine) {
  Json out = Json::array();
  for (const QueueSet& q : program.queues) {
    if (q.engine != engine) continue;
    for (uint32_t n = 1; n <= q.copies.size(); ++n) {
      const Copy& copy = q.copies[n - 1];
      Json parts = Json::array();
      for (const Copy::Part& part : copy.parts) {
        const bool folds = !copy.sources.empty();
        Json desc = {{"op", copy.op != nullptr                 ? copy.op
                            : copy.from_dtype == copy.to_dtype ? "copy"
                                                               : "cast"}};
        if (!folds) add_side("from", copy.from, part.from, &desc);
        for (const Copy::Source& source : copy.sources) {
          Json each = {{"from_dtype", neff::to_string(data_type(copy.from_dtype))}};
          add_side("from", source.variable, source.pattern, &each);
          if (std::strcmp(copy.op, "fma") == 0) each["scale"] = source.scale;
          desc["from_arr"].push_back(std::move(each));
        }
        add_side("to", copy.to, part.to, &desc);
        if (copy.shape[0] != 0) {
          desc["transpose_shape"] = copy.shape;
          desc["transpose_element_size"] = bytes_of(copy.from_dtype);
        }
        if (folds) {
          desc["to_dtype"] = neff::to_string(data_type(copy.to_dtype));
        } else if (copy.from_dtype != copy.to_dtype) {
          desc["from_dtype"] = neff::to_string(data_type(copy.from_dtype));
          desc["to_dtype"] = neff::to_string(data_type(copy.to_dtype));
        }
        parts.push_back(std::move(desc));
      }
      out.push_back({{"id", n},
                     {"queue", q.name},
                     {"semaphore", Signals::transfer_semaphore({q.agent, copy.number})},
                     {"desc", std::move(parts)}});
    }
  }
  return out;
}

neff::DebugInfo debug_info(const Program& program) {
  neff::DebugInfo info;
  const auto number = [](std::map<std::string, uint32_t>* known, std::vector<std::string>* list,
                         const std::string& text) {
    const auto [it, fresh] = known->emplace(text, static_cast<uint32_t>(list->size()));
    if (fresh) list->push_back(text);
    return it->second;
  };
  std::map<std::string, uint32_t> files;
  std::map<std::string, uint32_t> calls;
  for (const Call& call : program.calls) {
    info.locations.push_back({number(&files, &info.files, printable(call.at.file)),
                              static_cast<uint32_t>(call.at.line),
                              number(&calls, &info.calls, call.name)});
  }
  return info;
}

// Engines without an instruction of their own have no file, and no part in loops.
void add_segments(const Program& program, std::vector<EngineFile>* files) {
  std::vector<bool> used(isa::kEngines, false);
  for (const Entry& entry : program.entries) used[entry.engine] = true;
  const auto for_used = [&](auto&& function) {
    for (uint32_t e = 0; e < isa::kEngines; ++e) {
      if (used[e]) function((*files)[e]);
    }
  };
  size_t at = 0;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    for_used([&](EngineFile& file) { file.begin(segment); });
    for (; at < program.entries.size() && program.entries[at].segment == s; ++at) {
      (*files)[program.entries[at].engine].add(program.entries[at]);
    }
    if (s + 1 < program.segments.size()) for_used([&](EngineFile& file) { file.end(); });
  }
}

}  // namespace

base::Result<std::vector<uint8_t>> make_neff(const Program& program) {
  const Signals signals(program);
  std::vector<EngineFile> files;
  for (uint32_t e = 0; e < isa::kEngines; ++e) files.emplace_back(program, signals, e);
  add_segments(program, &files);

  std::vector<neff::Member> members;
  Json def = {{"name", "definition"}, {"x_arch", arch_name(program.params.generation)}};
  for (uint32_t e = 0; e < isa::kEngines; ++e) {
    if (files[e].empty()) continue;
    const std::string key = key_of(e);
    def[key] = key + ".json";
    def[key + "_instr"] = key + ".bin";
    const Json json = {{"instr", Json::array()}, {"dma", transfers(program, e)}};
    members.push_back({kDirectory + key + ".json", bytes_of_json(json)});
    members.push_back({kDirectory + key + ".bin", files[e].finish()});
  }
  def["dma_queue"] = queue_sets(program);
  def["var"] = variables(program);
  if (!program.groups.empty()) def["x_cc"] = collectives(program);
  members.push_back({std::string(kDirectory) + "def.json", bytes_of_json(def, 2)});
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    if (t.usage != Usage::kConstant) continue;
    members.push_back({kDirectory + ("constant" + std::to_string(i + 1) + ".bin"), t.content});
  }
  members.push_back({neff::kDebugInfoFile, neff::write_debug_info(debug_info(program))});
  neff::PackOptions options;
  options.name = program.params.name;
  options.build_version = "emu-kernel";
  return neff::pack(std::move(members), options);
}

}  // namespace kernel
