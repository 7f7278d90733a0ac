// `soma describe`: platforms, timing parameters and the support matrix, from the objects that build
// the machine.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/config/names.h"
#include "arch/config/platform.h"
#include "arch/config/support.h"
#include "arch/config/timing.h"
#include "base/json.h"
#include "sim/hierarchy.h"
#include "tools/soma/options.h"

namespace soma {
namespace {

using nlohmann::ordered_json;

// A rate as decimal text, as files have it; parse_decimal has at most 18 digits.
std::string decimal(const config::Ratio& ratio) {
  std::string text = std::to_string(ratio.num / ratio.den);
  uint64_t rest = ratio.num % ratio.den;
  if (rest != 0) text += ".";
  for (; rest != 0; rest = rest * 10 % ratio.den) text += std::to_string(rest * 10 / ratio.den);
  return text;
}

ordered_json to_json(const config::Block& block) {
  ordered_json json{{"name", block.name},
                    {"library", block.library},
                    {"type", block.type},
                    {"chips", block.chips}};
  for (const auto& window : block.windows) {
    ordered_json row{{"socket", window.socket}, {"size", window.size}};
    if (window.address) row["address"] = fmt::format("0x{:x}", *window.address);
    json["windows"].push_back(std::move(row));
  }
  for (const auto& initiator : block.initiators) {
    ordered_json row{{"socket", initiator.socket}};
    if (initiator.gbps) row["gbps"] = decimal(*initiator.gbps);
    row["packet_bytes"] = initiator.packet_bytes;
    if (initiator.core) row["core"] = *initiator.core;
    json["initiators"].push_back(std::move(row));
  }
  for (const auto& line : block.semaphores) {
    json["semaphores"].push_back(
        {{"port", line.port}, {"core", line.core}, {"semaphore", line.semaphore}});
  }
  for (const auto& [name, value] : block.parameters) json["parameters"][name] = value;
  if (block.background) json["background"] = true;
  return json;
}

void add(ordered_json& platform, const char* which, const config::Policy& policy) {
  if (!policy.given()) return;
  ordered_json& at = platform["policies"][which];
  at["type"] = policy.name;
  if (!policy.library.empty()) at["library"] = policy.library;
  for (const auto& [name, value] : policy.parameters) at["parameters"][name] = value;
}

ordered_json to_json(const config::Platform& platform) {
  const config::ChipModel& chip = platform.chip;
  ordered_json json;
  json["schema"] = "platform/1";
  json["name"] = platform.name;
  json["generation"] = config::to_string(platform.generation);
  json["timing"] = platform.timing;
  json["validated"] = platform.validated;
  json["chip"] = {{"name", chip.name},
                  {"cores", chip.cores},
                  {"lnc_options", chip.lnc_options},
                  {"lnc_default", chip.lnc_default},
                  {"hbm_stacks", chip.hbm_stacks},
                  {"hbm_stack_bytes", chip.hbm_stack_bytes},
                  {"cc_cores", chip.cc_cores},
                  {"dma_engines", chip.dma_engines},
                  {"sbuf_partitions", chip.sbuf_partitions},
                  {"sbuf_partition_bytes", chip.sbuf_partition_bytes},
                  {"psum_partition_bytes", chip.psum_partition_bytes}};
  json["topology"] = {{"kind", platform.topology}, {"dims", platform.dims}};
  json["nodes"] = json["chips"] = json["switches"] = json["edges"] = json["nics"] =
      ordered_json::array();
  for (const config::Node& node : platform.nodes) {
    json["nodes"].push_back({{"id", node.id},
                             {"instance_type", node.instance_type},
                             {"vcpu", node.vcpu},
                             {"memory_gib", node.memory_gib}});
  }
  for (const config::Chip& each : platform.chips) {
    ordered_json row{{"id", each.id},
                     {"node", each.node},
                     {"local_id", each.local_id},
                     {"coord", each.coord},
                     {"connected_to", each.connected_to}};
    if (!each.connected_to_z.empty()) row["connected_to_z"] = each.connected_to_z;
    if (!each.pci_bdf.empty()) row["pci_bdf"] = each.pci_bdf;
    if (!each.cpu_affinity.empty()) row["cpu_affinity"] = each.cpu_affinity;
    if (each.numa_node >= 0) row["numa_node"] = each.numa_node;
    json["chips"].push_back(std::move(row));
  }
  for (const config::Switch& sw : platform.switches) {
    json["switches"].push_back(
        {{"id", sw.id}, {"level", sw.level}, {"link", sw.link}, {"members", sw.members}});
  }
  for (const config::Edge& edge : platform.edges) {
    json["edges"].push_back({{"a", edge.a}, {"b", edge.b}, {"link", edge.link}});
  }
  for (const config::Nic& nic : platform.nics) {
    json["nics"].push_back({{"id", nic.id}, {"node", nic.node}, {"gbit", nic.gbit}});
  }
  for (const config::Block& block : platform.blocks) json["blocks"].push_back(to_json(block));
  const config::Policies& policies = platform.policies;
  add(json, "dma_queues", policies.dma_queues);
  add(json, "links", policies.links);
  add(json, "routing", policies.routing);
  add(json, "switch_port", policies.switch_port);
  return json;
}

void print_platform(const config::Platform& platform) {
  const config::ChipModel& chip = platform.chip;
  fmt::print("{}: {} x {} (generation {}), {} on {} node{}\n", platform.name, platform.chips.size(),
             chip.name, config::to_string(platform.generation), platform.topology,
             platform.nodes.size(), platform.nodes.size() == 1 ? "" : "s");
  fmt::print("  chip      {} cores, {} x {} GiB HBM, {} DMA engines, {} CC-cores, LNC {}\n",
             chip.cores, chip.hbm_stacks, chip.hbm_stack_bytes >> 30, chip.dma_engines,
             chip.cc_cores, chip.lnc_default);
  fmt::print("  core      SBUF {} x {} KiB, PSUM {} x {} KiB\n", chip.sbuf_partitions,
             chip.sbuf_partition_bytes >> 10, chip.sbuf_partitions,
             chip.psum_partition_bytes >> 10);
  fmt::print("  timing    {} ({})\n", platform.timing,
             platform.validated ? "compared with published times" : "unvalidated");
  std::vector<std::string> links;
  for (const config::Edge& edge : platform.edges) links.push_back(edge.link);
  std::sort(links.begin(), links.end());
  for (auto at = links.begin(); at != links.end();) {
    const auto next = std::upper_bound(at, links.end(), *at);
    fmt::print("  links     {} x {}\n", next - at, *at);
    at = next;
  }
  for (const config::Switch& sw : platform.switches) {
    fmt::print("  switch    {} level {}, {} x {}\n", sw.id, sw.level, sw.members.size(), sw.link);
  }
  for (const config::Block& block : platform.blocks) {
    fmt::print("  block     {}: {} of {}, on {} chip{}{}\n", block.name, block.type, block.library,
               block.chips.size(), block.chips.size() == 1 ? "" : "s",
               block.background ? ", in the background" : "");
  }
  const auto policy = [](const char* which, const config::Policy& p) {
    if (!p.given()) return;
    fmt::print("  policy    {}: {}{}{}\n", which, p.name, p.library.empty() ? "" : " of ",
               p.library);
  };
  policy("DMA queues", platform.policies.dma_queues);
  policy("links", platform.policies.links);
  policy("routing", platform.policies.routing);
  policy("switch ports", platform.policies.switch_port);
  if (!platform.nics.empty()) {
    fmt::print("  network   {} x {} Gbit/s\n", platform.nics.size(), platform.nics.front().gbit);
  }
  for (const config::Chip& each : platform.chips) {
    std::vector<std::string> neighbours;
    for (const uint32_t id : each.connected_to) neighbours.push_back(std::to_string(id));
    fmt::print("  chip {:<4} node {}, neuron{}{}{}\n", each.id, each.node, each.local_id,
               neighbours.empty() ? "" : ", connected to ", config::join(neighbours, " "));
  }
}

void print_timing(const Configuration& configuration, bool json) {
  if (json) {
    ordered_json rows = ordered_json::array();
    for (const config::Parameter& parameter : configuration.timing.parameters()) {
      rows.push_back({{"name", parameter.name},
                      {"value", parameter.value},
                      {"default", parameter.file_value},
                      {"unit", parameter.unit},
                      {"status", std::string(1, parameter.status)},
                      {"meaning", parameter.meaning},
                      {"source", parameter.source}});
    }
    fmt::print("{}\n", base::json_text(rows, 1));
    return;
  }
  fmt::print(
      "Timing of {} (file {}). Change one with --set name=value.\n"
      "Status: D documented, V arithmetic on documented numbers, M measured or fitted, "
      "A assumption.\n\n",
      configuration.platform.name, configuration.timing.name());
  for (const config::Parameter& parameter : configuration.timing.parameters()) {
    fmt::print("{:<28} {:>8} {:<6} {}  {}{}\n{:49}[{}]\n", parameter.name, parameter.value,
               parameter.unit, parameter.status, parameter.meaning,
               parameter.overridden() ? " (default " + parameter.file_value + ")" : "", "",
               parameter.source);
  }
}

int print_support(bool json) {
  const auto features = config::load_support();
  if (!features) {
    complain(features.error().message());
    return exit_code(features.error().fault);
  }
  ordered_json rows = ordered_json::array();
  for (const config::Feature& feature : *features) {
    if (json) {
      rows.push_back({{"feature", feature.feature},
                      {"status", feature.status},
                      {"since", feature.since},
                      {"note", feature.note}});
    } else {
      fmt::print("{:<8} {:<5} {}{}{}\n", feature.status, feature.since, feature.feature,
                 feature.note.empty() ? "" : ": ", feature.note);
    }
  }
  if (json) fmt::print("{}\n", base::json_text(rows, 1));
  return 0;
}

}  // namespace

static int print_hierarchy(const Configuration& configuration, bool json) {
  const auto objects = sim::hierarchy(configuration.platform, configuration.timing);
  if (!objects) {
    complain(objects.error().message());
    return start_code(objects.error().fault);
  }
  ordered_json rows = ordered_json::array();
  for (const sim::HierarchyObject& each : *objects) {
    if (json) {
      rows.push_back({{"name", each.name}, {"kind", each.kind}});
    } else {
      fmt::print("{:<32} {}\n", each.name, each.kind);
    }
  }
  if (json) fmt::print("{}\n", base::json_text(rows, 1));
  return 0;
}

int describe(const DescribeOptions& options) {
  if (options.support) return print_support(options.json);
  const bool schedule = !options.schedule.operation.empty();
  const bool detail = options.timing || options.registers || options.hierarchy || schedule;
  if (!detail && !options.platform_given) {
    for (const std::string& name : config::platform_names()) fmt::print("{}\n", name);
    return 0;
  }
  const auto configuration = load_configuration(options.machine);
  if (!configuration) {
    complain(configuration.error().message());
    return kExitUsage;
  }
  if (schedule) return describe_schedule(*configuration, options.schedule);
  if (options.hierarchy) return print_hierarchy(*configuration, options.json);
  if (options.registers) {
    describe_registers(configuration->platform, options.unsupported, options.json);
  } else if (options.timing) {
    print_timing(*configuration, options.json);
  } else if (options.json) {
    fmt::print("{}\n", base::json_text(to_json(configuration->platform), 1));
  } else {
    print_platform(configuration->platform);
  }
  return 0;
}

}  // namespace soma
