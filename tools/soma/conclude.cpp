#include "tools/soma/conclude.h"

#include <chrono>

#include "tools/soma/options.h"

namespace soma {

int fail(const base::Error& error) {
  complain(error.message());
  return start_code(error.fault);
}

int serve_child(Supervisor& child, Watchdog& watchdog, const std::function<base::Status()>& serve,
                const std::function<void()>& stop, base::Status& status) {
  child.watch([&] {
    watchdog.arm(kMachinePatience);
    stop();
  });
  status = serve();
  if (!status) child.terminate();
  return child.wait();
}

int conclude(sim::Report report, const base::Status& served, int code,
             const std::string& report_path, Instruments& instruments, bool strict) {
  if (!served) {
    report.set_failure(served.error());
    code = fail(served.error());
  }
  print_warnings(report);
  if (strict && code == 0 && report.findings() != 0) code = kExitFindings;
  for (const base::Status& written :
       {report_path.empty() ? base::Status() : report.write(report_path),
        instruments.finish_trace()}) {
    if (!written) {
      complain(written.error().message());
      if (code == 0) code = exit_code(written.error().fault);
    }
  }
  return code;
}

void print_warnings(const sim::Report& report) {
  for (const std::string& line : report.warnings()) complain("warning: " + line);
}

}  // namespace soma
