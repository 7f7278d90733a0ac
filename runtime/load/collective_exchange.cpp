#include "runtime/load/collective_exchange.h"

#include <algorithm>

#include "base/span.h"
#include "neff_loader/dtype.h"
#include "runtime/load/agreement.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// Followed by the images of all operations, or by what is wrong.
struct Head {
  uint32_t version = 4;
  uint32_t status = NRT_SUCCESS;
  uint64_t fingerprint = 0;
};
static_assert(sizeof(Head) == 16);

Head head_of(const ccl::Blob& blob) {
  return blob.size() < sizeof(Head) ? Head{0} : base::load<Head>(blob.data());
}

// Puts the head into its place; with an error, also the text behind it.
void set_head(const base::Status& status, ccl::Blob* blob, uint64_t fingerprint = 0) {
  Head head;
  head.fingerprint = fingerprint;
  if (!status.ok()) {
    head.status = status_of(status.error());
    const std::string text = status.error().message();
    blob->insert(blob->end(), text.begin(), text.end());
  }
  base::store(blob->data(), head);
}

const char* name_of(contract::ReduceOp op) {
  switch (op) {
    case contract::ReduceOp::kAdd:
      return "add";
    case contract::ReduceOp::kMax:
      return "max";
    case contract::ReduceOp::kMin:
      return "min";
    case contract::ReduceOp::kFma:
      return "fma";
  }
  return "unknown reduction";
}

std::string text_of(const neff::ReplicaGroups& groups) {
  std::string text = "groups ";
  for (const neff::RankList& list : groups.lists) {
    text += text.back() == ']' ? ",[" : "[";
    for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(list[i]);
    text += "]";
  }
  for (size_t i = 0; i < groups.source_target_pairs.size(); ++i) {
    const auto& [source, target] = groups.source_target_pairs[i];
    text += (i == 0 ? ", pairs " : ",") + std::to_string(source) + ">" + std::to_string(target);
  }
  return text;
}

// Of a tensor in SBUF: peers reach into it.
std::string text_of(const ccl::SbufRows& rows) {
  if (rows.contiguous()) return "";
  return " (SBUF: rows of " + std::to_string(rows.bytes) + " in " +
         std::to_string(rows.partitions) + " partitions, step " + std::to_string(rows.step) + ")";
}

ProgramSummary summary_of(const CollectiveProgram& program, const CollectiveOffer& offer) {
  ProgramSummary summary;
  for (uint32_t i = 0; i < program.operations.size(); ++i) {
    const neff::CollectiveOp& op = *program.operations[i].op;
    const ccl::OpRequest& q = offer.operation(i).request;
    const ccl::Needs& needs = offer.operation(i).needs;
    ProgramSummary::Operation own;
    own.text = std::string(ccl::to_string(q.kind)) + " of " + neff::to_string(op.dtype);
    if (ccl::reduces(q.kind)) own.text += std::string(" (") + name_of(q.op) + ")";
    own.text += ", " + std::to_string(q.input_bytes) + text_of(q.input_rows) + " to " +
                std::to_string(q.output_bytes) + text_of(q.output_rows) + " bytes, " +
                text_of(program.config->groups[op.group_id]) + ", root " + std::to_string(q.root) +
                ", stream " + std::to_string(op.stream_id) + ", by " +
                ccl::to_string(needs.algorithm);
    own.plan = needs.signature;
    own.ranks = program.groups[program.operations[i].group].ranks;
    summary.operations.push_back(std::move(own));
  }
  for (const CollectiveProgram::Stream& stream : program.streams) {
    summary.sequence.insert(summary.sequence.end(), stream.sequence.begin(), stream.sequence.end());
  }
  return summary;
}

// The first error of a rank, by number, is that of all.
base::Status check_heads(const ccl::Gathered& all) {
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    const Head head = head_of(all[rank]);
    if (head.version != Head().version) {
      return error(NRT_FAILURE,
                   "Rank " + std::to_string(rank) +
                       " is not executing collectives, or has another version of the runtime",
                   base::Fault::kProgram);
    }
    if (head.status != NRT_SUCCESS) {
      const std::string text(all[rank].begin() + sizeof head, all[rank].end());
      return error(static_cast<NRT_STATUS>(head.status),
                   "Rank " + std::to_string(rank) + " cannot take part: " + text,
                   base::Fault::kProgram);
    }
  }
  return {};
}

// Errors of ranks first, then differences of their programs, which takes another round to name.
base::Status agree(const ccl::Gathered& all, const ProgramSummary& summary,
                   Communicator& communicator) {
  if (base::Status s = check_heads(all); !s.ok()) return s;
  const ccl::Blob& own = all[communicator.rank()];
  bool equal = true;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    equal = equal && head_of(all[rank]).fingerprint == head_of(own).fingerprint &&
            all[rank].size() == own.size();
  }
  if (equal) return {};
  auto texts = communicator.all_gather(encode(summary));
  if (!texts) return texts.error();
  std::vector<ProgramSummary> summaries;
  for (size_t rank = 0; rank < texts->size(); ++rank) {
    auto theirs = decode_summary((*texts)[rank]);
    if (!theirs) return theirs.error();
    summaries.push_back(std::move(*theirs));
  }
  return check_agreement(summaries);
}

// Tells the peers that this rank cannot take part.
base::Error refuse(Communicator& communicator, const base::Error& reason) {
  ccl::Blob blob(sizeof(Head));
  set_head(reason, &blob);
  // Whatever they answer, this rank's reason is the one to report here.
  static_cast<void>(communicator.all_gather(std::move(blob)));
  return reason;
}

}  // namespace

base::Status confirm(Communicator& communicator, const base::Status& own) {
  if (!own.ok()) return refuse(communicator, own.error());
  ccl::Blob blob(sizeof(Head));
  set_head(own, &blob);
  auto all = communicator.all_gather(std::move(blob));
  return all ? check_heads(*all) : base::Status(all.error());
}

base::Result<PeerResources> exchange(const CollectiveContext& context,
                                     const base::Result<CollectiveOffer>& own) {
  Communicator& communicator = context.communicator;
  if (!own) return refuse(communicator, own.error());
  const CollectiveProgram& program = context.program;
  const ProgramSummary summary = summary_of(program, *own);
  ccl::Blob blob(sizeof(Head));
  for (uint32_t i = 0; i < program.operations.size(); ++i) {
    const std::vector<uint8_t> image = ccl::serialize(own->operation(i).resources);
    blob.insert(blob.end(), image.begin(), image.end());
  }
  set_head({}, &blob, fingerprint(summary));
  const size_t each = (blob.size() - sizeof(Head)) / std::max<size_t>(1, program.operations.size());
  auto all = communicator.all_gather(std::move(blob));
  if (!all) return all.error();
  if (base::Status s = agree(*all, summary, communicator); !s.ok()) return s.error();
  PeerResources peers;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    auto& members = peers.emplace_back();
    for (const uint32_t rank : program.groups[program.operations[i].group].ranks) {
      const size_t at = sizeof(Head) + i * each;
      if ((*all)[rank].size() < at + each) {
        return error(NRT_FAILURE, "Rank " + std::to_string(rank) + " has fewer collectives",
                     base::Fault::kProgram);
      }
      auto resources = ccl::deserialize((*all)[rank].data() + at, each);
      if (!resources) return resources.error();
      members.push_back(*resources);
    }
  }
  return peers;
}

}  // namespace nrt
