// The real devices behind sim::Hardware: hw::Machine, built from a platform and a timing file.
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <systemc>
#include <tuple>
#include <utility>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "base/log.h"
#include "hw/check/checker.h"
#include "hw/link/links.h"
#include "hw/machine/chip.h"
#include "hw/machine/machine.h"
#include "sim/check_rows.h"
#include "sim/extensions.h"
#include "sim/hardware.h"
#include "sim/machine_params.h"
#include "sim/profile.h"
#include "sim/report.h"
#include "sim/source_lines.h"
#include "sim/trace_adapter.h"

// SystemC's library has a main of its own that calls this; ours is used instead, but the library
// still wants the symbol.
__attribute__((visibility("default"))) int sc_main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  return 0;
}

namespace sim {
namespace {

// What the simulation kernel has to say is a log line, not output of the program. Errors stay
// exceptions; they end the machine.
void log_kernel_reports(base::Logger* logger) {
  static base::Log log;  // the kernel's handler is one per process, as the kernel is
  log = logger == nullptr ? base::Log() : base::Log(*logger, "kernel");
  sc_core::sc_report_handler::set_handler(
      [](const sc_core::sc_report& report, const sc_core::sc_actions& actions) {
        switch (report.get_severity()) {
          case sc_core::SC_INFO:
            return log.info("{}: {}", report.get_msg_type(), report.get_msg());
          case sc_core::SC_WARNING:
            return log.warn("{}: {}", report.get_msg_type(), report.get_msg());
          case sc_core::SC_ERROR:
            return sc_core::sc_report_handler::default_handler(report, actions);
          default:  // by default the end of the process, without a word to anybody else
            log.error("{}: {}", report.get_msg_type(), report.get_msg());
            throw report;
        }
      });
}

// Reports of the kernel say in further lines where in its own source they come from.
std::string text_of(const std::exception& error) {
  const auto* report = dynamic_cast<const sc_core::sc_report*>(&error);
  return report == nullptr ? error.what()
                           : report->get_msg_type() + (": " + std::string(report->get_msg()));
}

// Who listens to the machine, and what they know of its programs.
struct Tracers {
  Tracers(const HardwareParams& params, hw::MachineParams* machine) {
    if (params.trace == nullptr && !params.profile && !params.check) return;
    lines = std::make_unique<SourceLines>(params.inspect, params.platform);
    if (params.trace != nullptr) trace = std::make_unique<TraceAdapter>(*params.trace, lines.get());
    machine->tracer = trace.get();
    if (!params.profile) return;
    profile = std::make_unique<Profile>(*lines, trace.get());
    machine->tracer = profile.get();
  }

  std::unique_ptr<SourceLines> lines;
  std::unique_ptr<TraceAdapter> trace;
  std::unique_ptr<Profile> profile;
};

class SystemcHardware final : public Hardware {
 public:
  SystemcHardware(hw::MachineParams params, Tracers tracers, const HardwareParams& wanted)
      : tracers_(std::move(tracers)), machine_(std::move(params)) {
    if (hw::check::Checker* checker = machine_.checker()) {
      checker->set_lines([lines = tracers_.lines.get()](const hw::check::Site& site) {
        lines->refresh();
        return lines->find(site.core, site.engine, site.program, site.debug_id);
      });
    }
    if (wanted.touch_all) machine_.touch_all();
    if (!wanted.vcd.empty()) machine_.watch(wanted.vcd, wanted.watch);
  }

  pcie::Device& device(size_t chip) override {
    return machine_.device(static_cast<uint32_t>(chip));
  }
  pcie::HostExecutor& executor() override { return machine_.executor(); }
  base::Ps now() const override { return machine_.now(); }
  bool run(base::Ps limit) override {
    return machine_.run_to_quiescence(limit) == hw::RunOutcome::kQuiescent;
  }
  std::vector<base::Ps> take_released() override { return machine_.take_released(); }
  uint64_t progress() const override {
    const hw::Counters& seen = machine_.counters();
    return seen.packets + seen.semaphore_updates + seen.notifications;
  }
  std::optional<base::Error> failure() const override { return machine_.error(); }
  std::vector<std::string> waiting() const override { return machine_.who_waits(); }

  base::Status set_link(const std::string& link, bool up) override {
    const auto ends = ends_of(link);
    if (!ends) return no_link(link);
    change(*ends, up);
    return {};
  }
  base::Status plan_link(const std::string& link, bool up, base::Ps after) override {
    const auto ends = ends_of(link);
    if (!ends) return no_link(link);
    machine_.after_release(after, [this, ends = *ends, up] { change(ends, up); });
    return {};
  }

