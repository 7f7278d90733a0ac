#include "program.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "neff_loader/asm.h"
#include "neff_loader/pack.h"

namespace nccom {
namespace {

using Json = nlohmann::ordered_json;

// Variables and semaphores of the program.
constexpr int kX = 1;
constexpr int kY = 2;
constexpr int kIn = 3;
constexpr int kOut = 4;
constexpr int kInSemaphore = 10;
constexpr int kOutSemaphore = 11;
constexpr int kDoneSemaphore = 15;
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
  }
  return "";
}

Json copy_block(int id, const char* queue, int semaphore, const char* from, const char* to,
                uint64_t bytes) {
  Json transfer = {{"op", "copy"},          {"from", from},        {"from_off", 0},
                   {"from_sizes", {bytes}}, {"from_steps", {1}},   {"to", to},
                   {"to_off", 0},           {"to_sizes", {bytes}}, {"to_steps", {1}}};
  return {
      {"id", id}, {"queue", queue}, {"semaphore", semaphore}, {"desc", Json::array({transfer})}};
}

}  // namespace

std::string definition_text(const Options& o, uint64_t size, uint32_t operations,
                            const std::string& arch) {
  Json groups = Json::array();
  for (uint32_t first = 0; first < o.ranks; first += o.group_ranks()) {
    Json list = Json::array();
    for (uint32_t r = 0; r < o.group_ranks(); ++r) list.push_back(first + r);
    groups.push_back(list);
  }
  const uint64_t in = input_bytes(o, size);
  const uint64_t out = output_bytes(o, size);
  Json var = Json::object();
  if (o.check != Check::kOff) {
    var[kInputName] = {{"type", "input"}, {"var_id", kX}, {"size", in}};
    var[kOutputName] = {{"type", "output"}, {"var_id", kY}, {"size", out}};
  }
  var["cc_in"] = {{"type", "tmp-buf"}, {"var_id", kIn}, {"size", in}, {"alignment", kAlignment}};
  var["cc_out"] = {{"type", "tmp-buf"}, {"var_id", kOut}, {"size", out}, {"alignment", kAlignment}};
  Json def = {
      {"name", "definition"}, {"x_arch", arch}, {"pool", "pool.json"}, {"pool_instr", "pool.bin"}};
  if (o.check != Check::kOff) {
    def["dma_queue"] = {
        {"qPoolIn0",
         {{"type", "in"}, {"num_queues", kQueues}, {"owner", "pool"}, {"semaphore", kInSemaphore}}},
        {"qPoolOut0",
         {{"type", "out"},
          {"num_queues", kQueues},
          {"owner", "pool"},
          {"semaphore", kOutSemaphore}}}};
  }
  def["var"] = var;
  def["x_cc"] = {{"replica_groups", Json::array({groups})},
                 {"source_target_pairs", Json::array({nullptr})},
                 {"participants", o.ranks},
                 {"streams", 1},
                 {"ops", operations}};
  return def.dump(2) + "\n";
}

std::string engine_json_text(const Options& o, uint64_t size) {
  Json dma = Json::array();
  if (o.check != Check::kOff) {
    dma.push_back(
        copy_block(1, "qPoolIn0", kInSemaphore, kInputName, "cc_in", input_bytes(o, size)));
    dma.push_back(
        copy_block(2, "qPoolOut0", kOutSemaphore, "cc_out", kOutputName, output_bytes(o, size)));
  }
  return Json{{"instr", Json::array()}, {"dma", dma}}.dump(2) + "\n";
}

std::string assembler_text(const Options& o, uint64_t size, uint32_t operations,
                           const std::string& arch) {
  const uint64_t element = contract::dtype_size(o.dtype.code);
  const std::string source = pattern(input_bytes(o, size) / element);
  const std::string destination = pattern(output_bytes(o, size) / element);
  const bool copies = o.check != Check::kOff;
  const auto at_least = [](int semaphore, uint64_t value) {
    return " $S[" + std::to_string(semaphore) + "]>=" + std::to_string(value);
  };
  std::string text = ".engine pool\n.arch " + arch + "\n";
  if (copies) text += "PSEUDO_DMA_TRIGGER qPoolIn0 block_id=1\n";
  for (uint32_t i = 0; i < operations; ++i) {
    std::string wait;
    if (i == 0 && copies) wait = at_least(kInSemaphore, kQueues);
    if (i >= kOutstanding) wait = at_least(kDoneSemaphore, i - kOutstanding + 1);
    text += "PSEUDO_TRIGGER_COLLECTIVE_2" + wait + " $S[" + std::to_string(kDoneSemaphore) +
            "]++@complete ctype=" + type_name(o.operation) + " dtype=" + o.dtype.neff_name +
            " cc_dim=0 src0_var_id=" + std::to_string(kIn) +
            " src0_var_offset=0 src0_shape_reg=0 src0_pattern=" + source +
            "\nPSEUDO_EXTENSION group_id=0 channel_id=0 stream_id=0 dst_var_id=" +
            std::to_string(kOut) + " dst_var_offset=0 dst_shape_reg=0 dst_pattern=" + destination +
            "\n";
  }
  if (copies) {
    text += "PSEUDO_DMA_TRIGGER" + at_least(kDoneSemaphore, operations) + " qPoolOut0 block_id=2\n";
    text += "EVENT_SEMAPHORE" + at_least(kOutSemaphore, kQueues) + "\n";
  } else {
    text += "EVENT_SEMAPHORE" + at_least(kDoneSemaphore, operations) + "\n";
  }
  return text + "HALT\n";
}

base::Result<Program> make_program(const Options& o, uint64_t size, uint32_t operations,
                                   const std::string& arch) {
  const auto code = neff::assemble(assembler_text(o, size, operations, arch));
  if (!code) return code.error();
  std::vector<neff::Member> members = {
      {"sg00/def.json", neff::text_bytes(definition_text(o, size, operations, arch))},
      {"sg00/pool.json", neff::text_bytes(engine_json_text(o, size))},
      {"sg00/pool.bin", *code}};
  neff::PackOptions options;
  options.name = std::string("nccom_neff_") + short_name(o.operation) + "_x" +
                 std::to_string(operations) + "_" + std::to_string(size) + "_" + o.dtype.name +
                 "_r" + std::to_string(o.ranks) + "_lnc" +
                 (arch == "trn1" || arch == "inf2" ? "1" : "2");
  auto file = neff::pack(std::move(members), options);
  if (!file) return file.error();
  return Program{options.name, operations, std::move(*file)};
}

}  // namespace nccom
