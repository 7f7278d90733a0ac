#include "runtime/load/collective_set.h"

#include <algorithm>
#include <cctype>

namespace nrt {
namespace {

// As reports spell it: "ALL_REDUCE".
std::string operation_name(ccl::OpKind kind) {
  std::string name = ccl::to_string(kind);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

}  // namespace

base::Result<std::unique_ptr<CollectiveSet>> CollectiveSet::create(
    const LoadedProgram& program, CollectiveProgram collectives,
    const std::vector<uint8_t>& used_semaphores) {
  auto triggers = CollectiveTriggers::take(&program.core(), collectives, used_semaphores);
  if (!triggers) return triggers.error();
  return std::unique_ptr<CollectiveSet>(
      new CollectiveSet(program, std::move(collectives), std::move(*triggers)));
}

base::Status CollectiveSet::finish() {
  if (running_) return {};
  if (!failure_.ok()) return failure_;
  auto running = start();
  if (running) {
    running_.emplace(std::move(*running));
  } else {
    failure_ = running.error();
  }
  return failure_;
}

base::Result<CollectiveSet::Running> CollectiveSet::start() const {
  Communicator& communicator = *program_.context().communicator;
  if (base::Status s = communicator.wait_all(); !s.ok()) return s.error();
  const CollectiveContext context{collectives_, triggers_, program_.core(), communicator,
                                  program_.variables()};
  auto offer = CollectiveOffer::make(context);
  auto peers = exchange(context, offer);
  if (!peers) return peers.error();
  auto image = CollectiveImage::load(context, &*offer, std::move(*peers));
  const base::Status loaded = image ? base::Status() : base::Status(image.error());
  if (base::Status s = confirm(communicator, loaded); !s.ok()) return s.error();
  return Running{std::move(*offer), std::move(*image)};
}

bool CollectiveSet::fixes(uint32_t variable) const {
  if (!running_) return false;
  const std::string& name = program_.subgraph().variables[variable].name;
  return std::any_of(collectives_.operations.begin(), collectives_.operations.end(),
                     [&](const CollectiveProgram::Operation& o) {
                       const neff::Subgraph& own = program_.subgraph(o.part);
                       const auto is = [&](std::optional<uint32_t> i) {
                         return i && own.variables[*i].name == name;
                       };
                       return o.request.kind != ccl::OpKind::kBarrier &&
                              (is(o.op->source) || is(o.op->destination) ||
                               is(o.op->second_source) || is(o.op->metadata));
                     });
}

CollectiveSet::Issued CollectiveSet::operation(uint32_t op_index, uint32_t stream) const {
  for (uint32_t i = 0; i < collectives_.operations.size(); ++i) {
    const CollectiveProgram::Operation& o = collectives_.operations[i];
    if (o.op->stream_id != stream || triggers_.op_index(i, 0) != op_index) continue;
    return {operation_name(o.request.kind), ccl::to_string(running_->image.algorithm(i)),
            ccl::report_size(o.request)};
  }
  return {};
}

}  // namespace nrt
