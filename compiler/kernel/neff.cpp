// From the recorded kernel to the members of a NEFF: programs with semaphores (spec/neff.md 5.5),
// definitions (spec/neff.md 2.6), transfers (spec/neff.md 3.2) and where each instruction comes
// from.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

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

// Which events are waited for, and the semaphore values that say that they are complete. Each
// segment begins anew.
class Signals {
 public:
  explicit Signals(const Program& program)
      : rank_(program.segments.size()), dma_engines_(program.params.dma_engines) {
    for (const Entry& e : program.entries) {
      for (const Event& w : e.waits) {
        if (w.agent >= isa::kEngines) continue;
        std::vector<uint32_t>& list = rank_[e.segment][w.agent];
        if (list.size() <= w.number) list.resize(w.number + 1);
        list[w.number] = 1;
      }
    }
    for (auto& segment : rank_) {
      for (std::vector<uint32_t>& list : segment) {
        uint32_t count = 0;
        for (uint32_t& n : list) {
          if (n != 0) n = ++count;
        }
      }
    }
  }

  bool awaited(uint32_t segment, const Event& event) const {
    if (event.agent >= isa::kEngines) return false;
    const std::vector<uint32_t>& list = rank_[segment][event.agent];
    return event.number < list.size() && list[event.number] != 0;
  }

  isa::Wait wait(uint32_t segment, const Event& event) const {
    if (event.agent < isa::kEngines) {
      return {isa::WaitCond::kGe, false, agent_semaphore(event.agent),
              rank_[segment][event.agent][event.number]};
    }
    if (event.agent < Order::kFirstQueueSet) {
      return {isa::WaitCond::kGe, false, agent_semaphore(event.agent), event.number};
    }
    const uint32_t turn = (event.number - 1) / Order::kWindow + 1;
    return {isa::WaitCond::kGe, false, transfer_semaphore(event), turn * dma_engines_};
  }

  static uint8_t transfer_semaphore(const Event& event) {
    const uint32_t set = event.agent - Order::kFirstQueueSet;
    return static_cast<uint8_t>(kFirstTransferSemaphore + Order::kWindow * set +
                                (event.number - 1) % Order::kWindow);
  }

 private:
  // Per segment, engine and number: the semaphore's value, or 0.
  std::vector<std::array<std::vector<uint32_t>, isa::kEngines>> rank_;
  unsigned dma_engines_;  // what one transfer adds (spec/neff.md 3.8)
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
      wait.wait = signals_.wait(entry.segment, entry.waits[i]);
      wait.debug_id = debug_id;
      append(wait);
    }
    isa::Instruction in = entry.instruction;
    in.debug_id = debug_id;
    if (waits > 0) in.wait = signals_.wait(entry.segment, entry.waits.back());
    if (signals_.awaited(entry.segment, entry.event)) {
      in.complete_update = {isa::UpdateOp::kInc, agent_semaphore(engine_), 0};
    }
    if (in.opcode == isa::Opcode::kPseudoTriggerCollective2) {
      in.complete_update = {isa::UpdateOp::kInc, agent_semaphore(entry.event.agent), 0};
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

  void begin(const Segment& segment) {
    if (!segment.loop) return;
    const Segment::Loop& loop = *segment.loop;
    const auto most = static_cast<uint32_t>(loop.most);
    call_ = segment.call;
    skip_.reset();
    if (loop.trips) {
      isa::Instruction load = control(isa::Opcode::kTensorLoad);
      load.operands.tensor_load = {kTripsRegister, *loop.trips, isa::DgeBounds::kError};
      append(load);
      append(alu(isa::AluOp::kMin, kTripsRegister, kTripsRegister, most));
    } else {
      append(set(kTripsRegister, most));
    }
    append(set(kTurnRegister, 0));
    if (loop.trips) {
      skip_ = here();
      append(branch(isa::BranchCond::kEq, kTripsRegister, {0, false}, 0));
    }
    top_ = here();
    for (size_t i = 0; i < loop.scales.size(); ++i) {
      append(alu(isa::AluOp::kMul, static_cast<uint8_t>(kFirstScaledRegister + i), kTurnRegister,
                 static_cast<uint32_t>(loop.scales[i])));
    }
  }

  // Of a segment that another one follows.
  void end(const Segment& segment) {
    add_border();
    if (!segment.loop) return;
    append(alu(isa::AluOp::kAdd, kTurnRegister, kTurnRegister, 1));
    append(branch(isa::BranchCond::kLtu, kTurnRegister, {kTripsRegister, true}, top_ - here()));
    if (!skip_) return;
    const isa::Instruction past =
        branch(isa::BranchCond::kEq, kTripsRegister, {0, false}, here() - *skip_);
    isa::encode(past, records_.data() + static_cast<size_t>(*skip_) * isa::kRecordBytes,
                isa::kRecordBytes);
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
  int32_t here() const { return static_cast<int32_t>(records_.size() / isa::kRecordBytes); }

  isa::Instruction control(isa::Opcode opcode) const {
    isa::Instruction in{};
    in.opcode = opcode;
    in.debug_id = neff::debug_id(0, 0, call_);
    return in;
  }
  isa::Instruction set(uint8_t r, uint32_t value) const {
    isa::Instruction in = control(isa::Opcode::kRegisterMove);
    in.operands.register_move = {r, {value, false}};
    return in;
  }
  isa::Instruction alu(isa::AluOp op, uint8_t dst, uint8_t a, uint32_t b) const {
    isa::Instruction in = control(isa::Opcode::kRegisterAlu);
    in.operands.register_alu = {op, dst, a, {b, false}};
    return in;
  }
  isa::Instruction branch(isa::BranchCond cond, uint8_t a, isa::Value b, int32_t target) const {
    isa::Instruction in = control(isa::Opcode::kCompareBranch);
    in.operands.compare_branch = {cond, a, b, target};
    return in;
  }

  // All engines have drained, and Sync has waited for the transfers: it clears the semaphores, and
  // they go on. Those of the barrier come back to 0 by themselves.
  void add_border() {
    if (engine_ != contract::kSp) append(control(isa::Opcode::kDrain));
    add_barrier();
    if (engine_ == contract::kSp) {
      clear(0, Order::kFirstQueueSet - 1);
      const size_t sets = program_.queues.size();
      if (sets != 0)
        clear(kFirstTransferSemaphore, kFirstTransferSemaphore + Order::kWindow * sets - 1);
    }
    add_barrier();
  }

  void add_barrier() {
    isa::Instruction barrier = control(isa::Opcode::kAllEngineBarrier);
    barrier.operands.all_engine_barrier.semaphore = kBarrierSemaphore;
    append(barrier);
  }

  void clear(size_t first, size_t last) {
    isa::Instruction in = control(isa::Opcode::kEventSemaphoreRangeClear);
    in.operands.event_semaphore_range_clear = {
        isa::ClearKind::kSemaphore, static_cast<uint8_t>(first), static_cast<uint8_t>(last)};
    append(in);
  }

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
  uint32_t call_ = 0;            // of the loop that has begun last
  int32_t top_ = 0;              // first record of its turns
  std::optional<int32_t> skip_;  // of what goes past a loop without turns
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
    if (s + 1 < program.segments.size()) for_used([&](EngineFile& file) { file.end(segment); });
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
