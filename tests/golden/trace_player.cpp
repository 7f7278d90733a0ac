// trace_player --gen v2|v3|v4 [--revision HEX] SCRIPT...: plays golden scripts to a machine, each
// to one of its own. One line per script and one summary; exit status 0, 1 when a script failed, 2
// for the command line. The machine has as many devices as the script names; all share host memory.
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/fd.h"
#include "hw/machine/machine.h"
#include "tests/golden/player.h"

namespace {

constexpr uint64_t kHostBytes = base::kGiB;                // used sparsely
constexpr base::Ps kLongestScript = 1000 * base::kPsPerS;  // simulated

class SharedMemory final : public pcie::HostMemory {
 public:
  SharedMemory() {
    auto fd = base::make_memfd("player", kHostBytes);
    if (!fd) throw std::runtime_error(fd.error().message());
    auto mapping = base::Mapping::map_shared(fd->get(), 0, kHostBytes, true);
    if (!mapping) throw std::runtime_error(mapping.error().message());
    bytes_ = std::move(*mapping);
  }
  uint8_t* direct(uint64_t phys, uint64_t length) override {
    return phys < kHostBytes && length <= kHostBytes - phys ? bytes_.data() + phys : nullptr;
  }
  bool read(uint64_t phys, base::ByteSpan to) override {
    const uint8_t* from = direct(phys, to.size());
    if (from != nullptr) std::memcpy(to.data(), from, to.size());
    return from != nullptr;
  }
  bool write(uint64_t phys, base::ConstByteSpan from) override {
    uint8_t* to = direct(phys, from.size());
    if (to != nullptr) std::memcpy(to, from.data(), from.size());
    return to != nullptr;
  }

 private:
  base::Mapping bytes_;
};

struct Options {
  std::string gen;
  uint8_t revision = 0;
  std::vector<std::string> scripts;
};

// What one script came to; passes from the process that played it as one line.
struct Outcome {
  bool passed = false;
  uint64_t writes = 0, reads = 0, simulated_us = 0;
  std::string failure;
};

struct Generation {
  const char* name;
  contract::Gen gen;
  uint16_t device_id;  // spec/hw-registers.md 1.1
};
constexpr Generation kGenerations[] = {{"v2", contract::Gen::kV2, 0x7164},
                                       {"v3", contract::Gen::kV3, 0x7364},
                                       {"v4", contract::Gen::kV4, 0x7564}};

const Generation* find_generation(const std::string& name) {
  for (const Generation& generation : kGenerations) {
    if (name == generation.name) return &generation;
  }
  return nullptr;
}

golden::Script load(const std::string& path, const Options& options) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return golden::ScriptReader(directory).read(file, golden::ScriptReader::For::kPlayer,
                                              {{"REVISION", options.revision}});
}

// spec/hw-registers.md 9.2: two windows per side.
void connect(const golden::Script& script, hw::MachineParams& params) {
  for (const golden::Script::Cable& cable : script.cables) {
    const uint32_t windows[2] = {cable.left ? 1u : 0u, cable.left ? 2u : 3u};
    for (const uint32_t window : windows) {
      params.chips[cable.a].neighbours[window] = cable.b;
      params.chips[cable.b].neighbours[window] = cable.a;
    }
  }
}

Outcome play(const std::string& path, const Generation& generation, const Options& options) {
  const golden::Script script = load(path, options);
  SharedMemory memory;
  hw::MachineParams params;
  params.revision = options.revision;
  params.chips.resize(script.devices);
  for (uint32_t c = 0; c < script.devices; ++c) {
    params.chips[c].gen = generation.gen;
    params.chips[c].device_id = generation.device_id;
    params.chips[c].routing_id = c;
    params.chips[c].host = &memory;
  }
  connect(script, params);
  hw::Machine machine(params);
  golden::Host host{{}, &memory, &machine.executor()};
  for (uint32_t c = 0; c < script.devices; ++c) host.devices.push_back(&machine.device(c));
  golden::Player player(host);
  golden::Played played;
  bool ended = false;
  machine.executor().spawn("player", [&] {
    played = player.play(script);
    ended = true;
  });
  machine.run_to_quiescence(kLongestScript);
  Outcome out{played.failure.empty(), played.writes, played.reads, machine.now() / base::kPsPerUs,
              played.failure};
  if (machine.error()) {
    out.failure = "the machine failed: " + machine.error()->message();
  } else if (!ended) {
    out.failure = "the script did not end";
  } else if (const uint64_t unknown = machine.access_log().total(hw::AccessLog::Kind::kUnknown);
             unknown != 0) {
    out.failure += (out.failure.empty() ? "" : "; ") + std::to_string(unknown) +
                   " accesses hit no register, the first " +
                   std::get<2>(machine.access_log().entries().begin()->first);
  }
  out.passed = out.failure.empty();
  return out;
}