  void collect(Report& report) override {
    collect_counters(report);
    collect_accesses(report);
    if (machine_.checker() != nullptr) collect_checks(*machine_.checker(), report);
    for (const auto& [what, count] : std::exchange(faults_, {})) report.add_fault(what, count);
    for (uint32_t number = 0; number < machine_.chips(); ++number) {
      hw::Chip& chip = machine_.chip(number);
      chip.fabric().trace_last();
      for (const hw::BandwidthResource* each : chip.fabric().resources()) add_usage(report, *each);
      for (const hw::BandwidthResource* each : chip.dma().resources()) add_usage(report, *each);
      for (const auto& block : chip.blocks()) {
        for (const hw::BandwidthResource* each : block->resources()) add_usage(report, *each);
      }
      collect_executions(report, chip);
    }
    if (machine_.links() != nullptr) {
      machine_.links()->trace_last();
      for (const hw::BandwidthResource* each : machine_.links()->resources()) {
        add_usage(report, *each, each->signals());
      }
    }
  }

 private:
  using Ends = std::pair<uint32_t, uint32_t>;

  static base::Error no_link(const std::string& link) {
    return {base::Fault::kConfig, 0, link,
            "there is no such link; links are two chips (0-1) or a name of the report "
            "(link.d0-d1, switch.L1.r0.s0.from.d3)"};
  }

  std::optional<Ends> ends_of(const std::string& link) {
    hw::Links* links = machine_.links();
    if (links == nullptr) return std::nullopt;
    Ends ends{};
    const char* end = link.data() + link.size();
    auto parsed = std::from_chars(link.data(), end, ends.first);
    const bool dash = parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-';
    if (dash) parsed = std::from_chars(parsed.ptr + 1, end, ends.second);
    if (!dash || parsed.ec != std::errc() || parsed.ptr != end) return links->ends_of(link);
    if (links->resource(ends.first, ends.second) == nullptr) return std::nullopt;
    return ends;
  }

  void change(const Ends& ends, bool up) {
    hw::Links& links = *machine_.links();
    if (!links.set_up(ends.first, ends.second, up)) return;
    ++faults_[links.resource(ends.first, ends.second)->name() + (up ? " up" : " down")];
  }

  void collect_executions(Report& report, hw::Chip& chip) {
    for (uint32_t nc = 0; nc < chip.cores().count(); ++nc) {
      hw::NeuronCore* core = chip.cores().touched(nc);
      if (core == nullptr) continue;
      uint32_t program = 0;
      for (const hw::ExecutionTotals& totals : core->take_executions()) {
        ExecutionRow row = execution_row(*core, totals);
        row.core = core->name();
        row.program = program++;
        if (tracers_.profile) row.profile = tracers_.profile->take(core->name(), totals.program);
        report.add_execution(std::move(row));
      }
    }
  }

  static ExecutionRow execution_row(const hw::NeuronCore& core, const hw::ExecutionTotals& totals) {
    constexpr base::Ps kMicrosecond = 1'000'000;
    ExecutionRow row;
    row.times = {totals.count, totals.total, totals.least, totals.most};
    row.hbm_bytes = totals.hbm_bytes;
    row.peak_operations_per_us = core.peak_operations(kMicrosecond);
    row.peak_hbm_bytes_per_us = core.peak_hbm_bytes(kMicrosecond);
    for (uint32_t e = 0; e < totals.engines.size(); ++e) {
      const hw::EngineStats& stats = totals.engines[e];
      EngineRow engine{hw::NeuronCore::engine_name(e), stats.instructions, stats.busy, {}, {}, {}};
      for (size_t i = 0; i < hw::kStalls; ++i) {
        engine.stalled.emplace_back(hw::name_of(static_cast<hw::Stall>(i)), stats.stalled[i]);
      }
      for (uint32_t by = 0; by < stats.waited_for.size(); ++by) {
        engine.waited_for.emplace_back(hw::NeuronCore::engine_name(by), stats.waited_for[by]);
      }
      engine.bytes = {{"sbuf_read", stats.sbuf_read},
                      {"sbuf_written", stats.sbuf_written},
                      {"psum_read", stats.psum_read},
                      {"psum_written", stats.psum_written}};
      row.engines.push_back(std::move(engine));
    }
    const hw::EngineStats& tensor = totals.engines[contract::kPe];
    for (size_t i = 0; i < hw::kPeRates; ++i) {
      const auto rate = static_cast<hw::PeRate>(i);
      const uint64_t operations = 2 * tensor.multiplications[i];
      row.operations += operations;
      row.operations_by_kind.push_back(
          {hw::name_of(rate), operations, core.peak_operations(kMicrosecond, rate)});
    }
    for (size_t i = 0; i < totals.critical.size(); ++i) {
      row.critical_path.emplace_back(hw::CriticalPath::name(i), totals.critical[i]);
    }
    return row;
  }

