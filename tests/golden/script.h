// Scripts of accesses to a device (README.md has the format): the reader, and the accesses of a
// script that a driver's own log can be compared with. Source of the scripts:
// spec/hw-registers.md 10.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace golden {

enum class Op : uint8_t {
  kWrite,        // W, write
  kRead,         // R, expect
  kReadReady,    // RNO: read until the value is not 0xDEADBEEF (spec/hw-registers.md 7.3)
  kPoll,         // P, poll: read until the value is the expected one
  kConfigRead,   // config read
  kConfigWrite,  // config write
  kMemWrite,     // host write, hbm write, desc
  kMemExpect,    // host expect, hbm expect
  kMemPoll,      // host poll
  kMemFill,      // host fill, hbm fill
  kMemCheck,     // host check, hbm check
  kWait,
  kCount,   // start of what totals counts
  kTotals,  // W and R lines since then
};

// What a line says about a value: any, or equal under a mask.
struct Expected {
  bool any = false;
  uint32_t value = 0;
  uint32_t mask = ~0u;

  bool accepts(uint32_t got) const { return any || (got & mask) == (value & mask); }
};

struct Step {
  Op op = Op::kWait;
  bool driver = false;   // an access that a driver makes too, not only the player
  bool hbm = false;      // memory steps: BAR 4 instead of host memory
  uint32_t device = 0;   // which device of the machine
  uint64_t address = 0;  // offset in the register BAR, config space or memory
  Expected value;
  unsigned size = 4;             // config accesses, bytes
  std::array<uint32_t, 8> data;  // memory writes and comparisons
  uint32_t words = 0;            // of data
  uint64_t length = 0;           // fill and check, bytes
  base::Ps period = 0;           // polls; wait: the time
  base::Ps limit = 0;
  uint64_t writes = 0, reads = 0;  // totals
  uint32_t place = 0;              // of Script::places: the file
  uint32_t line = 0;
};

struct Script {
  // One file that was read, and the line of another that asked for it.
  struct Place {
    std::string file;
    uint32_t from = 0;  // the script itself is place 0
    uint32_t line = 0;
  };
  // Both ends name a cable between two nodes alike (spec/hw-registers.md 9.5).
  struct Cable {
    bool left = false;
    uint32_t a = 0, b = 0;  // devices
  };
  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<Cable> cables;
  uint32_t devices = 1;

  // "engine.trace:2 (from reset.trace:9, bring_up.trace:3)"
  std::string where(const Step& step) const;
};

// Names of a script; without a value, everything computed from one is "any".
using Names = std::map<std::string, std::optional<uint64_t>>;

// Reads scripts of one directory.
class ScriptReader {
 public:
  enum class For {
    kPlayer,      // every step; `memory` lines say where host memory is
    kComparison,  // what a driver does; host memory is wherever the driver put it
  };
  explicit ScriptReader(std::string directory) : directory_(std::move(directory)) {}

  // Throws std::runtime_error with file and line.
  Script read(const std::string& file, For reader, const Names& names = {});

 private:
  struct Line {
    uint32_t number = 0;
    std::vector<std::string> words;
  };
  struct Frame;

  const std::vector<Line>& lines_of(const std::string& file);
  void append(Script::Place place, Names names, bool driver, Script& script);
  void run(Frame& frame, size_t begin, size_t end);
  size_t repeat(Frame& frame, size_t at, size_t end);
  void insert(Frame& frame, const Line& line);
  bool declare(Frame& frame, const Line& line);

  std::string directory_;
  For for_ = For::kPlayer;
  uint32_t device_ = 0;
  uint32_t depth_ = 0;
  std::map<std::string, std::vector<Line>> cache_;
};

}  // namespace golden
