// What a platform file says of other people's code: blocks in chips, and policies in place of
// built-in ones. Source of truth: data/schema/platform.schema.json, docs/blocks.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/config/decimal.h"

namespace config {

using ParameterTexts = std::map<std::string, std::string>;

struct Block {
  struct Window {
    std::string socket;
    std::optional<uint64_t> address;  // in the chip; none: behind the window before
    uint64_t size = 0;
  };
  struct Initiator {
    std::string socket;
    std::optional<Ratio> gbps;
    uint32_t packet_bytes = 4096;
    std::optional<uint32_t> core;
  };
  struct Line {
    std::string port;
    uint32_t core = 0;
    uint32_t semaphore = 0;
  };
  std::string name;
  std::string library;  // a path, or a name that the dynamic linker finds
  std::string type;
  std::vector<uint32_t> chips;
  std::vector<Window> windows;
  std::vector<Initiator> initiators;
  std::vector<Line> semaphores;
  ParameterTexts parameters;
  bool background = false;
};

// A built-in policy by name, or one of a library by its type.
struct Policy {
  std::string name;
  std::string library;
  ParameterTexts parameters;

  bool given() const { return !name.empty(); }
};

struct Policies {
  Policy dma_queues;
  Policy links;
  Policy routing;
  Policy switch_port;

  bool any() const {
    return dma_queues.given() || links.given() || routing.given() || switch_port.given();
  }
};

}  // namespace config
