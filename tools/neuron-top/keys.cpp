#include "tools/neuron-top/keys.h"

#include <algorithm>
#include <cctype>

namespace neuron_top {
namespace {

constexpr char kEscape = 27;

// The sequence at `at`, behind the escape: its length, and the arrow that it is.
size_t read_sequence(std::string_view bytes, size_t at, std::vector<Press>& presses) {
  if (at >= bytes.size() || (bytes[at] != '[' && bytes[at] != 'O')) return 0;
  size_t end = at + 1;
  while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
  if (end == bytes.size()) return end - at;
  constexpr std::string_view kArrows = "ABCD";
  constexpr Key kKeys[] = {Key::kUp, Key::kDown, Key::kRight, Key::kLeft};
  const size_t arrow = kArrows.find(bytes[end]);
  if (end == at + 1 && arrow != std::string_view::npos) presses.push_back({kKeys[arrow], 0});
  return end + 1 - at;
}

void choose_tab(size_t tab, const std::vector<Tab>& tabs, State& state) {
  if (tab < tabs.size()) state.pid = tabs[tab].pid;
}

void apply_character(char character, const std::vector<Tab>& tabs, State& state) {
  const size_t tab = current_tab(state, tabs);
  const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  if (lower == 'q') state.quit = true;
  if (lower == 'f') state.tflops = !state.tflops;
  if (lower == 'x') state.pid = kAll;
  if (lower == 'a') choose_tab((tab + tabs.size() - 1) % tabs.size(), tabs, state);
  if (lower == 'd') choose_tab((tab + 1) % tabs.size(), tabs, state);
  if (lower >= '1' && lower <= '9') choose_tab(static_cast<size_t>(lower - '1'), tabs, state);
}

void toggle(const MemoryRow& row, State& state) {
  if (!row.has_children) return;
  if (!state.expanded.erase(row.key)) state.expanded.insert(row.key);
}

// Closes the node, or goes to the one that it is below.
void leave(const MemoryRow& row, State& state) {
  if (state.expanded.erase(row.key) != 0) return;
  const size_t slash = row.key.rfind('/');
  if (slash != std::string::npos) state.selected = row.key.substr(0, slash);
}

}  // namespace

std::vector<Press> decode(std::string_view bytes) {
  std::vector<Press> presses;
  for (size_t at = 0; at < bytes.size();) {
    const char byte = bytes[at++];
    if (byte == kEscape) {
      at += read_sequence(bytes, at, presses);
    } else if (byte == '\r' || byte == '\n') {
      presses.push_back({Key::kEnter, 0});
    } else if (byte > ' ' && byte <= '~') {
      presses.push_back({Key::kCharacter, byte});
    }
  }
  return presses;
}

std::vector<Tab> tabs_of(const neuron_monitor::Sample& sample) {
  std::vector<Tab> tabs{{kAll, "all"}};
  for (const neuron_monitor::Application& application : sample.applications) {
    tabs.push_back({application.pid, application.tag});
  }
  return tabs;
}

size_t current_tab(const State& state, const std::vector<Tab>& tabs) {
  for (size_t i = 0; i < tabs.size(); ++i) {
    if (tabs[i].pid == state.pid) return i;
  }
  return 0;
}

size_t selected_row(const State& state, const std::vector<MemoryRow>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].key == state.selected) return i;
  }
  return 0;
}

void apply(const Press& press, const std::vector<Tab>& tabs, const std::vector<MemoryRow>& rows,
           State& state) {
  if (press.key == Key::kCharacter) return apply_character(press.character, tabs, state);
  if (rows.empty()) return;
  const size_t row = selected_row(state, rows);
  state.selected = rows[row].key;
  switch (press.key) {
    case Key::kUp:
      state.selected = rows[row == 0 ? 0 : row - 1].key;
      break;
    case Key::kDown:
      state.selected = rows[std::min(row + 1, rows.size() - 1)].key;
      break;
    case Key::kRight:
      if (rows[row].has_children) state.expanded.insert(rows[row].key);
      break;
    case Key::kLeft:
      leave(rows[row], state);
      break;
    default:
      toggle(rows[row], state);
  }
}

}  // namespace neuron_top
