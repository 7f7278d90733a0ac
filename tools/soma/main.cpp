// The command `soma`. Parses the command line; everything else is in the file of each command.
#include <CLI/CLI.hpp>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "arch/config/names.h"
#include "base/file.h"
#include "tools/soma/conclude.h"
#include "tools/soma/options.h"
#include "tools/soma/sweep.h"

namespace soma {
namespace {

constexpr size_t kSuggestions = 6;
constexpr uint32_t kMaxRanks = 1u << 20;
constexpr uint64_t kMaxAfterUs = 1'000'000'000;  // of simulated time

// Before the parser reads a size: it wraps a sign and cuts what does not fit. A unit may follow.
CLI::Validator plain_number() {
  constexpr size_t kDigits = 18;
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
        if (digits != 0 && digits <= kDigits) return {};
        return "'" + text + "' is not a number of at most 18 digits";
      },
      "");
}

void add_device_options(CLI::App& app, MachineOptions& options) {
  app.add_option("--platform", options.platform, "name of a platform or path of a .json file")
      ->capture_default_str();
  app.add_option("--timing-file", options.timing, "name or path; default: the platform's own");
  app.add_option("--set", options.sets, "override a timing parameter: name=value")
      ->allow_extra_args(false);
  app.add_flag("--timing-only", options.timing_only, "do not move payload; times are the same");
  app.add_flag("--check{on}", options.check,
               "look for races, reads of what was never written, semaphores left non-zero, ... "
               "(=off: not; default: off, in debug builds on)")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--log", options.log, "LEVEL or PATTERN=LEVEL, comma-separated");
  app.add_option("--trace", options.trace, "write a Perfetto trace to this file");
  app.add_option("--trace-limit", options.trace_limit, "its largest size in bytes")
      ->transform(plain_number())
      ->capture_default_str();
}

// For machines that serve device nodes.
void add_machine_options(CLI::App& app, MachineOptions& options) {
  add_device_options(app, options);
  app.add_option("--policy", options.policy, "epoch (repeatable) or overlap")
      ->check(CLI::IsMember({"epoch", "overlap"}))
      ->capture_default_str();
  app.add_option("--clock", options.clock, "what clients see as time: virtual or host")
      ->check(CLI::IsMember({"virtual", "host"}))
      ->capture_default_str();
  app.add_flag("--profile", options.profile,
               "reports have the cost of lines of source and a timeline (soma report)");
  CLI::Option* watch =
      app.add_option("--watch", options.watch, "a pattern of signals (d0.dma*.busy) for --vcd")
          ->allow_extra_args(false);
  CLI::Option* vcd = app.add_option("--vcd", options.vcd, "write them to this file, for GTKWave");
  watch->needs(vcd);
  vcd->needs(watch);
}

// The message for an argument that no option takes, with the valid ones near it.
std::string unexpected(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> valid;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) valid.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    valid.push_back(command->get_name());
  }
  const auto near = config::near_names(arguments.front(), valid, kSuggestions);
  return "unknown argument '" + arguments.front() +
         "'; valid: " + config::join(near.empty() ? valid : near, ", ") +
         (near.empty() ? "" : " (--help lists all)");
}

