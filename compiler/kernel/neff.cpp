// From the recorded kernel to the members of a NEFF: programs with semaphores (spec/neff.md 5.5),
// definitions (spec/neff.md 2.6), transfers (spec/neff.md 3.2) and where each instruction comes
// from.
#include <algorithm>
#include <cstring>
#include <map>

#include "arch/contract/dge.h"
#include "arch/contract/isa_file.h"
#include "base/json.h"
#include "compiler/kernel/program.h"
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

// Which events are waited for, and the semaphore values that say that they are complete.
class Signals {
 public:
  explicit Signals(const Program& program)
      : rank_(isa::kEngines), dma_engines_(program.params.dma_engines) {
    std::vector<std::vector<bool>> awaited(isa::kEngines);
    for (const Entry& e : program.entries) {
      for (const Event& w : e.waits) {
        if (w.agent >= isa::kEngines) continue;
        std::vector<bool>& list = awaited[w.agent];
        if (list.size() <= w.number) list.resize(w.number + 1);
        list[w.number] = true;
      }
    }
    for (uint32_t engine = 0; engine < isa::kEngines; ++engine) {
      uint32_t count = 0;
      rank_[engine].resize(awaited[engine].size());
      for (size_t n = 0; n < awaited[engine].size(); ++n) {
        if (awaited[engine][n]) rank_[engine][n] = ++count;
      }
    }
  }

  bool awaited(const Event& event) const {
    return event.agent < isa::kEngines && event.number < rank_[event.agent].size() &&
           rank_[event.agent][event.number] != 0;
  }

  isa::Wait wait(const Event& event) const {
    if (event.agent < isa::kEngines) {
      return {isa::WaitCond::kGe, false, engine_semaphore(event.agent),
              rank_[event.agent][event.number]};
    }
    const uint32_t turn = (event.number - 1) / Order::kWindow + 1;
    return {isa::WaitCond::kGe, false, transfer_semaphore(event), turn * dma_engines_};
  }

  static uint8_t transfer_semaphore(const Event& event) {
    const uint32_t set = event.agent - isa::kEngines;
    return static_cast<uint8_t>(kFirstTransferSemaphore + Order::kWindow * set +
                                (event.number - 1) % Order::kWindow);
  }

 private:
  std::vector<std::vector<uint32_t>> rank_;  // per engine and number: the semaphore's value, or 0
  unsigned dma_engines_;                     // what one transfer adds (spec/neff.md 3.8)
};

// One engine's program file.
class EngineFile {
 public:
  EngineFile(const Program& program, const Signals& signals, uint32_t engine)
      : program_(program), signals_(signals), engine_(engine) {}

  void add(const Entry& entry) {
    const uint64_t debug_id = neff::debug_id(0, 0, entry.call);
    const size_t waits = entry.waits.size();
    for (size_t i = 0; i + 1 < waits; ++i) {
      isa::Instruction wait{};
      wait.opcode = isa::Opcode::kEventSemaphore;
      wait.wait = signals_.wait(entry.waits[i]);
      wait.debug_id = debug_id;
      append(wait);
    }
    isa::Instruction in = entry.instruction;
    in.debug_id = debug_id;
    if (waits > 0) in.wait = signals_.wait(entry.waits.back());
    if (signals_.awaited(entry.event)) {
      in.complete_update = {isa::UpdateOp::kInc, engine_semaphore(engine_), 0};
    }
    if (in.opcode == isa::Opcode::kPseudoDmaTrigger) {
      uint32_t& queue = in.operands.pseudo_dma_trigger.queue;
      queue = symbol(program_.queues[queue].name);
    }
    if (contract::dge::generates(in.opcode)) {
      const uint32_t set = contract::dge::transfer_of(in).queue;
      contract::dge::set_queue(&in, symbol(program_.queues[set].name));
      contract::dge::set_semaphore(&in, Signals::transfer_semaphore(entry.event));
    }
    append(in);
  }

  bool empty() const { return records_.empty(); }

  std::vector<uint8_t> finish() {
    isa::Instruction halt{};
    halt.opcode = isa::Opcode::kHalt;
    append(halt);
    isa::EngineFileHeader h;
    h.engine = static_cast<uint8_t>(engine_);
    h.arch = static_cast<uint8_t>(program_.params.generation);
    h.flags = isa::kFileSelfCleaning;
    h.record_count = static_cast<uint32_t>(records_.size() / isa::kRecordBytes);
    std::vector<uint8_t> out(isa::kFileHeaderBytes);
    out.insert(out.end(), records_.begin(), records_.end());
    if (symbols_.size() > 1) {
      h.strings_offset = out.size();
      for (const std::string& s : symbols_)
        out.insert(out.end(), s.c_str(), s.c_str() + s.size() + 1);
      h.strings_bytes = out.size() - h.strings_offset;
    }
    isa::store(h, out.data());
    return out;
  }

 private:
  void append(const isa::Instruction& in) {
    isa::Record room[1 + isa::kMaxExtensions];
    const uint32_t n = isa::encode(in, room[0].bytes, sizeof room);
    for (uint32_t i = 0; i < n; ++i) {
      records_.insert(records_.end(), room[i].bytes, room[i].bytes + isa::kRecordBytes);
    }
  }

  uint32_t symbol(const std::string& name) {
    const auto found = std::find(symbols_.begin(), symbols_.end(), name);
    if (found == symbols_.end())
      return symbols_.push_back(name), static_cast<uint32_t>(symbols_.size() - 1);
    return static_cast<uint32_t>(found - symbols_.begin());
  }

  const Program& program_;
  const Signals& signals_;
  uint32_t engine_;
  std::vector<uint8_t> records_;
  std::vector<std::string> symbols_{""};
};

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
                     {"semaphore", Signals::transfer_semaphore({q.agent, n})},
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

}  // namespace

base::Result<std::vector<uint8_t>> make_neff(const Program& program) {
  const Signals signals(program);
  std::vector<EngineFile> files;
  for (uint32_t e = 0; e < isa::kEngines; ++e) files.emplace_back(program, signals, e);
  for (const Entry& entry : program.entries) files[entry.engine].add(entry);

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
