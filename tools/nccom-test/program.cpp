#include "program.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "neff_loader/asm.h"
#include "neff_loader/pack.h"

namespace nccom {
namespace {

using Json = nlohmann::ordered_json;

// Semaphores of the program: three per stream.
constexpr int kInSemaphore = 10;
constexpr int kOutSemaphore = 11;
constexpr int kDoneSemaphore = 15;
constexpr int kSemaphoresPerStream = 8;
constexpr int kQueues = 16;  // each reports once: +16 per copy (neff.md 6.1)
constexpr uint32_t kAlignment = 64;
// Triggers in the FIFO of a CC-core at a time; it holds 256.
constexpr uint32_t kOutstanding = 128;
// Counts of a pattern have 32 bits.
constexpr uint64_t kMaxCount = 1u << 30;

std::string pattern(uint64_t elements) {
  if (elements < kMaxCount) return "[1][" + std::to_string(elements) + "]";
  uint64_t inner = kMaxCount;
  while (elements % inner != 0) inner /= 2;
  return "[1," + std::to_string(inner) + "][" + std::to_string(inner) + "," +
         std::to_string(elements / inner) + "]";
}

const char* type_name(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "ALL_REDUCE op=ADD";
    case Operation::kAllGather:
      return "ALL_GATHER";
    case Operation::kReduceScatter:
      return "REDUCE_SCATTER op=ADD";
    case Operation::kAllToAll:
      return "ALL_TO_ALL";
    case Operation::kPermute:
      return "PERMUTE";
    case Operation::kSendRecv:
      return "SEND_RECV";
    case Operation::kAllGatherV:
      return "ALL_GATHER_V";
    case Operation::kReduceScatterV:
      return "REDUCE_SCATTER_V op=ADD";
    case Operation::kAllToAllV:
      return "ALL_TO_ALL_V";
  }
  return "";
}

std::string suffix(size_t stream) {
  return stream == 0 ? "" : std::to_string(stream);
}

int semaphore(int first, size_t stream) {
  return first + kSemaphoresPerStream * static_cast<int>(stream);
}

// Variable numbers: the tensors of a stream, then its buffers in pairs, then its metadata.
constexpr uint32_t kPerStream = 3 + 2 * kMaxOperations;
uint32_t metadata_id(size_t stream) {
  return static_cast<uint32_t>(stream + 1) * kPerStream;
}
uint32_t tensor_id(size_t stream, bool output) {
  return static_cast<uint32_t>(stream) * kPerStream + (output ? 2 : 1);
}
uint32_t buffer_id(size_t stream, uint32_t pair, bool output) {
  return static_cast<uint32_t>(stream) * kPerStream + 3 + 2 * pair + (output ? 1 : 0);
}
std::string buffer_name(size_t stream, uint32_t pair, bool output) {
  return std::string(output ? "cc_out" : "cc_in") + suffix(stream) +
         (pair == 0 ? "" : "_" + std::to_string(pair));
}

// What is the same for a stream everywhere in the program.
struct Stream {
  Stream(const Workload& work, size_t number)
      : index(number),
        o(work.streams[number]),
        size(work.sizes[number]),
        operations(work.iterations * o.ops_per_iter),
        pairs(o.unique_buffers ? operations : 1),
        copies(o.check != Check::kOff) {}

