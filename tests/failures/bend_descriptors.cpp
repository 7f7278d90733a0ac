// Preloaded in front of the shim: gives descriptors that a runtime builds another address, as a
// defect of a runtime might. BEND_HALF is tx or rx, BEND_LENGTH the bytes of the buffers to look
// for, BEND_COUNT how many of them to change, BEND_ADDRESS their new device address.
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "tests/failures/driver_calls.h"

namespace {

namespace uapi = driver::uapi;

struct Descriptor {  // spec/hw-registers.md 3.5
  uint32_t control;
  uint32_t operation;  // zero on the receiving side
  uint64_t address;
};

unsigned long number(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoul(text, nullptr, 0) : 0;
}

void bend(const uapi::dma_copy_descriptors64& request) {
  static unsigned long bent;
  const char* half = std::getenv("BEND_HALF");
  auto* descriptors = reinterpret_cast<Descriptor*>(request.buffer);
  for (uint32_t i = 0; half != nullptr && i < request.num_descs; ++i) {
    const bool receives = descriptors[i].operation == 0;
    if (receives != (std::strcmp(half, "rx") == 0) || bent >= number("BEND_COUNT") ||
        (descriptors[i].control & 0xFFFF) != number("BEND_LENGTH")) {
      continue;
    }
    descriptors[i].address = number("BEND_ADDRESS");
    ++bent;
  }
}

}  // namespace

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (static_cast<uint32_t>(request) == uapi::kDmaCopyDescriptors64) {
    bend(*static_cast<const uapi::dma_copy_descriptors64*>(argument));
  }
  return failures::next_ioctl(fd, request, argument);
}