void report(FILE* to, const Outcome& out) {
  std::fprintf(to, "%d %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", out.passed ? 1 : 0, out.writes,
               out.reads, out.simulated_us, out.failure.c_str());
}

Outcome received(FILE* from) {
  Outcome out{false, 0, 0, 0, "the player ended early"};
  int passed = 0;
  char failure[500] = {};
  if (std::fscanf(from, "%d %" SCNu64 " %" SCNu64 " %" SCNu64 "%499[^\n]", &passed, &out.writes,
                  &out.reads, &out.simulated_us, failure) >= 4) {
    out.passed = passed == 1;
    out.failure = failure[0] == ' ' ? failure + 1 : failure;
  }
  return out;
}

// A machine elaborates once per process, so each script is played in a process of its own.
Outcome play_apart(const std::string& path, const Generation& generation, const Options& options) {
  int ends[2];
  std::fflush(stdout);
  if (::pipe(ends) != 0) return {false, 0, 0, 0, "no pipe"};
  const pid_t child = ::fork();
  if (child < 0) return {false, 0, 0, 0, "no process"};
  if (child == 0) {
    ::close(ends[0]);
    FILE* to = ::fdopen(ends[1], "w");
    try {
      report(to, play(path, generation, options));
    } catch (const std::exception& e) {
      report(to, {false, 0, 0, 0, e.what()});
    }
    std::fclose(to);
    ::_exit(0);
  }
  ::close(ends[1]);
  FILE* from = ::fdopen(ends[0], "r");
  const Outcome out = received(from);
  std::fclose(from);
  ::waitpid(child, nullptr, 0);
  return out;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if ((word == "--gen" || word == "--revision") && i + 1 < argc) {
      const std::string value = argv[++i];
      if (word == "--gen") {
        options.gen = value;
        continue;
      }
      char* end = nullptr;
      const unsigned long revision = std::strtoul(value.c_str(), &end, 16);
      if (value.empty() || *end != '\0' || revision > 0xFF) return false;
      options.revision = static_cast<uint8_t>(revision);
    } else if (word[0] == '-') {
      return false;
    } else {
      options.scripts.push_back(word);
    }
  }
  return find_generation(options.gen) != nullptr && !options.scripts.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: trace_player --gen v2|v3|v4 [--revision HEX] SCRIPT...\n");
    return 2;
  }
  const Generation& generation = *find_generation(options.gen);
  uint64_t writes = 0, reads = 0;
  size_t passed = 0;
  for (const std::string& path : options.scripts) {
    const Outcome out = play_apart(path, generation, options);
    writes += out.writes;
    reads += out.reads;
    passed += out.passed ? 1 : 0;
    const std::string name = path.substr(path.rfind('/') + 1);
    std::printf("%s %s %-26s %7" PRIu64 " writes %6" PRIu64 " reads %10.3f ms%s%s\n",
                generation.name, out.passed ? "pass" : "FAIL", name.c_str(), out.writes, out.reads,
                static_cast<double>(out.simulated_us) / 1000.0, out.failure.empty() ? "" : "\n    ",
                out.failure.c_str());
  }
  std::printf("%s revision 0x%02X: %zu scripts, %zu passed, %zu failed; %" PRIu64
              " writes, %" PRIu64 " reads\n",
              generation.name, options.revision, options.scripts.size(), passed,
              options.scripts.size() - passed, writes, reads);
  return passed == options.scripts.size() ? 0 : 1;
}