  size_t index;
  const Options& o;
  uint64_t size;
  uint32_t operations;
  uint32_t pairs;  // of buffers
  bool copies;
};

std::vector<Stream> streams_of(const Workload& work) {
  std::vector<Stream> out;
  for (size_t s = 0; s < work.streams.size(); ++s) out.emplace_back(work, s);
  return out;
}

Json copy_transfer(const std::string& from, const std::string& to, uint64_t bytes) {
  return {{"op", "copy"},          {"from", from},        {"from_off", 0},
          {"from_sizes", {bytes}}, {"from_steps", {1}},   {"to", to},
          {"to_off", 0},           {"to_sizes", {bytes}}, {"to_steps", {1}}};
}

std::string queue_name(size_t stream, bool output) {
  return std::string(output ? "qPoolOut" : "qPoolIn") + std::to_string(stream);
}

std::string at_least(int number, uint64_t value) {
  return " $S[" + std::to_string(number) + "]>=" + std::to_string(value);
}

std::string metadata_text(const Stream& s) {
  if (!variable_size(s.o.operation)) return "";
  return " metadata_var_id=" + std::to_string(metadata_id(s.index)) +
         " recv_counts_known=" + (receive_counts_known(s.o) ? "1" : "0") +
         " has_rdispls=" + (has_receive_displacements(s.o) ? "1" : "0");
}

// PTC2 instructions of operation `i` of a stream: one per part.
std::string operation_text(const Stream& s, uint32_t i) {
  const uint64_t element = contract::dtype_size(s.o.dtype.code);
  const auto per_operation = static_cast<uint32_t>(s.o.parts.size());
  const int done = semaphore(kDoneSemaphore, s.index);
  const uint32_t pair = s.o.unique_buffers ? i : 0;
  std::string text;
  uint64_t in_offset = 0;
  uint64_t out_offset = 0;
  uint32_t issued = i * per_operation;
  for (const Part& part : parts_of(s.o, s.size)) {
    std::string wait;
    if (issued == 0 && s.copies) wait = at_least(semaphore(kInSemaphore, s.index), kQueues);
    if (issued >= kOutstanding) wait = at_least(done, issued - kOutstanding + 1);
    const uint64_t in = input_bytes(s.o, part.size);
    const uint64_t out = output_bytes(s.o, part.size);
    text += "PSEUDO_TRIGGER_COLLECTIVE_2" + wait + " $S[" + std::to_string(done) +
            "]++@complete ctype=" + type_name(s.o.operation) + " dtype=" + s.o.dtype.neff_name +
            " cc_dim=0 src0_var_id=" + std::to_string(buffer_id(s.index, pair, false)) +
            " src0_var_offset=" + std::to_string(in_offset) +
            " src0_shape_reg=0 src0_pattern=" + pattern(in / element) +
            "\nPSEUDO_EXTENSION group_id=" + std::to_string(s.index) +
            " channel_id=0 stream_id=" + std::to_string(s.index) +
            " dst_var_id=" + std::to_string(buffer_id(s.index, pair, true)) +
            " dst_var_offset=" + std::to_string(out_offset) +
            " dst_shape_reg=0 dst_pattern=" + pattern(out / element) + metadata_text(s) + "\n";
    in_offset += in;
    out_offset += out;
    ++issued;
  }
  return text;
}

Json groups_of(const Options& o) {
  Json groups = Json::array();
  for (const auto& list : o.groups) groups.push_back(list);
  if (o.groups.empty()) {
    Json all = Json::array();
    for (uint32_t r = 0; r < o.ranks; ++r) all.push_back(r);
    groups.push_back(all);
  }
  return groups;
}

// In turns, so that a stream does not wait for the triggers of another.
std::string triggers_text(const std::vector<Stream>& streams, uint32_t iterations) {
  std::string text;
  for (uint32_t i = 0; i < iterations; ++i) {
    for (const Stream& s : streams) {
      for (uint32_t k = 0; k < s.o.ops_per_iter; ++k) {
        text += operation_text(s, i * s.o.ops_per_iter + k);
      }
    }
  }
  return text;
}

}  // namespace

std::string input_name(size_t stream) {
  return "x" + suffix(stream);
}
std::string output_name(size_t stream) {
  return "y" + suffix(stream);
}
std::string metadata_name(size_t stream) {
  return "m" + suffix(stream);
}

std::string definition_text(const Workload& work) {
  Json def = {{"name", "definition"},
              {"x_arch", work.arch},
              {"pool", "pool.json"},
              {"pool_instr", "pool.bin"}};
  Json queues = Json::object();
  Json var = Json::object();
  Json groups = Json::array();
  Json pairs = Json::array();
  uint64_t operations = 0;
  for (const Stream& s : streams_of(work)) {
    const uint64_t in = input_bytes(s.o, s.size);
    const uint64_t out = output_bytes(s.o, s.size);
    if (s.copies) {
      for (const bool output : {false, true}) {
        queues[queue_name(s.index, output)] = {
            {"type", output ? "out" : "in"},
            {"num_queues", kQueues},
            {"owner", "pool"},
            {"semaphore", semaphore(output ? kOutSemaphore : kInSemaphore, s.index)}};
        var[output ? output_name(s.index) : input_name(s.index)] = {
            {"type", output ? "output" : "input"},
            {"var_id", tensor_id(s.index, output)},
            {"size", output ? out : in}};
      }
    }
    for (uint32_t pair = 0; pair < s.pairs; ++pair) {
      for (const bool output : {false, true}) {
        var[buffer_name(s.index, pair, output)] = {{"type", "tmp-buf"},
                                                   {"var_id", buffer_id(s.index, pair, output)},
                                                   {"size", output ? out : in},
                                                   {"alignment", kAlignment}};
      }
    }
    if (variable_size(s.o.operation)) {
      var[metadata_name(s.index)] = {
          {"type", "input"},
          {"var_id", metadata_id(s.index)},
          {"size", metadata_words(s.o, s.o.rank_start, s.size).size() * sizeof(uint32_t)}};
    }
    groups.push_back(groups_of(s.o));
    Json list = nullptr;
    for (const auto& [source, target] : s.o.pairs) list.push_back({source, target});
    pairs.push_back(list);
    operations += uint64_t{s.operations} * s.o.parts.size();
  }
  if (!queues.empty()) def["dma_queue"] = queues;
  def["var"] = var;
  def["x_cc"] = {{"replica_groups", groups},
                 {"source_target_pairs", pairs},
                 {"participants", work.streams.front().ranks},
                 {"streams", work.streams.size()},
                 {"ops", operations}};
  return def.dump(2) + "\n";
}

