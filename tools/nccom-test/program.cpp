#include "program.h"

#include <algorithm>

#include "base/json.h"
#include "golden.h"
#include "neff_loader/access_pattern.h"
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
constexpr int kQueues = 16;  // each reports once: +16 per copy (spec/neff.md 6.1)
constexpr uint32_t kAlignment = 64;
constexpr const char* kSbufName = "SB";  // all tensors in SBUF are parts of one variable
constexpr uint32_t kSbufId = 0;
// Triggers in the FIFO of a CC-core at a time; it holds 256.
constexpr uint32_t kOutstanding = 128;
// Counts of a pattern have 32 bits.
constexpr uint64_t kMaxCount = 1u << 30;

std::string pattern(uint64_t elements) {
  if (elements == 0) return "[1][1]";  // of a barrier: not looked at
  if (elements < kMaxCount) return "[1][" + std::to_string(elements) + "]";
  uint64_t inner = kMaxCount;
  while (elements % inner != 0) inner /= 2;
  return "[1," + std::to_string(inner) + "][" + std::to_string(inner) + "," +
         std::to_string(elements / inner) + "]";
}

const char* type_name(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "ALL_REDUCE";
    case Operation::kAllGather:
      return "ALL_GATHER";
    case Operation::kReduceScatter:
      return "REDUCE_SCATTER";
    case Operation::kAllToAll:
      return "ALL_TO_ALL";
    case Operation::kPermute:
      return "PERMUTE";
    case Operation::kSendRecv:
      return "SEND_RECV";
    case Operation::kAllGatherV:
      return "ALL_GATHER_V";
    case Operation::kReduceScatterV:
      return "REDUCE_SCATTER_V";
    case Operation::kAllToAllV:
      return "ALL_TO_ALL_V";
    case Operation::kBroadcast:
      return "BROADCAST";
    case Operation::kReduce:
      return "REDUCE";
    case Operation::kBarrier:
      return "BARRIER";
    case Operation::kPermuteReduce:
      return "PERMUTE_REDUCE";
    case Operation::kPermuteImplicit:
      return "PERMUTE_IMPLICIT";
    case Operation::kPermuteReduceImplicit:
      return "PERMUTE_REDUCE_IMPLICIT";
  }
  return "";
}

