#include "runtime/load/processing_ranks.h"

#include <algorithm>

#include "base/span.h"
#include "driver/ndl/ndl.h"
#include "runtime/collectives/schedule/cycles.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

base::Result<ProcessingRanks> make_ranks(const Core& core, const neff::Subgraph& subgraph,
                                         const contract::isa::GetCurProcessingRankId& query,
                                         std::optional<uint32_t> rank) {
  if (!rank) {
    return error(NRT_INVALID, "GET_CUR_PROCESSING_RANK_ID in a program without collectives",
                 base::Fault::kProgram);
  }
  const neff::RankList* ranks = subgraph.cc.groups[query.group_id].list_of(*rank);
  if (ranks == nullptr) {
    return error(NRT_INVALID,
                 "GET_CUR_PROCESSING_RANK_ID of group " + std::to_string(query.group_id) +
                     ", which does not have rank " + std::to_string(*rank),
                 base::Fault::kProgram);
  }
  ProcessingRanks table;
  table.group_id = query.group_id;
  table.channel_id = query.channel_id;
  table.ranks = *ranks;
  table.own =
      static_cast<uint32_t>(std::find(ranks->begin(), ranks->end(), *rank) - ranks->begin());
  auto memory = DeviceBuffer::allocate(core.device_ptr(), table.bytes(),
                                       core.place(NEURON_MEMALLOC_TYPE_MISC_DEVICE));
  if (!memory) return memory.error();
  table.memory = std::move(*memory);
  return table;
}

}  // namespace

base::Result<std::vector<ProcessingRanks>> make_processing_ranks(const Core& core,
                                                                 const neff::Subgraph& subgraph,
                                                                 std::optional<uint32_t> rank) {
  std::vector<ProcessingRanks> tables;
  for (const neff::EngineProgram& program : subgraph.programs) {
    for (const neff::ProgramStep& step : program.steps) {
      if (step.instruction.opcode != contract::isa::Opcode::kGetCurProcessingRankId) continue;
      const auto& query = step.instruction.operands.get_cur_processing_rank_id;
      const bool known = std::any_of(tables.begin(), tables.end(), [&](const ProcessingRanks& t) {
        return t.group_id == query.group_id && t.channel_id == query.channel_id;
      });
      if (known) continue;
      auto table = make_ranks(core, subgraph, query, rank);
      if (!table) return table.error();
      tables.push_back(std::move(*table));
    }
  }
  return tables;
}

base::Status fill_processing_ranks(const Communicator& communicator, ProcessingRanks* table) {
  const auto group = communicator.group(table->ranks);
  if (!group) return group.error();
  const auto origins = ccl::permute_origins(*group, table->channel_id, table->own);
  if (!origins) return origins.error();
  std::vector<uint8_t> bytes(table->bytes());
  for (size_t i = 0; i < origins->size(); ++i) {
    base::store<uint32_t>(bytes.data() + i * sizeof(uint32_t), table->ranks[(*origins)[i]]);
  }
  return table->memory.write(0, bytes);
}

}  // namespace nrt
