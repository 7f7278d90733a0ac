// The XML of MSCCL programs, and the checks that need no execution (spec/collectives.md 5.2).
#include <tinyxml2.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/collectives/schedule/msccl.h"

namespace ccl {
namespace {

using tinyxml2::XMLElement;

// Limits of the reference runtime, and one of ours for numbers that size tables.
constexpr uint32_t kMaxSteps = 256;
constexpr uint32_t kMaxBlocks = 216;
constexpr uint32_t kMaxCount = 71;
constexpr uint32_t kMaxMscclRanks = 1152;
constexpr uint32_t kMaxChunks = 65536;
constexpr size_t kMaxName = 63;

class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  base::Result<MscclProgram> read(const std::string& xml) {
    tinyxml2::XMLDocument document;
    if (document.Parse(xml.data(), xml.size()) != tinyxml2::XML_SUCCESS) {
      return error(document.ErrorLineNum(),
                   std::string("no valid XML (") + document.ErrorName() + ")");
    }
    const XMLElement* algo = document.RootElement();
    if (algo == nullptr || std::string(algo->Name()) != "algo") {
      return error(1, "expected the element 'algo'");
    }
    algorithm(*algo);
    for (const XMLElement* e = first(*algo, "gpu"); e != nullptr && ok();
         e = e->NextSiblingElement()) {
      rank(*e);
    }
    if (ok()) complete(*algo);
    if (!ok()) return *error_;
    return program_;
  }

 private:
  bool ok() const { return !error_; }
  base::Error error(int line, const std::string& what) const {
    return {base::Fault::kUsage, kNrtInvalid, where_ + ":" + std::to_string(line), what};
  }
  // The first error stays.
  void fail(const XMLElement& at, const std::string& what) {
    if (ok()) error_ = error(at.GetLineNum(), what);
  }

  // The children, all of which must have this name.
  const XMLElement* first(const XMLElement& of, const std::string& name) {
    for (const XMLElement* e = of.FirstChildElement(); e != nullptr; e = e->NextSiblingElement()) {
      if (e->Name() != name) {
        fail(*e, std::string("element '") + e->Name() + "'; expected '" + name + "'");
      }
    }
    return of.FirstChildElement();
  }

  int64_t number(const XMLElement& e, const char* name, int64_t min, int64_t max) {
    int64_t value = 0;
    if (e.QueryInt64Attribute(name, &value) != tinyxml2::XML_SUCCESS || value < min ||
        value > max) {
      const char* text = e.Attribute(name);
      fail(e, std::string("attribute ") + name + (text == nullptr ? " is missing" : "=\"") +
                  (text == nullptr ? "" : std::string(text) + "\"") + "; expected a number from " +
                  std::to_string(min) + " to " + std::to_string(max));
      return min;
    }
    return value;
  }
  uint32_t count(const XMLElement& e, const char* name, uint32_t min, uint32_t max) {
    return static_cast<uint32_t>(number(e, name, min, max));
  }
  std::string text(const XMLElement& e, const char* name) {
    const char* value = e.Attribute(name);
    if (value == nullptr) fail(e, std::string("attribute ") + name + " is missing");
    return value == nullptr ? "" : value;
  }

  void algorithm(const XMLElement& e) {
    program_.name = text(e, "name");
    if (program_.name.size() > kMaxName) fail(e, "name of more than 63 characters");
    ranks_ = count(e, "ngpus", 1, kMaxMscclRanks);
    program_.chunks = count(e, "nchunksperloop", 1, kMaxChunks);
    program_.in_place = number(e, "inplace", 0, 1) == 1;
    channels_ = number(e, "nchannels", 1, kMaxBlocks);
    collective(e);
    reduction(e);
    constexpr int64_t kMaxBytes = int64_t{1} << 62;
    if (e.Attribute("minBytes") != nullptr) {
      program_.min_bytes = static_cast<uint64_t>(number(e, "minBytes", 0, kMaxBytes));
    }
    if (e.Attribute("maxBytes") != nullptr) {
      program_.max_bytes = static_cast<uint64_t>(number(e, "maxBytes", 0, kMaxBytes));
    }
    if (program_.min_bytes >= program_.max_bytes) {
      fail(e, "no size is at least minBytes=\"" + std::to_string(program_.min_bytes) +
                  "\" and below maxBytes=\"" + std::to_string(program_.max_bytes) + "\"");
    }
  }