std::string reduction_text(const Options& o) {
  if (!reduces(o.operation)) return "";
  switch (o.reduction) {
    case contract::ReduceOp::kAdd:
      return " op=ADD";
    case contract::ReduceOp::kFma:
      return " op=FMA";
    case contract::ReduceOp::kMax:
      return " op=MAX";
    case contract::ReduceOp::kMin:
      return " op=MIN";
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

// Where a part of an operation is: in the tensors, and in its buffers.
struct Place {
  Part input;
  Part output;
  uint64_t from = 0;
  uint64_t to = 0;
};

// What is the same for a stream everywhere in the program.
struct Stream {
  Stream(const Workload& work, size_t number, uint32_t rank)
      : index(number),
        o(work.streams[number]),
        size(work.sizes[number]),
        operations(work.iterations * o.ops_per_iter),
        pairs(o.unique_buffers ? operations : 1),
        copies(o.check != Check::kOff && o.operation != Operation::kBarrier) {
    const std::vector<uint32_t> group = group_of(o, rank);
    own = static_cast<uint64_t>(std::find(group.begin(), group.end(), rank) - group.begin());
    if (o.sbuf) shapes = *sbuf_shapes(o, size);  // check_sbuf() has seen them
  }

  // In place there is one buffer, with the parts one behind the other (spec/collectives.md 1.3).
  std::vector<Place> places() const {
    std::vector<Place> out;
    Place next;
    uint64_t both = 0;
    for (const Part& part : parts_of(o, size)) {
      next.input = {next.input.offset + next.input.size, input_bytes(o, part.size)};
      next.output = {next.output.offset + next.output.size, output_bytes(o, part.size)};
      next.from = o.in_place ? both : next.input.offset;
      next.to = o.in_place ? both : next.output.offset;
      if (o.in_place && o.operation == Operation::kAllGather) next.from += own * next.input.size;
      if (o.in_place && o.operation == Operation::kReduceScatter) next.to += own * next.output.size;
      both += std::max(next.input.size, next.output.size);
      out.push_back(next);
    }
    return out;
  }
  uint64_t tensor_bytes(bool output) const {
    return output ? output_bytes(o, size) : input_bytes(o, size);
  }
  uint64_t buffer_bytes(bool output) const {
    return o.in_place ? std::max(tensor_bytes(false), tensor_bytes(true)) : tensor_bytes(output);
  }

  size_t index;
  const Options& o;
  uint64_t size;
  uint32_t operations;
  uint32_t pairs;  // of buffers
  bool copies;
  uint64_t own = 0;  // index in the group
  SbufShapes shapes;
  uint64_t first_byte = 0;  // of its tensors in every partition of SBUF

  // The operations write the output tensor itself.
  bool direct() const { return o.shared_output && o.operation != Operation::kBarrier; }
  // Whether the tensor is there, and whether it is a copy.
  bool has_tensor(bool output) const { return copies || (output && direct()); }
  bool copied(bool output) const { return copies && !(output && direct()); }

  // Bytes of a tensor in a partition.
  uint64_t breadth(bool output) const {
    const uint64_t elements = output ? shapes.output.elements : shapes.input.elements;
    const uint64_t bytes = elements * contract::dtype_size(o.dtype.code);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t offset(uint32_t pair, bool output) const {
    if (!o.sbuf) return 0;
    return first_byte + pair * (breadth(false) + breadth(true)) + (output ? breadth(false) : 0);
  }
};

std::vector<Stream> streams_of(const Workload& work, uint32_t rank) {
  std::vector<Stream> out;
  uint64_t at = 0;
  for (size_t s = 0; s < work.streams.size(); ++s) {
    Stream stream(work, s, rank);
    stream.first_byte = at;
    if (stream.o.sbuf) at = stream.offset(stream.pairs, false);
    out.push_back(stream);
  }
  return out;
}

struct Side {
  std::string variable;
  uint64_t offset = 0;
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> steps;
};

Side flat_side(const std::string& variable, uint64_t offset, uint64_t bytes) {
  return {variable, offset, {bytes}, {1}};
}

// Rows, partitions, columns of rows: the order of the tensor as the operation sees it.
Side sbuf_side(const Stream& s, uint32_t pair, bool output) {
  const SbufShape& shape = output ? s.shapes.output : s.shapes.input;
  const uint64_t row =
      (output ? s.shapes.output_row : s.shapes.input_row) * contract::dtype_size(s.o.dtype.code);
  return {kSbufName,
          s.offset(pair, output),
          {row, shape.partitions, s.tensor_bytes(output) / row / shape.partitions},
          {1, shape.step * neff::kPartitionPitch, row}};
}

Json copy_transfer(const Side& from, const Side& to) {
  return {{"op", "copy"},
          {"from", from.variable},
          {"from_off", from.offset},
          {"from_sizes", from.sizes},
          {"from_steps", from.steps},
          {"to", to.variable},
          {"to_off", to.offset},
          {"to_sizes", to.sizes},
          {"to_steps", to.steps}};
}

// Tensors to buffers, or back: whole, or part by part where buffers have another order.
Json copies_of(const Stream& s, uint32_t pair, bool output) {
  const std::string tensor = output ? output_name(s.index) : input_name(s.index);
  const std::string buffer = buffer_name(s.index, pair, output && !s.o.in_place);
  const auto transfer = [&](const Side& there, const Side& here) {
    return output ? copy_transfer(here, there) : copy_transfer(there, here);
  };
  const auto copy = [&](const Part& part, uint64_t at) {
    return transfer(flat_side(tensor, part.offset, part.size), flat_side(buffer, at, part.size));
  };
  const uint64_t whole = s.tensor_bytes(output);
  if (s.o.sbuf) {
    return Json::array({transfer(flat_side(tensor, 0, whole), sbuf_side(s, pair, output))});
  }
  if (!s.o.in_place) return Json::array({copy({0, whole}, 0)});
  Json list = Json::array();
  for (const Place& place : s.places()) {
    list.push_back(output ? copy(place.output, place.to) : copy(place.input, place.from));
  }
  return list;
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

std::string shape_pattern(const SbufShape& shape) {
  return "[1," + std::to_string(shape.step) + "][" + std::to_string(shape.elements) + "," +
         std::to_string(shape.partitions) + "]";
}

uint32_t operand_id(const Stream& s, uint32_t pair, bool output) {
  if (s.o.sbuf) return kSbufId;
  if (output && s.direct()) return tensor_id(s.index, true);
  return buffer_id(s.index, pair, output && !s.o.in_place);
}

// PTC2 instructions of operation `i` of a stream: one per part.
std::string operation_text(const Stream& s, uint32_t i) {
  const uint64_t element = contract::dtype_size(s.o.dtype.code);
  const auto per_operation = static_cast<uint32_t>(s.o.parts.size());
  const int done = semaphore(kDoneSemaphore, s.index);
  const uint32_t pair = s.o.unique_buffers ? i : 0;
  const bool moves = s.o.operation != Operation::kBarrier;
  const std::string in = std::to_string(moves ? operand_id(s, pair, false) : 0);
  const std::string out = std::to_string(moves ? operand_id(s, pair, true) : 0);
  // Dimensions of programs: 0 partitions, 1 within a partition.
  const bool side_by_side = s.o.operation == Operation::kAllGather && s.o.cc_dim.value_or(1) == 0;
  std::string text;
  uint32_t issued = i * per_operation;
  for (const Place& place : s.places()) {
    std::string wait;
    if (issued == 0 && s.copies) wait = at_least(semaphore(kInSemaphore, s.index), kQueues);
    if (issued >= kOutstanding) wait = at_least(done, issued - kOutstanding + 1);
    const uint64_t source = place.input.size / (two_sources(s.o.operation) ? 2 : 1);
    const uint32_t channel = ring_permute(s.o.operation) ? issued - i * per_operation : 0;
    text += "PSEUDO_TRIGGER_COLLECTIVE_2" + wait + " $S[" + std::to_string(done) +
            "]++@complete ctype=" + type_name(s.o.operation) + reduction_text(s.o) +
            " dtype=" + s.o.dtype.neff_name + " cc_dim=" + (side_by_side ? "1" : "0") +
            " src0_var_id=" + in +
            " src0_var_offset=" + std::to_string(s.offset(pair, false) + place.from) +
            " src0_shape_reg=0 src0_pattern=" +
            (s.o.sbuf ? shape_pattern(s.shapes.input) : pattern(source / element)) +
            "\nPSEUDO_EXTENSION group_id=" + std::to_string(s.index) +
            " channel_id=" + std::to_string(channel) + " stream_id=" + std::to_string(s.index) +
            " dst_var_id=" + out +
            " dst_var_offset=" + std::to_string(s.offset(pair, true) + place.to) +
            " dst_shape_reg=0 dst_pattern=" +
            (s.o.sbuf ? shape_pattern(s.shapes.output) : pattern(place.output.size / element));
    if (two_sources(s.o.operation)) {
      text += " src1_var_id=" + in + " src1_var_offset=" + std::to_string(place.from + source);
    }
    if (rooted(s.o.operation)) text += " root=" + std::to_string(s.o.root);
    if (s.o.priority != 0) text += " priority=" + std::to_string(s.o.priority);
    text += metadata_text(s) + "\n";
    ++issued;
  }
  return text;
}

Json tensor_json(const Stream& s, bool output) {
  return {{"type", output ? "output" : "input"},
          {"var_id", tensor_id(s.index, output)},
          {"size", s.tensor_bytes(output)}};
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

// A loop that does nothing `turns` times.
std::string idle_text(uint64_t turns) {
  if (turns == 0) return "";
  return "REGISTER_MOVE dst=r1 src=" + std::to_string(turns) +
         "\nidle:\nREGISTER_ALU op=SUB dst=r1 a=r1 b=1\n"
         "COMPARE_BRANCH cond=NE a=r1 b=0 target=idle\n";
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

bool rank_specific(const Workload& work) {
  return std::any_of(work.streams.begin(), work.streams.end(), [](const Options& o) {
    const bool shifted =
        o.operation == Operation::kAllGather || o.operation == Operation::kReduceScatter;
    return (o.in_place && shifted) || o.skew != 0;
  });
}

std::string definition_text(const Workload& work, uint32_t rank) {
  Json def = {{"name", "definition"},
              {"x_arch", work.arch},
              {"pool", "pool.json"},
              {"pool_instr", "pool.bin"}};
  Json queues = Json::object();
  Json var = Json::object();
  Json groups = Json::array();
  Json pairs = Json::array();
  uint64_t operations = 0;
  for (const Stream& s : streams_of(work, rank)) {
    for (const bool output : {false, true}) {
      if (s.copied(output)) {
        queues[queue_name(s.index, output)] = {
            {"type", output ? "out" : "in"},
            {"num_queues", kQueues},
            {"owner", "pool"},
            {"semaphore", semaphore(output ? kOutSemaphore : kInSemaphore, s.index)}};
      }
      if (s.has_tensor(output)) {
        var[output ? output_name(s.index) : input_name(s.index)] = tensor_json(s, output);
      }
    }
    const bool buffers = s.o.operation != Operation::kBarrier && !s.o.sbuf;
    for (uint32_t pair = 0; buffers && pair < s.pairs; ++pair) {
      for (const bool output : {false, true}) {
        if (output && (s.o.in_place || s.direct())) continue;
        var[buffer_name(s.index, pair, output)] = {{"type", "tmp-buf"},
                                                   {"var_id", buffer_id(s.index, pair, output)},
                                                   {"size", s.buffer_bytes(output)},
                                                   {"alignment", kAlignment}};
      }
    }
    if (variable_size(s.o.operation)) {
      var[metadata_name(s.index)] = {
          {"type", "input"},
          {"var_id", metadata_id(s.index)},
          {"size", metadata_words(s.o, s.o.rank_start, s.size).size() * sizeof(uint32_t)}};
    }
    if (s.o.sbuf) var[kSbufName] = {{"type", "state-buffer"}, {"var_id", kSbufId}};
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
  return base::json_text(def, 2) + "\n";
}

std::string engine_json_text(const Workload& work, uint32_t rank) {
  Json dma = Json::array();
  for (const Stream& s : streams_of(work, rank)) {
    if (!s.copies) continue;
    Json in = Json::array();
    for (uint32_t pair = 0; pair < s.pairs; ++pair) {
      for (const Json& copy : copies_of(s, pair, false)) in.push_back(copy);
    }
    const int first = 1 + 2 * static_cast<int>(s.index);
    dma.push_back({{"id", first},
                   {"queue", queue_name(s.index, false)},
                   {"semaphore", semaphore(kInSemaphore, s.index)},
                   {"desc", in}});
    if (!s.copied(true)) continue;
    const Json out = copies_of(s, s.pairs - 1, true);
    dma.push_back({{"id", first + 1},
                   {"queue", queue_name(s.index, true)},
                   {"semaphore", semaphore(kOutSemaphore, s.index)},
                   {"desc", out}});
  }
  return base::json_text(Json{{"instr", Json::array()}, {"dma", dma}}, 2) + "\n";
}

std::string assembler_text(const Workload& work, uint32_t rank) {
  const std::vector<Stream> streams = streams_of(work, rank);
  const auto block = [](const Stream& s, bool output) {
    return queue_name(s.index, output) +
           " block_id=" + std::to_string(1 + 2 * s.index + (output ? 1 : 0)) + "\n";
  };
  std::string text = ".engine pool\n.arch " + work.arch + "\n";
  for (const Stream& s : streams) {
    if (s.copies) text += "PSEUDO_DMA_TRIGGER " + block(s, false);
  }
  text += idle_text(uint64_t{work.streams.front().skew} * rank);
  text += triggers_text(streams, work.iterations);
  for (const Stream& s : streams) {
    const std::string done =
        at_least(semaphore(kDoneSemaphore, s.index), uint64_t{s.operations} * s.o.parts.size());
    text += s.copied(true) ? "PSEUDO_DMA_TRIGGER" + done + " " + block(s, true)
                           : "EVENT_SEMAPHORE" + done + "\n";
  }
  for (const Stream& s : streams) {
    if (!s.copied(true)) continue;
    text += "EVENT_SEMAPHORE" + at_least(semaphore(kOutSemaphore, s.index), kQueues) + "\n";
  }
  return text + "HALT\n";
}

base::Result<Program> make_program(const Workload& work, uint32_t rank) {
  const auto code = neff::assemble(assembler_text(work, rank));
  if (!code) return code.error();
  std::vector<neff::Member> members = {
      {"sg00/def.json", neff::text_bytes(definition_text(work, rank))},
      {"sg00/pool.json", neff::text_bytes(engine_json_text(work, rank))},
      {"sg00/pool.bin", *code}};
  // A subgraph per physical core (spec/neff.md 3.15); the second core has nothing to do, but a
  // shared output is its tensor too.
  Json shared = Json::object();
  for (const Stream& s : streams_of(work, rank)) {
    if (s.direct()) shared[output_name(s.index)] = tensor_json(s, true);
  }
  for (unsigned part = 1; part < work.lnc; ++part) {
    const Json idle{{"name", "definition"}, {"x_arch", work.arch}, {"var", shared}};
    members.push_back({"sg0" + std::to_string(part) + "/def.json",
                       neff::text_bytes(base::json_text(idle, 2) + "\n")});
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
