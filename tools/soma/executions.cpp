// `soma report`: what a run's report says about the programs that it executed.
#include <cstdio>
#include <limits>
#include <optional>
#include <string>

#include "base/file.h"
#include "tools/soma/checks_view.h"
#include "tools/soma/conclude.h"
#include "tools/soma/execution_view.h"
#include "tools/soma/options.h"

namespace soma {
namespace {

base::Status write_picture(const std::string& path, const base::Result<std::string>& picture) {
  return picture ? base::replace_file(path, *picture) : base::Status(picture.error());
}

std::optional<Window> window_of(const ReportOptions& options) {
  constexpr double kMicrosecond = 1e6;
  if (!options.from_us && !options.to_us) return std::nullopt;
  return Window{
      options.from_us.value_or(0) * kMicrosecond,
      options.to_us.value_or(std::numeric_limits<double>::max() / kMicrosecond) * kMicrosecond};
}

}  // namespace

int report(const ReportOptions& options) {
  const base::Result<std::string> text = base::read_file(options.file);
  if (!text) return fail(text.error());
  const auto refuse = [&](base::Error error) {
    error.where = options.file;
    return fail(error);
  };
  const auto executions = parse_executions(*text);
  if (!executions) return refuse(executions.error());
  const auto checks = checks_text(*text);
  if (!checks) return refuse(checks.error());
  if (!options.html.empty()) {
    const std::string page = executions_page("Executions in " + options.file, *executions);
    if (base::Status s = base::replace_file(options.html, page); !s) return fail(s.error());
  }
  if (!options.roofline.empty()) {
    const base::Status drawn = write_picture(options.roofline, roofline_picture(*executions));
    if (!drawn) return fail(drawn.error());
  }
  if (!options.timeline.empty()) {
    const base::Status drawn =
        write_picture(options.timeline, timeline_picture(*executions, window_of(options)));
    if (!drawn) return fail(drawn.error());
  }
  std::fputs((executions_text(*executions) + *checks).c_str(), stdout);
  return 0;
}

}  // namespace soma