  void collective(const XMLElement& e) {
    static const std::map<std::string, OpKind> kKinds = {
        {"allreduce", OpKind::kAllReduce}, {"allgather", OpKind::kAllGather},
        {"reduce", OpKind::kReduce},       {"broadcast", OpKind::kBroadcast},
        {"alltoall", OpKind::kAllToAll},   {"reduce_scatter", OpKind::kReduceScatter}};
    const std::string name = text(e, "coll");
    const auto found = kKinds.find(name);
    if (found != kKinds.end()) {
      program_.kind = found->second;
    } else {
      fail(e, "coll=\"" + name +
                  "\"; expected allreduce, allgather, reduce, broadcast, alltoall or " +
                  "reduce_scatter");
    }
  }

  void reduction(const XMLElement& e) {
    if (e.Attribute("redop") == nullptr) return;
    const std::string name = text(e, "redop");
    if (name == "sum") {
      program_.op = ReduceOp::kAdd;
    } else if (name == "max") {
      program_.op = ReduceOp::kMax;
    } else if (name == "min") {
      program_.op = ReduceOp::kMin;
    } else if (name != "nop") {
      fail(e, "redop=\"" + name + "\"; supported: sum, max, min, nop");
    }
  }

  void rank(const XMLElement& e) {
    const uint32_t id = count(e, "id", 0, ranks_ - 1);
    if (id != program_.ranks.size()) {
      return fail(e, "gpu " + std::to_string(id) + "; expected " +
                         std::to_string(program_.ranks.size()) + ", in ascending order");
    }
    MscclRank r;
    r.input_chunks = count(e, "i_chunks", 0, kMaxChunks);
    r.output_chunks = count(e, "o_chunks", 0, kMaxChunks);
    r.scratch_chunks = count(e, "s_chunks", 0, kMaxChunks);
    check_chunks(e, &r);
    std::map<uint32_t, std::pair<const XMLElement*, MscclBlock>> blocks;
    for (const XMLElement* b = first(e, "tb"); b != nullptr && ok(); b = b->NextSiblingElement()) {
      const uint32_t tb = count(*b, "id", 0, kMaxBlocks - 1);
      if (!blocks.emplace(tb, std::make_pair(b, block(*b, id, r))).second) {
        fail(*b, "tb " + std::to_string(tb) + " twice");
      }
    }
    std::map<uint32_t, uint32_t> index;
    for (auto& [tb, found] : blocks) {
      index[tb] = static_cast<uint32_t>(r.blocks.size());
      r.blocks.push_back(std::move(found.second));
    }
    for (auto& [tb, found] : blocks) dependencies(*found.first, index, tb, &r);
    program_.ranks.push_back(std::move(r));
  }

  // Buffers have the sizes of the collective; a program that works in place may name only one.
  void check_chunks(const XMLElement& e, MscclRank* r) {
    const uint32_t all = program_.chunks;
    uint32_t input = all;
    uint32_t output = all;
    if (program_.kind == OpKind::kAllGather) input = all / ranks_;
    if (program_.kind == OpKind::kReduceScatter) output = all / ranks_;
    const bool split = program_.kind == OpKind::kAllGather ||
                       program_.kind == OpKind::kReduceScatter ||
                       program_.kind == OpKind::kAllToAll;
    if (split && all % ranks_ != 0) {
      return fail(e, "nchunksperloop=\"" + std::to_string(all) + "\" is no multiple of " +
                         std::to_string(ranks_) + " ranks");
    }
    const bool may_lack_input = program_.in_place || program_.kind == OpKind::kBroadcast;
    const bool may_lack_output = program_.in_place || program_.kind == OpKind::kReduce;
    const auto wrong = [](uint32_t have, uint32_t want, bool may_lack) {
      return have != want && (have != 0 || !may_lack);
    };
    if (wrong(r->input_chunks, input, may_lack_input) ||
        wrong(r->output_chunks, output, may_lack_output)) {
      fail(e, "i_chunks, o_chunks of " + std::string(to_string(program_.kind)) + ": expected " +
                  std::to_string(input) + ", " + std::to_string(output));
    }
    if (!program_.in_place) return;
    // Both names mean the same memory.
    r->input_chunks = input;
    r->output_chunks = output;
  }

