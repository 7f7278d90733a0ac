// The screen as lines of text (spec/tools.md 4.2). Pure: tests read what people would see.
#pragma once

#include <string>
#include <vector>

#include "tools/neuron-top/keys.h"
#include "tools/neuron_host/instance.h"

namespace neuron_top {

struct Look {
  size_t columns = 80;
  size_t rows = 24;
  bool colour = true;
  bool utf8 = true;
};

struct Picture {
  const neuron_host::Instance& instance;
  const neuron_host::Devices& devices;
  const Figures& figures;
  const std::vector<Tab>& tabs;
  const std::vector<MemoryRow>& rows;
  const State& state;
};

// At most look.rows lines of at most look.columns columns. Where devices or the tree do not fit,
// the part around the selected row is shown.
std::vector<std::string> draw(const Picture& picture, const Look& look);

}  // namespace neuron_top
