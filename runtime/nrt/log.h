// Log lines in the published format (spec/nrt-api.md 19): one unbuffered write per record to
// standard output, level and place chosen by NEURON_RT_LOG_LEVEL and NEURON_RT_LOG_LOCATION. The
// location "stderr" is our own addition. Missing: rotation; syslog without a running daemon is
// silent.
#pragma once

#include <cstdarg>
#include <string>

#include "base/error.h"

namespace nrt {

enum class LogLevel { kQuiet, kError, kWarn, kInfo, kDebug, kTrace };
enum class Component { kTdrv, kNmgr, kNrt, kHal };

// Reads the NEURON_RT_LOG_* variables; called at every nrt_init and before the first line.
void configure_log();
bool log_enabled(Component component, LogLevel level);

void log(LogLevel level, Component component, const char* function, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// The line without the final newline, as log() writes it; for tests.
std::string format_log_line(LogLevel level, Component component, const char* function,
                            const std::string& message, long sec, long usec, int pid, int tid);

}  // namespace nrt