// As a shell takes it.
std::string command_line(const std::vector<std::string>& arguments) {
  std::string out = "soma";
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() &&
                       argument.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;~#!") == std::string::npos;
    std::string quoted = "'";
    for (const char c : argument) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    out += " " + (plain ? argument : quoted + "'");
  }
  return out;
}

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", SOMA_VERSION);
    add_run();
    add_up();
    add_exec();
    down_ = app_.add_subcommand("down", "stop a machine that `up` started");
    down_->add_option("--name", down_name_, "which machine")->capture_default_str();
    add_fault();
    add_qemu();
    add_vfio_user();
    add_sweep();
    add_report();
    add_describe();
  }

  int execute(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    sweep_options_.command_line = command_line(arguments);
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    if (dashes != arguments.end()) command_.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
    std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
    try {
      app_.parse(arguments);
    } catch (const CLI::Success& success) {  // --help, --version
      return app_.exit(success);
    } catch (const CLI::ExtrasError&) {
      return usage_error(unexpected(chosen(), chosen().remaining(true)));
    } catch (const CLI::RequiredError& error) {
      if (!app_.get_subcommands().empty()) return usage_error(error.what());
      if (argc > 1) return usage_error(unexpected(app_, {argv[1]}));
      return usage_error(
          "a command is required: run, up, exec, down, fault, qemu, vfio-user, sweep or describe "
          "(--help)");
    } catch (const CLI::ParseError& error) {
      return usage_error(error.what());
    }
    return dispatch();
  }

 private:
  void add_run() {
    run_ = app_.add_subcommand("run",
                               "run a command against a machine of its own: run ... -- COMMAND");
    add_machine_options(*run_, run_options_.machine);
    run_->add_option("--report", run_options_.report, "write what the machine did to this file");
  }
  void add_up() {
    up_ = app_.add_subcommand("up", "start a machine that stays for several commands");
    add_machine_options(*up_, up_options_.machine);
    up_->add_option("--name", up_options_.name, "to tell machines apart")->capture_default_str();
  }
  void add_exec() {
    exec_ = app_.add_subcommand("exec",
                                "run a command against a machine that is up: exec ... -- COMMAND");
    exec_->add_option("--name", exec_options_.name,
                      "which machine; default: the one that this command runs against, else the "
                      "one that was started without a name");
    exec_->add_option("--node", exec_options_.node,
                      "which node of the platform; default: the caller's, else 0");
    exec_->add_option("--report", exec_options_.report, "write what the machine did to this file");
  }
  void add_fault() {
    fault_ = app_.add_subcommand("fault", "take a link of a machine down, or up again");
    fault_->add_option("--name", fault_options_.name,
                       "which machine; default: the one that this command runs against, else the "
                       "one that was started without a name");
    fault_
        ->add_option("--link", fault_options_.link,
                     "two chips (0-1) or a name of the report (link.d0-d1)")
        ->required();
    fault_
        ->add_option("--after-us", fault_options_.after_us,
                     "not now but once, this long after the next on-device barrier opens")
        ->check(CLI::Range(uint64_t{0}, kMaxAfterUs));
    fault_->add_option("state", fault_state_, "down or up")
        ->required()
        ->check(CLI::IsMember({"down", "up"}));
  }
  void add_qemu() {
    qemu_ = app_.add_subcommand(
        "qemu", "give the guest of a stock QEMU a device: qemu ... -- QEMU-ARGUMENTS");
    add_device_options(*qemu_, qemu_options_.machine);
    qemu_
        ->add_option("--revision", qemu_options_.revision,
                     "PCI revision id: silicon, emulator, qemu or a number")
        ->capture_default_str();
    qemu_->add_option("--report", qemu_options_.report, "write what the machine did to this file");
  }
  void add_vfio_user() {
    vfio_user_ = app_.add_subcommand(
        "vfio-user", "serve devices to virtual machine monitors over the vfio-user protocol");
    add_device_options(*vfio_user_, vfio_user_options_.machine);
    vfio_user_->add_option("--socket,--socket-path", vfio_user_options_.socket,
                           "where to listen; several devices listen at SOCKET.0, SOCKET.1, ...");
    vfio_user_->add_option("--fd", vfio_user_options_.fd,
                           "in place of a path: an inherited socket with a client at its end");
    vfio_user_->add_option("--device", vfio_user_options_.device,
                           "only this device of the platform, at SOCKET itself");
    vfio_user_
        ->add_option("--revision", vfio_user_options_.revision,
                     "PCI revision id: silicon, emulator, qemu or a number")
        ->capture_default_str();
    vfio_user_->add_option("--product", vfio_user_options_.product,
                           "the product name that QEMU gives its guest (-smbios "
                           "type=1,product=...), by which drivers number devices");
    vfio_user_->add_option("--report", vfio_user_options_.report,
                           "write what the machine did to this file");
  }
  void add_sweep() {
    SweepOptions& o = sweep_options_;
    sweep_ = app_.add_subcommand("sweep", "time collectives over a grid; CSV and a page of curves");
    const auto list = [&](const char* name, auto& to, const char* what) {
      sweep_->add_option(name, to, what)->delimiter(',')->capture_default_str();
    };
    list("--platform", o.platforms, "names or paths, comma-separated");
    list("--op", o.operations, "as nccom-test: allr, allg, redsct, alltoall, permute, ...");
    list("--datatype", o.datatypes, "as nccom-test");
    list("--ranks", o.ranks, "default: all of the platform");
    list("--algo", o.algorithms, "ring, mesh, rdh, ...; default: the library's choice");
    sweep_->add_option("--set", o.sets, "a timing parameter: name=value[,value...]")
        ->allow_extra_args(false);
    sweep_->add_option("--sizes", o.sizes, "first[:last[:factor]]")->capture_default_str();
    sweep_->add_option("--lnc", o.lnc, "cores per rank, 1 or 2; default: the platform's")
        ->check(CLI::Range(1, 2));
    sweep_->add_option("--iters", o.iterations, "measured operations")->capture_default_str();
    sweep_->add_option("--warmup", o.warmup, "unmeasured operations")->capture_default_str();
    sweep_->add_flag("--data", o.data, "move payload and check the results");
    sweep_->add_option("--csv", o.csv, "write the results to this file (- for stdout)");
    sweep_->add_option("--html", o.html, "write a page with curves and tables to this file");
    sweep_->add_option("--svg", o.svg, "write the curves as a picture to this file");
    sweep_->add_option("--title", o.title, "of page and picture")->capture_default_str();
    sweep_->add_option("--jobs", o.jobs, "runs at once; default: one per processor");
    sweep_->add_flag("--resume", o.resume, "measure only what the file of --csv does not have");
  }
  void add_report() {
    report_ = app_.add_subcommand("report", "say where the time of executed programs went");
    report_->add_option("file", report_options_.file, "as `soma run --report` wrote it")
        ->required();
    report_->add_option("--html", report_options_.html, "also write a page with pictures");
    report_->add_option("--roofline", report_options_.roofline, "also draw it, as SVG");
    CLI::Option* timeline = report_->add_option(
        "--timeline", report_options_.timeline,
        "also draw the first execution of the first program (run --profile), as SVG");
    report_->add_option("--from-us", report_options_.from_us, "the part of it to draw")
        ->needs(timeline)
        ->check(CLI::NonNegativeNumber);
    report_->add_option("--to-us", report_options_.to_us)
        ->needs(timeline)
        ->check(CLI::NonNegativeNumber);
  }
  void add_describe() {
    describe_ =
        app_.add_subcommand("describe", "print platforms, timing, registers, the support matrix");
    add_machine_options(*describe_, describe_options_.machine);
    describe_->add_flag("--json", describe_options_.json, "as JSON");
    describe_->add_flag("--timing", describe_options_.timing, "every timing parameter");
    describe_->add_flag("--hierarchy", describe_options_.hierarchy,
                        "every part of the machine by its name in SystemC");
    describe_->add_flag("--support", describe_options_.support, "what works and what does not");
    CLI::Option* registers = describe_->add_flag("--registers", describe_options_.registers,
                                                 "every known register of the generation");
    describe_
        ->add_flag("--unsupported", describe_options_.unsupported,
                   "of the registers, those that are known but not modelled")
        ->needs(registers);
    add_schedule();
  }
  void add_schedule() {
    ScheduleOptions& o = describe_options_.schedule;
    CLI::Option* schedule = describe_->add_option(
        "--schedule", o.operation, "a collective (all_reduce, ...): who moves what in which order");
    const auto add = [&](CLI::Option* option) { option->needs(schedule); };
    add(describe_->add_option("--ranks", o.ranks, "the first N ranks; default: all")
            ->check(CLI::Range(1u, kMaxRanks)));
    add(describe_->add_option("--size", o.size, "bytes of the longer buffer (k, M, G: 1024)")
            ->transform(CLI::AsSizeValue(false))
            ->transform(plain_number())
            ->capture_default_str());
    add(describe_->add_option("--algo", o.algorithm, "instead of the selected algorithm"));
    add(describe_->add_option("--lnc", o.lnc, "physical cores per rank"));
    add(describe_->add_flag("--in-place", o.in_place, "output in the memory of the input"));
    add(describe_->add_flag("--steps", o.steps, "a line per step"));
    add(describe_->add_option("--svg", o.svg, "draw it into this file"));
  }

  const CLI::App& chosen() const {
    const auto parsed = app_.get_subcommands();
    return parsed.empty() ? app_ : *parsed.front();
  }

  static int usage_error(const std::string& message) {
    complain(message);
    return kExitUsage;
  }

  int dispatch() {
    const bool needs_command = run_->parsed() || exec_->parsed();
    const bool takes_command = needs_command || qemu_->parsed();
    if (needs_command && command_.empty()) {
      return usage_error("no command given; put it after --: soma run [options] -- COMMAND");
    }
    if (!takes_command && !command_.empty()) return usage_error("no command is expected after --");
    run_options_.command = exec_options_.command = command_;
    if (run_->parsed()) return run(run_options_);
    if (up_->parsed()) return up(up_options_);
    if (exec_->parsed()) return exec(exec_options_);
    if (down_->parsed()) return down(down_name_);
    fault_options_.up = fault_state_ == "up";
    if (fault_->parsed()) return fault(fault_options_);
    qemu_options_.arguments = command_;
    if (qemu_->parsed()) return qemu(qemu_options_);
    if (vfio_user_->parsed()) return vfio_user(vfio_user_options_);
    if (report_->parsed()) return report(report_options_);
    if (sweep_->parsed()) return sweep(sweep_options_);
    describe_options_.platform_given = describe_->count("--platform") > 0;
    return describe(describe_options_);
  }

  CLI::App app_{"Soma: a deterministic, cycle-approximate emulator of AWS Neuron devices", "soma"};
  CLI::App* run_ = nullptr;
  CLI::App* up_ = nullptr;
  CLI::App* exec_ = nullptr;
  CLI::App* down_ = nullptr;
  CLI::App* fault_ = nullptr;
  CLI::App* qemu_ = nullptr;
  CLI::App* vfio_user_ = nullptr;
  CLI::App* sweep_ = nullptr;
  CLI::App* report_ = nullptr;
  CLI::App* describe_ = nullptr;
  RunOptions run_options_;
  UpOptions up_options_;
  ExecOptions exec_options_;
  FaultOptions fault_options_;
  QemuOptions qemu_options_;
  VfioUserOptions vfio_user_options_;
  SweepOptions sweep_options_;
  ReportOptions report_options_;
  DescribeOptions describe_options_;
  std::string down_name_ = "default";
  std::string fault_state_;
  std::vector<std::string> command_;
};

}  // namespace
}  // namespace soma

int main(int argc, char** argv) {
  try {
    const int code = soma::CommandLine().execute(argc, argv);
    const base::Status printed = base::flush_stdout();
    if (printed || code != 0) return code;
    return soma::fail(printed.error());
  } catch (const std::system_error& error) {  // printing failed
    soma::complain(error.what());
    return soma::exit_code(base::Fault::kIo);
  } catch (const std::exception& error) {
    soma::complain(error.what());
    return soma::exit_code(base::Fault::kInternal);
  }
}