  MscclBlock block(const XMLElement& e, uint32_t own, const MscclRank& r) {
    MscclBlock b;
    b.send = static_cast<int32_t>(number(e, "send", -1, int64_t{ranks_} - 1));
    b.recv = static_cast<int32_t>(number(e, "recv", -1, int64_t{ranks_} - 1));
    b.channel = static_cast<int32_t>(number(e, "chan", -1, channels_ - 1));
    if (b.channel == -1 && (b.send != -1 || b.recv != -1)) fail(e, "chan=\"-1\" with a peer");
    if (b.send == static_cast<int32_t>(own) || b.recv == static_cast<int32_t>(own)) {
      fail(e, "a peer is the rank itself");
    }
    for (const XMLElement* s = first(e, "step"); s != nullptr && ok();
         s = s->NextSiblingElement()) {
      if (b.steps.size() == kMaxSteps) fail(*s, "more than 256 steps");
      if (number(*s, "s", 0, kMaxSteps) != static_cast<int64_t>(b.steps.size())) {
        fail(*s, "step numbers must ascend from 0");
      }
      b.steps.push_back(step(*s, b, r));
    }
    return b;
  }

  MscclStep step(const XMLElement& e, const MscclBlock& b, const MscclRank& r) {
    static const std::map<std::string, MscclType> kTypes = {
        {"s", MscclType::kSend},   {"r", MscclType::kRecv},    {"rcs", MscclType::kRcs},
        {"rrc", MscclType::kRrc},  {"rrs", MscclType::kRrs},   {"rrcs", MscclType::kRrcs},
        {"cpy", MscclType::kCopy}, {"re", MscclType::kReduce}, {"nop", MscclType::kNop}};
    MscclStep out;
    const std::string type = text(e, "type");
    const auto found = kTypes.find(type);
    if (found == kTypes.end()) {
      fail(e, "type=\"" + type + "\"; supported: s, r, rcs, rrc, rrs, rrcs, cpy, re, nop");
      return out;
    }
    out.type = found->second;
    if (sends(out.type) && b.send == -1) fail(e, type + " in a thread block without send peer");
    if (receives(out.type) && b.recv == -1) fail(e, type + " in a thread block without recv peer");
    if (out.type == MscclType::kNop) return out;
    out.count = count(e, "cnt", 1, kMaxCount);
    if (loads(out.type)) out.src = reference(e, "srcbuf", "srcoff", out.count, r);
    if (!stores(out.type)) return out;
    out.dst = reference(e, "dstbuf", "dstoff", out.count, r);
    if (out.dst.buffer == 'i' && !program_.in_place) fail(e, "writes the input");
    const bool folds = out.type == MscclType::kRrc || out.type == MscclType::kRrcs;
    if (folds && (out.src.buffer != out.dst.buffer || out.src.chunk != out.dst.chunk)) {
      program_.warnings.push_back(where_ + ":" + std::to_string(e.GetLineNum()) + ": " + type +
                                  " folds into another place than it takes its operand from");
    }
    return out;
  }

  MscclRef reference(const XMLElement& e, const char* buffer, const char* offset, uint32_t count,
                     const MscclRank& r) {
    const std::string name = text(e, buffer);
    const uint32_t size = name == "i"   ? r.input_chunks
                          : name == "o" ? r.output_chunks
                                        : r.scratch_chunks;
    if (name != "i" && name != "o" && name != "s") {
      fail(e, std::string(buffer) + "=\"" + name + "\"; expected i, o or s");
      return {};
    }
    const uint32_t chunk = this->count(e, offset, 0, kMaxChunks);
    if (ok() && (count > size || chunk > size - count)) {
      fail(e, std::string(offset) + "=\"" + std::to_string(chunk) + "\", cnt=\"" +
                  std::to_string(count) + "\" reach outside of " + std::to_string(size) +
                  " chunks");
    }
    return {name[0], chunk};
  }

