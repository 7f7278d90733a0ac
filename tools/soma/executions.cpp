// `soma report`: what a run's report says about the programs that it executed.
#include <cstdio>

#include "base/file.h"
#include "tools/soma/conclude.h"
#include "tools/soma/execution_view.h"
#include "tools/soma/options.h"

namespace soma {

int report(const ReportOptions& options) {
  const base::Result<std::string> text = base::read_file(options.file);
  if (!text) return fail(text.error());
  const auto executions = parse_executions(*text);
  if (!executions) {
    base::Error error = executions.error();
    error.where = options.file;
    return fail(error);
  }
  if (!options.html.empty()) {
    const std::string page = executions_page("Executions in " + options.file, *executions);
    if (base::Status s = base::replace_file(options.html, page); !s) return fail(s.error());
  }
  std::fputs(executions_text(*executions).c_str(), stdout);
  return 0;
}

}  // namespace soma
