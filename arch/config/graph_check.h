// What the schema cannot say of a platform file. Private to this room.
#pragma once

#include "arch/config/json_file.h"
#include "arch/config/platform.h"

namespace config {

// The first breach, with file and line: chips are those of their generation, ids and local ids
// count up from 0, PCI addresses of a node differ, neighbours are mutual and joined, edges are
// those of the topology's kind, chips of one node reach each other.
base::Status check_graph(const JsonFile& file, const Platform& platform);

}  // namespace config
