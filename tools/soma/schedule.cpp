// `soma describe --schedule`: the schedule that the collectives library makes for the first ranks
// of a platform: verified, summarised, drawn (schedule_view.h). No machine runs. Exact: steps,
// bytes and routes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "runtime/collectives/schedule/algorithms.h"
#include "runtime/collectives/schedule/select.h"
#include "runtime/collectives/schedule/verify.h"
#include "sim/routes.h"
#include "tools/soma/options.h"
#include "tools/soma/schedule_view.h"

namespace soma {
namespace {

// Steps x channels of all ranks: about what a minute verifies.
constexpr uint64_t kMaxVerified = uint64_t{4} << 30;
constexpr uint64_t kElement = 4;  // fp32

ccl::Fabric fabric_of(const config::Platform& platform) {
  const std::vector<uint32_t>& dims = platform.dims;
  const bool four_by_four = dims.size() >= 2 && dims.back() == 4 && dims[dims.size() - 2] == 4;
  if (platform.topology == "single") return ccl::Fabric::kSingle;
  if (platform.topology == "chain") return ccl::Fabric::kChain;
  if (platform.topology == "ring") return ccl::Fabric::kRing;
  if (platform.topology == "torus2d" && four_by_four) return ccl::Fabric::kTorus;
  // Nodes of 4x4 tori.
  if (platform.topology == "torus3d" && four_by_four && platform.nodes.size() == dims.front()) {
    return ccl::Fabric::kTorus;
  }
  if (platform.topology == "switched" && dims.size() == 3) return ccl::Fabric::kSwitched;
  return ccl::Fabric::kGraph;
}

ccl::Topology topology_of(const config::Platform& platform, uint32_t lnc) {
  ccl::Topology t;
  t.gen = static_cast<contract::Gen>(platform.generation);
  t.fabric = fabric_of(platform);
  t.lnc = lnc;
  t.cores = platform.chip.cores / lnc;
  t.devices_per_node = static_cast<uint32_t>(platform.chips.size() / platform.nodes.size());
  if (t.fabric == ccl::Fabric::kSwitched) t.sleds_per_rack = platform.dims[1];
  for (const config::Edge& edge : platform.edges) {
    t.links.emplace_back(edge.a, edge.b);
    t.links.emplace_back(edge.b, edge.a);
  }
  std::sort(t.links.begin(), t.links.end());
  t.links.erase(std::unique(t.links.begin(), t.links.end()), t.links.end());
  return t;
}

base::Error usage(const std::string& what) {
  return {base::Fault::kUsage, 0, "--schedule", what};
}

base::Result<ccl::Group> group_of(const config::Platform& platform,
                                  const ScheduleOptions& options) {
  const config::ChipModel& chip = platform.chip;
  const uint32_t lnc = options.lnc == 0 ? chip.lnc_default : options.lnc;
  if (std::find(chip.lnc_options.begin(), chip.lnc_options.end(), lnc) == chip.lnc_options.end()) {
    return usage(
        fmt::format("--lnc {}; {} has {}", lnc, chip.name, fmt::join(chip.lnc_options, ", ")));
  }
  ccl::Group group;
  group.topology = topology_of(platform, lnc);
  const uint32_t cores = group.topology.cores;
  const auto all = static_cast<uint32_t>(platform.chips.size()) * cores;
  const uint32_t ranks = options.ranks == 0 ? all : options.ranks;
  if (ranks > all) return usage(fmt::format("--ranks {}; {} has {}", ranks, platform.name, all));
  for (uint32_t r = 0; r < ranks; ++r) {
    const config::Chip& at = platform.chips[r / cores];
    group.members.push_back({r, at.node, at.id, at.local_id, r % cores, r % cores * lnc});
  }
  return group;
}

base::Result<ccl::OpRequest> request_of(const ScheduleOptions& options, uint32_t ranks) {
  const std::optional<ccl::OpKind> kind = ccl::op_of(options.operation);
  if (!kind) return usage("operation '" + options.operation + "'; expected " + ccl::op_names());
  ccl::OpRequest r;
  r.kind = *kind;
  r.dtype = ccl::DType::kFp32;
  r.input_bytes = r.output_bytes = r.kind == ccl::OpKind::kBarrier ? 0 : options.size;
  const bool split = r.kind == ccl::OpKind::kAllGather || r.kind == ccl::OpKind::kReduceScatter ||
                     r.kind == ccl::OpKind::kAllToAll || ccl::variable_size(r.kind);
  const uint64_t share = options.size / ranks / kElement * kElement;
  if (split) r.input_bytes = r.output_bytes = share * ranks;
  if (r.kind == ccl::OpKind::kAllGather || r.kind == ccl::OpKind::kAllGatherV) {
    r.input_bytes = share;
  }
  if (r.kind == ccl::OpKind::kReduceScatter || r.kind == ccl::OpKind::kReduceScatterV) {
    r.output_bytes = share;
  }
  if (options.operation == "sendrecv") {
    if (ranks < 2) return usage("sendrecv needs two ranks");
    r.pairs = {{0, 1}};
  } else if (r.kind == ccl::OpKind::kPermute || r.kind == ccl::OpKind::kPermuteReduce) {
    for (uint32_t i = 0; i < ranks; ++i) r.pairs.emplace_back(i, (i + 1) % ranks);
  }
  return r;
}

void print_links(const std::map<Link, uint64_t>& loads, const config::Platform& platform) {
  if (loads.empty()) return;
  size_t all = 2 * platform.edges.size();
  for (const config::Switch& each : platform.switches) all += 2 * each.members.size();
  uint64_t sum = 0;
  auto most = loads.begin();
  for (auto it = loads.begin(); it != loads.end(); ++it) {
    sum += it->second;
    if (it->second > most->second) most = it;
  }
  const size_t chips = platform.chips.size();
  const auto name = [&](uint32_t place, const char* chip) {
    if (place < chips) return chip + std::to_string(place);
    return "switch " + platform.switches[place - chips].id;
  };
  const auto [from, to] = most->first;
  fmt::print("  {} of {} directed links{} carry bytes: at most {} ({} to {}), on average {}\n",
             loads.size(), all, platform.switches.empty() ? "" : " and ports of switches",
             most->second, name(from, "chip "), name(to, from < chips ? "" : "chip "),
             sum / loads.size());
}

uint64_t effort(const ccl::Schedule& schedule) {
  uint64_t steps = 0;
  for (uint32_t r = 0; r < schedule.shape.ranks; ++r) steps += schedule.steps(r).size();
  return steps * schedule.shape.ranks * schedule.shape.channels;
}

base::Status describe(const Configuration& configuration, const ScheduleOptions& options) {
  const config::Platform& platform = configuration.platform;
  const base::Result<ccl::Group> group = group_of(platform, options);
  if (!group) return group.error();
  const base::Result<ccl::OpRequest> request = request_of(options, group->ranks());
  if (!request) return request.error();
  ccl::ScheduleOptions schedule_options;
  schedule_options.in_place = options.in_place;
  const bool all_to_all =
      request->kind == ccl::OpKind::kAllToAll || request->kind == ccl::OpKind::kAllToAllV;
  if (all_to_all && options.in_place) {  // spec/collectives.md 1.3
    return base::Error{base::Fault::kUsage, 0, "--in-place", "an all-to-all cannot run in place"};
  }
  std::string override_text = options.algorithm;
  if (!override_text.empty() && override_text.find(':') == std::string::npos) {
    override_text = options.operation + ":" + override_text;
  }
  const auto made = ccl::make_schedule(*request, *group, schedule_options, override_text);
  if (!made) return made.error();
  // Operations of variable size: as they run with equal blocks.
  const bool variable = ccl::variable_size(request->kind);
  ccl::Metadata metadata;
  if (variable) metadata = ccl::equal_blocks(*request, group->ranks());
  const ccl::Schedule schedule = variable ? ccl::resolve(*made, metadata) : *made;
  fmt::print("{}", ccl::print_summary(schedule));
  const base::Result<sim::RouteTable> routes = sim::routes(platform, configuration.timing);
  if (!routes) return routes.error();
  const std::map<Link, uint64_t> loads = schedule_loads(schedule, *group, *routes);
  print_links(loads, platform);
  if (options.steps) fmt::print("{}", ccl::print(schedule));
  if (!options.svg.empty()) {
    const auto view = schedule_view(platform, *group, schedule, *routes, loads);
    if (!view) return view.error();
    const base::Status written = base::replace_file(options.svg, schedule_svg(*view));
    if (!written) return written;
  }
  if (effort(schedule) > kMaxVerified) {
    fmt::print("  not verified: too many steps\n");
    return {};
  }
  const base::Status status = variable ? ccl::verify(*made, metadata) : ccl::verify(schedule);
  if (!status) return status;
  fmt::print("  verified: result, order of accesses, no deadlock\n");
  return {};
}

}  // namespace

int describe_schedule(const Configuration& configuration, const ScheduleOptions& options) {
  base::Status status = describe(configuration, options);
  if (status) return 0;
  complain(status.error().message());
  const base::Fault fault = status.error().fault;
  const bool ours = fault == base::Fault::kInternal || fault == base::Fault::kIo;
  return ours ? exit_code(fault) : kExitUsage;
}

}  // namespace soma
