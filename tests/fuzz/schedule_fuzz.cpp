// Untrusted text into selection: the first byte picks an MSCCL program, a table or the text of
// NCCOM_CC_ALGO (without files). A program that is accepted must make right schedules.
#include <string>

#include "runtime/collectives/schedule/select.h"
#include "runtime/collectives/schedule/verify.h"
#include "tests/fuzz/finding.h"

namespace {

constexpr uint64_t kChunk = 192;
constexpr uint64_t kSlot = 64;  // three loops

ccl::OpRequest request_of(const ccl::MscclProgram& program) {
  const auto ranks = static_cast<uint32_t>(program.ranks.size());
  ccl::OpRequest r;
  r.kind = program.kind;
  r.dtype = ccl::DType::kInt8;
  r.op = program.op.value_or(ccl::ReduceOp::kAdd);
  r.input_bytes = r.output_bytes = program.chunks * kChunk;
  if (r.kind == ccl::OpKind::kAllGather) r.input_bytes /= ranks;
  if (r.kind == ccl::OpKind::kReduceScatter) r.output_bytes /= ranks;
  return r;
}

void program(const std::string& text) {
  const base::Result<ccl::MscclProgram> program = ccl::load_msccl(text, "program");
  if (!program) {
    if (program.error().what.empty()) fuzz::found("a refusal without a reason");
    return;
  }
  const ccl::OpRequest request = request_of(*program);
  const auto ranks = static_cast<uint32_t>(program->ranks.size());
  if (!program->applies(request, ranks, false)) return;
  ccl::Group group;
  group.members.resize(ranks);
  ccl::ScheduleOptions options;
  options.slot_bytes = kSlot;
  const auto schedule = ccl::msccl_schedule(*program, request, group, options);
  if (!schedule) fuzz::found("an accepted program does not run");
  if (!ccl::verify(*schedule)) fuzz::found("an accepted program is wrong");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'p') {
    program(text);
  } else if (data[0] == 't') {
    const auto rules = ccl::parse_table(text, "table");
    if (!rules && rules.error().what.empty()) fuzz::found("a refusal without a reason");
  } else {
    const auto entries = ccl::parse_overrides(text);
    if (!entries && entries.error().what.empty()) fuzz::found("a refusal without a reason");
  }
  return 0;
}