std::string engine_json_text(const Workload& work) {
  Json dma = Json::array();
  for (const Stream& s : streams_of(work)) {
    if (!s.copies) continue;
    Json in = Json::array();
    for (uint32_t pair = 0; pair < s.pairs; ++pair) {
      in.push_back(copy_transfer(input_name(s.index), buffer_name(s.index, pair, false),
                                 input_bytes(s.o, s.size)));
    }
    const Json out = Json::array({copy_transfer(buffer_name(s.index, s.pairs - 1, true),
                                                output_name(s.index), output_bytes(s.o, s.size))});
    const int first = 1 + 2 * static_cast<int>(s.index);
    dma.push_back({{"id", first},
                   {"queue", queue_name(s.index, false)},
                   {"semaphore", semaphore(kInSemaphore, s.index)},
                   {"desc", in}});
    dma.push_back({{"id", first + 1},
                   {"queue", queue_name(s.index, true)},
                   {"semaphore", semaphore(kOutSemaphore, s.index)},
                   {"desc", out}});
  }
  return Json{{"instr", Json::array()}, {"dma", dma}}.dump(2) + "\n";
}

std::string assembler_text(const Workload& work) {
  const std::vector<Stream> streams = streams_of(work);
  const auto block = [](const Stream& s, bool output) {
    return queue_name(s.index, output) +
           " block_id=" + std::to_string(1 + 2 * s.index + (output ? 1 : 0)) + "\n";
  };
  std::string text = ".engine pool\n.arch " + work.arch + "\n";
  for (const Stream& s : streams) {
    if (s.copies) text += "PSEUDO_DMA_TRIGGER " + block(s, false);
  }
  text += triggers_text(streams, work.iterations);
  for (const Stream& s : streams) {
    const std::string done =
        at_least(semaphore(kDoneSemaphore, s.index), uint64_t{s.operations} * s.o.parts.size());
    text += s.copies ? "PSEUDO_DMA_TRIGGER" + done + " " + block(s, true)
                     : "EVENT_SEMAPHORE" + done + "\n";
  }
  for (const Stream& s : streams) {
    if (!s.copies) continue;
    text += "EVENT_SEMAPHORE" + at_least(semaphore(kOutSemaphore, s.index), kQueues) + "\n";
  }
  return text + "HALT\n";
}

base::Result<Program> make_program(const Workload& work) {
  const auto code = neff::assemble(assembler_text(work));
  if (!code) return code.error();
  std::vector<neff::Member> members = {{"sg00/def.json", neff::text_bytes(definition_text(work))},
                                       {"sg00/pool.json", neff::text_bytes(engine_json_text(work))},
                                       {"sg00/pool.bin", *code}};
  // A subgraph per physical core (neff.md 3.15); the second core has nothing to do.
  for (unsigned part = 1; part < work.lnc; ++part) {
    const Json idle{{"name", "definition"}, {"x_arch", work.arch}, {"var", Json::object()}};
    members.push_back(
        {"sg0" + std::to_string(part) + "/def.json", neff::text_bytes(idle.dump(2) + "\n")});
  }
  const Options& o = work.streams.front();
  neff::PackOptions options;
  options.name = std::string("nccom_neff_") + short_name(o.operation) + "_x" +
                 std::to_string(work.iterations) + "_" + std::to_string(work.sizes.front()) + "_" +
                 o.dtype.name + "_r" + std::to_string(o.ranks) + "_lnc" + std::to_string(work.lnc);
  auto file = neff::pack(std::move(members), options);
  if (!file) return file.error();
  return Program{options.name, std::move(*file)};
}

}  // namespace nccom
