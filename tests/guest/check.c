#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned checks;
static unsigned failures;

static void line(bool passed, const char* format, va_list arguments) {
  printf("%s %u - ", passed ? "ok" : "not ok", ++checks);
  vprintf(format, arguments);
  if (!passed) ++failures;
}

bool ok(bool passed, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  line(passed, format, arguments);
  va_end(arguments);
  putchar('\n');
  return passed;
}

bool ok_equal(uint64_t got, uint64_t want, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  line(got == want, format, arguments);
  va_end(arguments);
  if (got != want)
    printf(": 0x%llx, expected 0x%llx", (unsigned long long)got, (unsigned long long)want);
  putchar('\n');
  return got == want;
}

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("# ");
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
}

void measured(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("measure: ");
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
}

void bail_out(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("verdict: FAIL, after %u checks: ", checks);
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
  exit(1);
}

int verdict(void) {
  if (failures == 0 && checks != 0) {
    printf("verdict: pass, %u checks\n", checks);
    return 0;
  }
  printf("verdict: FAIL, %u of %u checks\n", failures, checks);
  return 1;
}

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_ms(unsigned ms) {
  const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
  nanosleep(&t, NULL);
}
