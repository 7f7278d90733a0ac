// The command line of a stock QEMU, completed so that its guest sees our device: the proxy device
// on an inherited socket, and guest memory as a shared memory file that the device can reach.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace soma {

constexpr const char* kQemuProgram = "qemu-system-x86_64";
constexpr const char* kQemuPackage = "qemu-system-x86";

struct QemuCommand {
  std::vector<std::string> words;
  std::string warning;  // empty: none
};
// `arguments` are the user's; `socket` is the descriptor that QEMU inherits. Errors have
// Fault::kConfig: what cannot be combined, and why.
base::Result<QemuCommand> qemu_command(const std::vector<std::string>& arguments, int socket);

// Bytes of the value of QEMU's -m ("512", "1.5G", "size=2G"), rounded up to 8 KiB as QEMU does.
base::Result<uint64_t> qemu_memory_bytes(const std::string& value);

// "silicon", "emulator", "qemu" or a number up to 255 (spec/hw-registers.md 1.2).
base::Result<uint8_t> pci_revision(const std::string& text);

}  // namespace soma
