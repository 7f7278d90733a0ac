#include "tools/soma/qemu_arguments.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace soma {
namespace {

constexpr const char* kMemoryId = "neuronmem";
constexpr const char* kDeviceId = "neuron0";
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kDefaultMemory = 512 * kMiB;
// Of the guest's memory; above it the hole that holds the BARs of 1.5 GiB begins.
constexpr uint64_t kBelowHole = 2048 * kMiB;
constexpr uint64_t kMemoryUnit = 8192;       // QEMU's own rounding
constexpr uint64_t kMaxMemory = 1ull << 44;  // the device's window to host memory (v2)
constexpr uint32_t kMaxRevision = 0xFF;

base::Error refuse(const std::string& where, const std::string& what) {
  return {base::Fault::kConfig, 0, where, what};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Shift of a size suffix; QEMU takes them in both cases.
int suffix_shift(char suffix) {
  constexpr std::string_view kSuffixes = "bkmgtpe";
  const char lower =
      suffix >= 'A' && suffix <= 'Z' ? static_cast<char>(suffix - 'A' + 'a') : suffix;
  const size_t at = kSuffixes.find(lower);
  return at == std::string_view::npos ? -1 : static_cast<int>(at) * 10;
}

// What the user's arguments already say.
struct Seen {
  bool memory = false;
  uint64_t bytes = kDefaultMemory;
  bool accelerator = false;
  bool in_turn = false;  // its processors execute one at a time
  std::string several;   // the value of -smp that may mean more than one
  bool q35 = false;
  bool split = false;  // where memory goes on above 4 GiB
};

void look_at_accelerator(std::string_view value, Seen& seen) {
  const auto parts = split(value, ',');
  const bool in_turn = std::find(parts.begin(), parts.end(), "thread=single") != parts.end();
  seen.in_turn = in_turn && (!seen.accelerator || seen.in_turn);
  seen.accelerator = true;
}

base::Status look_at_machine(std::string_view value, Seen& seen) {
  for (const std::string_view part : split(value, ',')) {
    if (starts_with(part, "memory-backend=")) {
      return refuse("-machine memory-backend",
                    "the guest's memory must be the one that the device reaches; give its size "
                    "with -m instead");
    }
    if (part == "q35" || part == "type=q35" || starts_with(part, "pc-q35")) seen.q35 = true;
    if (starts_with(part, "accel=")) look_at_accelerator("", seen);
    if (starts_with(part, "max-ram-below-4g=")) seen.split = true;
  }
  return {};
}

base::Status look_at(std::string_view option, const std::string& value, Seen& seen) {
  if (option == "machine" || option == "M") return look_at_machine(value, seen);
  if (option == "accel") look_at_accelerator(value, seen);
  if (option == "smp" && value != "1" && value != "cpus=1") seen.several = value;
  if (option == "m") {
    auto bytes = qemu_memory_bytes(value);
    if (!bytes) return bytes.error();
    seen.memory = true;
    seen.bytes = *bytes;
  }
  if (option == "mem-path") {
    return refuse("-mem-path",
                  "the guest's memory must be the one that the device reaches; leave it out");
  }
  return {};
}

}  // namespace

base::Result<uint64_t> qemu_memory_bytes(const std::string& value) {
  std::string_view size = value;
  for (const std::string_view part : split(value, ',')) {
    if (starts_with(part, "slots=") || starts_with(part, "maxmem=")) {
      return refuse("-m " + value, "memory that is added later (slots, maxmem) is not supported");
    }
    if (starts_with(part, "size="))
      size = part.substr(5);
    else if (part != value)
      return refuse("-m " + value, "only a size is understood");
  }
  const auto bad = [&] {
    return refuse("-m " + value, "expected a size such as 512, 512M or 1.5G");
  };
  uint64_t whole = 0;
  const char* end = size.data() + size.size();
  auto [at, status] = std::from_chars(size.data(), end, whole);
  if (status != std::errc()) return bad();
  uint64_t fraction = 0;
  uint64_t scale = 1;
  if (at != end && *at == '.') {
    for (++at; at != end && *at >= '0' && *at <= '9' && scale < 1'000'000; ++at) {
      fraction = fraction * 10 + static_cast<uint64_t>(*at - '0');
      scale *= 10;
    }
    if (scale == 1) return bad();
  }
  const int shift = at == end ? 20 : suffix_shift(*at);
  if (shift < 0 || (at != end && at + 1 != end)) return bad();
  const unsigned __int128 scaled = (static_cast<unsigned __int128>(whole) * scale + fraction)
                                   << shift;
  if (scaled % scale != 0) return refuse("-m " + value, "this is no whole number of bytes");
  const unsigned __int128 bytes = (scaled / scale + kMemoryUnit - 1) / kMemoryUnit * kMemoryUnit;
  if (bytes == 0 || bytes > kMaxMemory) {
    return refuse("-m " + value, "a guest has more than no memory and at most 16T");
  }
  return static_cast<uint64_t>(bytes);
}

base::Result<QemuCommand> qemu_command(const std::vector<std::string>& arguments, int socket) {
  constexpr std::string_view kWithValue[] = {"machine", "M", "accel", "m", "mem-path", "smp"};
  // A kernel's command line may hold anything.
  constexpr std::string_view kOpaque[] = {"append", "name", "fw_cfg", "smbios"};
  Seen seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    if (option.size() < 2 || option[0] != '-') continue;
    option.remove_prefix(option[1] == '-' ? 2 : 1);  // QEMU takes both
    if (option == "enable-kvm") look_at_accelerator("", seen);
    if (option == "daemonize") {
      return refuse("-daemonize",
                    "the device ends with the process that was started; leave it out");
    }
    if (std::find(std::begin(kOpaque), std::end(kOpaque), option) != std::end(kOpaque)) ++i;
    if (std::find(std::begin(kWithValue), std::end(kWithValue), option) == std::end(kWithValue)) {
      continue;
    }
    if (i + 1 == arguments.size()) return refuse(arguments[i], "it needs a value");
    base::Status status = look_at(option, arguments[++i], seen);
    if (!status) return status.error();
  }
  // The proxy device of QEMU 7.2 answers one access at a time, and drops those that come meanwhile.
  if (seen.accelerator && !seen.in_turn && !seen.several.empty()) {
    return refuse("-smp " + seen.several,
                  "QEMU would lose accesses of one processor while another uses the device; choose "
                  "no accelerator or -accel tcg,thread=single, or see soma vfio-user");
  }
  const std::string size = std::to_string(seen.bytes);
  std::string machine = std::string("memory-backend=") + kMemoryId;
  if (seen.bytes > kBelowHole && !seen.split) machine += ",max-ram-below-4g=2G";
  // QEMU merges the options of several -machine, so the user's own stay as they are. Our device
  // comes first: its place on the bus then does not depend on the user's devices.
  QemuCommand command;
  if (seen.q35) {
    command.warning = "SeaBIOS finds no room for the BARs of 1.5 GiB on machine type q35; use pc";
  }
  command.words = {
      kQemuProgram,
      "-machine",
      machine,
      "-object",
      std::string("memory-backend-memfd,id=") + kMemoryId + ",size=" + size + ",share=on",
      "-device",
      std::string("x-pci-proxy-dev,id=") + kDeviceId + ",fd=" + std::to_string(socket)};
  if (!seen.accelerator) command.words.insert(command.words.end(), {"-accel", "tcg,thread=single"});
  if (!seen.memory) command.words.insert(command.words.end(), {"-m", "512M"});
  command.words.insert(command.words.end(), arguments.begin(), arguments.end());
  return command;
}

base::Result<uint8_t> pci_revision(const std::string& text) {
  if (text == "silicon") return uint8_t{0x00};
  if (text == "emulator") return uint8_t{0xF0};
  if (text == "qemu") return uint8_t{0xFF};
  const bool hex = starts_with(text, "0x") || starts_with(text, "0X");
  const char* begin = text.data() + (hex ? 2 : 0);
  const char* end = text.data() + text.size();
  uint32_t value = 0;
  const auto [at, status] = std::from_chars(begin, end, value, hex ? 16 : 10);
  if (status != std::errc() || at != end || value > kMaxRevision) {
    return refuse("--revision " + text,
                  "expected silicon, emulator, qemu or a number from 0 to 255 (0xFF)");
  }
  return static_cast<uint8_t>(value);
}

}  // namespace soma
