#include "tools/soma/sweep_grid.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "arch/config/platform.h"
#include "runtime/collectives/schedule/select.h"
#include "tools/nccom-test/options.h"
#include "tools/soma/options.h"

namespace soma {
namespace {

struct Sizes {
  std::string first;
  std::string last;
  std::string factor;
};

base::Result<Sizes> parse_sizes(const std::string& text) {
  Sizes sizes;
  std::istringstream in(text);
  std::getline(in, sizes.first, ':');
  std::getline(in, sizes.last, ':');
  std::getline(in, sizes.factor);
  if (sizes.first.empty()) {
    return base::Error{base::Fault::kConfig, 2, "--sizes",
                       "'" + text + "'; expected first[:last[:factor]], such as 1kb:64mb:4"};
  }
  if (sizes.last.empty()) sizes.last = sizes.first;
  if (sizes.factor.empty()) sizes.factor = "2";
  return sizes;
}

// How many nodes the ranks need: all their cores, node by node.
base::Result<uint32_t> nodes_for(const config::Platform& platform, uint32_t ranks, uint32_t lnc) {
  const auto per_node = static_cast<uint32_t>(platform.chips.size() / platform.nodes.size()) *
                        platform.chip.cores / lnc;
  if (ranks <= per_node) return 1u;
  const uint32_t nodes = (ranks + per_node - 1) / per_node;
  if (nodes > platform.nodes.size() || ranks % nodes != 0) {
    return base::Error{base::Fault::kConfig, 2, platform.name,
                       fmt::format("{} ranks do not fit {} nodes of {} ranks evenly", ranks,
                                   platform.nodes.size(), per_node)};
  }
  return nodes;
}

std::string display_name(const std::string& platform) {
  namespace fs = std::filesystem;
  return fs::path(platform).extension() == ".json" ? fs::path(platform).stem().string() : platform;
}

std::vector<std::string> benchmark_of(const SweepOptions& o, const SweepSeries& s,
                                      const Sizes& sizes) {
  std::vector<std::string> words{"-r",
                                 std::to_string(s.ranks),
                                 "-N",
                                 std::to_string(s.nodes),
                                 "-b",
                                 sizes.first,
                                 "-e",
                                 sizes.last,
                                 "-f",
                                 sizes.factor,
                                 "-n",
                                 std::to_string(o.iterations),
                                 "-w",
                                 std::to_string(o.warmup),
                                 "-d",
                                 s.datatype,
                                 "--show-algorithm",
                                 "--non-interactive"};
  if (o.data) words.emplace_back("--check");
  return words;
}

// Asks nccom-test's own parser, so that mistakes are found before anything runs.
base::Result<std::vector<uint64_t>> sizes_of(const SweepOptions& o, const SweepSeries& s,
                                             const Sizes& sizes) {
  std::vector<std::string> words = benchmark_of(o, s, sizes);
  words.push_back(s.operation);
  const nccom::Parsed parsed = nccom::parse(words);
  if (!parsed.proceed) {
    const std::string text = parsed.text.substr(0, parsed.text.find_last_not_of('\n') + 1);
    return base::Error{base::Fault::kConfig, 2, "", text.substr(text.rfind('\n') + 1)};
  }
  std::vector<uint64_t> out = nccom::size_list(parsed.streams.front());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.empty()) {
    return base::Error{base::Fault::kConfig, 2, "--sizes", "'" + o.sizes + "' has no size"};
  }
  return out;
}

base::Status check_settings(const std::string& platform, const std::vector<std::string>& sets) {
  MachineOptions machine;
  machine.platform = platform;
  machine.sets = sets;
  const auto configuration = load_configuration(machine);
  if (!configuration) return configuration.error();
  return {};
}

std::string algorithm_setting(const std::string& operation, const std::string& algorithm) {
  return operation + ":" + algorithm;
}

class Grid {
 public:
  Grid(const SweepOptions& options, Sizes sizes, std::vector<std::vector<std::string>> settings)
      : o_(options), sizes_(std::move(sizes)), settings_(std::move(settings)) {}