  void dependencies(const XMLElement& e, const std::map<uint32_t, uint32_t>& index, uint32_t tb,
                    MscclRank* r) {
    size_t i = 0;
    for (const XMLElement* s = e.FirstChildElement(); s != nullptr && ok();
         s = s->NextSiblingElement(), ++i) {
      const int64_t id = number(*s, "depid", -1, kMaxBlocks - 1);
      const int64_t at = number(*s, "deps", -1, kMaxSteps - 1);
      if (!ok() || id == -1) continue;
      const auto found = index.find(static_cast<uint32_t>(id));
      if (found == index.end() || at < 0 ||
          at >= static_cast<int64_t>(r->blocks[found->second].steps.size())) {
        fail(*s, "depends on step " + std::to_string(at) + " of tb " + std::to_string(id) +
                     ", which does not exist");
        return;
      }
      MscclStep& step = r->blocks[index.at(tb)].steps[i];
      step.depends = true;
      step.block = found->second;
      step.step = static_cast<uint32_t>(at);
      r->blocks[step.block].steps[step.step].awaited = true;
    }
  }

  // Every (source, destination, channel) has one sender, one receiver, and the same messages.
  void complete(const XMLElement& e) {
    if (program_.ranks.size() != ranks_) {
      return fail(e, std::to_string(program_.ranks.size()) + " gpus, ngpus=\"" +
                         std::to_string(ranks_) + "\"");
    }
    using Edge = std::tuple<uint32_t, uint32_t, int32_t>;
    std::map<Edge, std::vector<uint32_t>> sent;
    std::map<Edge, std::vector<uint32_t>> received;
    for (uint32_t r = 0; r < ranks_; ++r) {
      for (const MscclBlock& b : program_.ranks[r].blocks) {
        std::vector<uint32_t> out;
        std::vector<uint32_t> in;
        for (const MscclStep& s : b.steps) {
          if (sends(s.type)) out.push_back(s.count);
          if (receives(s.type)) in.push_back(s.count);
        }
        const bool twice =
            (!out.empty() &&
             !sent.emplace(Edge(r, static_cast<uint32_t>(b.send), b.channel), out).second) ||
            (!in.empty() &&
             !received.emplace(Edge(static_cast<uint32_t>(b.recv), r, b.channel), in).second);
        if (twice)
          fail(e, "two thread blocks of gpu " + std::to_string(r) + " share a channel to " +
                      "or from one peer");
      }
    }
    const auto unmatched = [&](const auto& mine, const auto& theirs, const char* what) {
      for (const auto& [edge, counts] : mine) {
        const auto other = theirs.find(edge);
        if (other != theirs.end() && other->second == counts) continue;
        fail(e, std::string(what) + " from gpu " + std::to_string(std::get<0>(edge)) + " to gpu " +
                    std::to_string(std::get<1>(edge)) + " on channel " +
                    std::to_string(std::get<2>(edge)) + " have no equal counterpart");
      }
    };
    unmatched(sent, received, "sends");
    unmatched(received, sent, "receives");
  }

  std::string where_;
  MscclProgram program_;
  uint32_t ranks_ = 0;
  int64_t channels_ = 0;
  std::optional<base::Error> error_;
};

}  // namespace

base::Result<MscclProgram> parse_msccl(const std::string& xml, const std::string& where) {
  return Reader(where).read(xml);
}

bool MscclProgram::applies(const OpRequest& request, uint32_t group_ranks,
                           bool buffers_in_place) const {
  const uint64_t size = report_size(request);
  const uint64_t element = contract::dtype_size(request.dtype);
  const bool rooted = kind == OpKind::kBroadcast || kind == OpKind::kReduce;
  return request.kind == kind && group_ranks == ranks.size() && size >= min_bytes &&
         size < max_bytes && element != 0 && size % (chunks * element) == 0 && size != 0 &&
         (!op || !reduces(kind) || *op == request.op) && (!rooted || request.root == 0) &&
         (in_place || !buffers_in_place);
}

}  // namespace ccl
