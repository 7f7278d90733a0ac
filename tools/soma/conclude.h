// The common course of commands that run a program against a machine of its own.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "sim/report.h"
#include "tools/soma/instruments.h"
#include "tools/soma/supervisor.h"
#include "tools/soma/watchdog.h"

namespace soma {

// Says what went wrong; the exit code for it.
int fail(const base::Error& error);

// Serves until the child ends or the machine fails (`status`); the child's exit code. `stop` makes
// `serve` return, from another thread.
int serve_child(Supervisor& child, Watchdog& watchdog, const std::function<base::Status()>& serve,
                const std::function<void()>& stop, base::Status& status);

// Prints warnings, writes the report and ends the trace. The exit code of the process: that of the
// machine if it failed, else `code` unless a file could not be written. `strict`: findings of the
// checks make a success kExitFindings.
int conclude(sim::Report report, const base::Status& served, int code,
             const std::string& report_path, Instruments& instruments, bool strict);

// Prints what a person should know about a run that has ended.
void print_warnings(const sim::Report& report);

}  // namespace soma