  void add_usage(Report& report, const hw::BandwidthResource& resource, uint64_t signals = 0) {
    Usage& seen = usage_[resource.name()];
    report.add_usage(resource.name(), {resource.total_bytes() - seen.bytes,
                                       resource.busy_ps() - seen.busy, signals - seen.signals});
    seen = {resource.total_bytes(), resource.busy_ps(), signals};
  }

  void collect_counters(Report& report) {
    const hw::Counters now = machine_.counters();
    const hw::Counters& old = counters_;
    report.add_count("descriptors", now.descriptors - old.descriptors, "");
    report.add_count("packets", now.packets - old.packets, "");
    report.add_count("compute_packets", now.compute_packets - old.compute_packets, "");
    report.add_count("doorbells", now.doorbells - old.doorbells, "");
    report.add_count("bytes", now.bytes - old.bytes, "B");
    report.add_count("register_writes", now.register_writes - old.register_writes, "");
    report.add_count("semaphore_updates", now.semaphore_updates - old.semaphore_updates, "");
    report.add_count("notifications", now.notifications - old.notifications, "");
    report.add_count("dma_errors", now.dma_errors - old.dma_errors, "");
    report.add_count("bad_doorbells", now.bad_doorbells - old.bad_doorbells, "");
    if (now.generated_transfers != 0) {
      report.add_count("generated_transfers", now.generated_transfers - old.generated_transfers,
                       "");
      report.add_count("generated_descriptors",
                       now.generated_descriptors - old.generated_descriptors, "");
    }
    report.add_elided_bytes(now.elided_bytes - old.elided_bytes);
    report.add_elided("read of payload", now.elided_reads - old.elided_reads);
    counters_ = now;
  }

  void collect_accesses(Report& report) {
    for (const auto& [key, total] : machine_.access_log().entries()) {
      const auto& [block, kind, name, write] = key;
      const uint64_t count = total - std::exchange(accesses_[key], total);
      const std::string place = block + " " + name;
      switch (kind) {
        case hw::AccessLog::Kind::kUnknown:
          report.add_unknown(place, write ? 0 : count, write ? count : 0);
          break;
        case hw::AccessLog::Kind::kUnsupported:
          report.add_inert(place, count);
          break;
        case hw::AccessLog::Kind::kPartial:
          report.add_unsupported("partial or misaligned access to " + place, count);
          break;
        case hw::AccessLog::Kind::kDenied:
          report.add_unsupported("write to read-only " + place, count);
          break;
      }
    }
  }

  Tracers tracers_;
  // Asking who waits is not a change, but not const in the devices.
  mutable hw::Machine machine_;
  std::map<std::string, Usage> usage_;
  std::map<std::string, uint64_t> faults_;  // "link.d0-d1 down": how often
  hw::Counters counters_;
  std::map<hw::AccessLog::Key, uint64_t> accesses_;
};

}  // namespace

base::Result<std::unique_ptr<Hardware>> build_hardware(const HardwareParams& params) {
  const config::Platform& platform = params.platform;
  const HostKind hosts = params.standard_hosts ? HostKind::kStandard : HostKind::kOfPlatform;
  hw::MachineParams machine = machine_params(platform, params.timing, params.host_memory, hosts);
  for (size_t chip = 0; chip < params.chip_memory.size() && chip < machine.chips.size(); ++chip) {
    machine.chips[chip].host = params.chip_memory[chip];
  }
  base::Status extended = add_extensions(platform, machine);
  if (!extended) return extended.error();
  machine.revision = params.revision;
  machine.bars = params.bars;
  // Who looks on sees each packet when it is moved.
  machine.coalesce = params.coalesce && params.vcd.empty();
  machine.timing_only = params.timing_only;
  machine.check = params.check;
  Tracers tracers(params, &machine);
  log_kernel_reports(params.logger);
  try {
    return std::unique_ptr<Hardware>(
        std::make_unique<SystemcHardware>(std::move(machine), std::move(tracers), params));
  } catch (const std::invalid_argument& error) {
    return base::Error{base::Fault::kConfig, 0, platform.name, error.what()};
  } catch (const std::exception& error) {
    // What the library of a block throws, and blocks that do not fit their description, come here.
    const bool ours = platform.blocks.empty();
    return base::Error{ours ? base::Fault::kInternal : base::Fault::kConfig, 0, platform.name,
                       "cannot build the machine: " + text_of(error)};
  }
}

}  // namespace sim
