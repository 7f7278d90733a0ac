// Keys, and what they do to what is shown (spec/tools.md 4.3).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/neuron-top/figures.h"
#include "tools/neuron-top/memory_tree.h"

namespace neuron_top {

enum class Key { kUp, kDown, kLeft, kRight, kEnter, kCharacter };

struct Press {
  Key key = Key::kCharacter;
  char character = 0;
};

// Bytes that a terminal sent; sequences that mean nothing here are left out.
std::vector<Press> decode(std::string_view bytes);

struct Tab {
  pid_t pid = kAll;
  std::string name;  // the process's label
};

// "all", then a tab for each process, in the order of their ids.
std::vector<Tab> tabs_of(const neuron_monitor::Sample& sample);

struct State {
  pid_t pid = kAll;      // of the tab
  bool tflops = false;   // instead of percent
  std::string selected;  // key of a row of the tree; empty: its first
  std::set<std::string> expanded;
  bool quit = false;
};

size_t current_tab(const State& state, const std::vector<Tab>& tabs);
// The selected row's place among those visible; 0 if it has gone.
size_t selected_row(const State& state, const std::vector<MemoryRow>& rows);
void apply(const Press& press, const std::vector<Tab>& tabs, const std::vector<MemoryRow>& rows,
           State& state);

}  // namespace neuron_top
