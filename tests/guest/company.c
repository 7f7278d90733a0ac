// On a guest with several processors another one uses the device while checks run: it reads a
// register and writes to memory that no check uses. What the checks do must not suffer, nor what it
// does.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "registers.h"
#include "suites.h"

#define BURST 20u

static struct {
  const struct device* device;
  volatile uint32_t* memory;
  pthread_t thread;
  bool here, always_there;
  atomic_bool leaves;
  unsigned turns, wrong;
} company;

static void* keep_company(void* unused) {
  (void)unused;
  const struct device* d = company.device;
  const uint32_t offset = d->layout->misc + MISC_SERIAL_LOW - MISC;
  const uint32_t serial = reg_read(d, offset);
  for (uint32_t turn = 0; !atomic_load(&company.leaves); ++turn) {
    for (unsigned i = 0; i < BURST; ++i) {
      company.wrong += reg_read(d, offset) != serial;
      company.memory[i] = turn + i;
    }
    for (unsigned i = 0; i < BURST; ++i) company.wrong += company.memory[i] != turn + i;
    ++company.turns;
    sleep_ms(1);
  }
  return NULL;
}

void company_comes(const struct device* device, volatile uint32_t* memory, bool always_there) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  say("%ld processors", processors);
  if (processors < 2) return;
  company.device = device;
  company.memory = memory;
  company.always_there = always_there;
  company.turns = company.wrong = 0;
  atomic_store(&company.leaves, false);
  if (pthread_create(&company.thread, NULL, keep_company, NULL) != 0)
    bail_out("cannot start a thread");
  company.here = true;
}

void company_leaves(void) {
  if (!company.here) return;
  atomic_store(&company.leaves, true);
  pthread_join(company.thread, NULL);
  company.here = false;
  if (!company.always_there) return;
  ok(company.turns != 0 && company.wrong == 0, "another processor: %u of its %u accesses wrong",
     company.wrong, 2 * BURST * company.turns);
}
