// Any bytes as a platform or timing file: an error with a place in it, or a value; never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "arch/config/platform.h"
#include "arch/config/timing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto platform = config::parse_platform("fuzz", text);
  if (!platform && platform.error().where.rfind("fuzz:", 0) != 0) std::abort();
  auto timing = config::Timing::parse("fuzz", text);
  if (!timing && timing.error().where.rfind("fuzz:", 0) != 0) std::abort();
  if (timing) (void)timing->set(text.substr(0, 64));
  return 0;
}
