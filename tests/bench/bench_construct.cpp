// Constructs the devices of a platform (without resetting them): prints nanoseconds of wall time
// and the growth of the resident set in KiB. bench_construct PLATFORM
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "hw/machine/machine.h"
#include "sim/machine_params.h"

// Wanted by SystemC's library, whose main is not used.
__attribute__((visibility("default"))) int sc_main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  return 0;
}

namespace {

long peak_kib() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto platform = config::load_platform(argv[1]);
  if (!platform) return 1;
  auto timing = config::Timing::load(platform->timing);
  if (!timing) return 1;
  const long before = peak_kib();
  const auto start = std::chrono::steady_clock::now();
  const hw::Machine machine(sim::machine_params(*platform, *timing, {}));
  const auto time = std::chrono::steady_clock::now() - start;
  if (machine.chips() != platform->chips.size()) return 1;
  std::printf(
      "%lld %ld\n",
      static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()),
      peak_kib() - before);
  return 0;
}
