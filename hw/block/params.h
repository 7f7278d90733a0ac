// A block that others wrote, as the platform file puts it into chips (docs/blocks.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"

namespace soma {
struct BlockType;
}

namespace hw {

struct BlockWindow {
  std::string socket;
  uint64_t device = 0;  // address in the chip
  uint64_t size = 0;
};

struct BlockInitiator {
  std::string socket;
  base::Rate rate;               // of its port
  uint32_t packet_bytes = 4096;  // reserved of a path at once
  uint32_t core = ~0u;           // beside whose memory it sits; ~0: beside none
};

struct BlockLine {
  std::string port;  // sc_out<bool>
  uint32_t core = 0;
  uint32_t semaphore = 0;  // incremented at each rising edge
};

struct BlockParams {
  std::string name;
  const soma::BlockType* type = nullptr;
  std::vector<uint32_t> chips;  // platform-wide numbers
  std::vector<BlockWindow> windows;
  std::vector<BlockInitiator> initiators;
  std::vector<BlockLine> lines;
  std::map<std::string, std::string> parameters;
  bool background = false;  // never keeps the machine from rest
};

}  // namespace hw