  base::Status add(const std::string& name) {
    const auto platform = config::load_platform(name);
    if (!platform) return platform.error();
    for (const std::vector<std::string>& sets : settings_) {
      if (const base::Status fits = check_settings(name, sets); !fits) return fits;
    }
    SweepCase of;
    of.platform = name;
    of.dma_engines = platform->chip.dma_engines;
    SweepSeries& s = of.series;
    s.platform = display_name(name);
    s.validated = platform->validated;
    s.lnc = o_.lnc == 0 ? platform->chip.lnc_default : o_.lnc;
    const auto all = static_cast<uint32_t>(platform->chips.size()) * platform->chip.cores / s.lnc;
    for (const uint32_t ranks : o_.ranks.empty() ? std::vector<uint32_t>{all} : o_.ranks) {
      const auto nodes = nodes_for(*platform, ranks, s.lnc);
      if (!nodes) return nodes.error();
      s.ranks = ranks;
      s.nodes = *nodes;
      if (const base::Status added = add_operations(of); !added) return added;
    }
    return {};
  }
  std::vector<SweepCase> take() { return std::move(grid_); }

 private:
  base::Status add_operations(SweepCase of) {
    SweepSeries& s = of.series;
    for (const std::string& operation : o_.operations) {
      s.operation = operation;
      for (const std::string& algorithm : o_.algorithms) {
        const auto known = ccl::parse_overrides(algorithm_setting(operation, algorithm));
        if (!known) return known.error();
      }
      for (const std::string& type : o_.datatypes) {
        s.datatype = type;
        const auto sizes = sizes_of(o_, s, sizes_);
        if (!sizes) return sizes.error();
        s.rows.clear();
        for (const uint64_t bytes : *sizes) {
          s.rows.emplace_back();
          s.rows.back().bytes = bytes;
        }
        for (const std::string& algorithm :
             o_.algorithms.empty() ? std::vector<std::string>{""} : o_.algorithms) {
          s.algorithm = algorithm;
          for (const std::vector<std::string>& sets : settings_) {
            s.sets = sets;
            grid_.push_back(of);
          }
        }
      }
    }
    return {};
  }

  const SweepOptions& o_;
  Sizes sizes_;
  std::vector<std::vector<std::string>> settings_;
  std::vector<SweepCase> grid_;
};

std::vector<std::string> environment_of(const SweepSeries& s) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  // The last of two settings of one name would not win: remove before adding.
  const auto set = [&](const std::string& name, const std::string& value) {
    const auto is = [&](const std::string& e) { return e.rfind(name + "=", 0) == 0; };
    out.erase(std::remove_if(out.begin(), out.end(), is), out.end());
    out.push_back(name + "=" + value);
  };
  set("NEURON_LOGICAL_NC_CONFIG", std::to_string(s.lnc));
  if (!s.algorithm.empty()) set("NCCOM_CC_ALGO", algorithm_setting(s.operation, s.algorithm));
  return out;
}

}  // namespace

base::Result<std::vector<SweepCase>> make_grid(const SweepOptions& options) {
  auto settings = expand_sets(options.sets);
  if (!settings) return settings.error();
  auto sizes = parse_sizes(options.sizes);
  if (!sizes) return sizes.error();
  Grid grid(options, std::move(*sizes), std::move(*settings));
  for (const std::string& name : options.platforms) {
    if (const base::Status added = grid.add(name); !added) return added.error();
  }
  return grid.take();
}

SweepCommand command_of(const SweepOptions& options, const SweepCase& of, uint64_t bytes,
                        const std::string& bin, const std::string& json,
                        const std::string& report) {
  SweepCommand out;
  out.words = {bin + "/soma", "run", "--platform", of.platform, "--report", report};
  if (!options.data) out.words.emplace_back("--timing-only");
  for (const std::string& set : of.series.sets) {
    out.words.insert(out.words.end(), {"--set", set});
  }
  out.words.insert(out.words.end(), {"--", bin + "/nccom-test"});
  const std::string size = std::to_string(bytes);
  const auto benchmark = benchmark_of(options, of.series, {size, size, "2"});
  out.words.insert(out.words.end(), benchmark.begin(), benchmark.end());
  out.words.insert(out.words.end(), {"--report-to-json-file", json, of.series.operation});
  out.environment = environment_of(of.series);
  return out;
}

}  // namespace soma
