// Results of the test program: one line for each check, in the order of the checks.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Prints "ok N - name" or "not ok N - name"; returns `passed`.
bool ok(bool passed, const char* format, ...) __attribute__((format(printf, 2, 3)));
// As ok(got == want), and says both values when they differ.
bool ok_equal(uint64_t got, uint64_t want, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
// A heading or an explanation: "# text".
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
// A figure that nothing depends on: "measure: text".
void measured(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The test cannot go on: prints the verdict and ends the program.
void bail_out(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));
// "verdict: pass, N checks" or "verdict: FAIL, ..."; returns the exit status.
int verdict(void);

uint64_t now_ns(void);
void sleep_ms(unsigned ms);
