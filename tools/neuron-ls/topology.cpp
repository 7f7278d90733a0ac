#include "tools/neuron-ls/topology.h"

#include <algorithm>
#include <set>

namespace neuron_ls {
namespace {

using neuron_host::Device;
using neuron_host::Devices;

// The characters of the drawing, in UTF-8.
constexpr char kLeft[] = "\xE2\x97\x84";
constexpr char kRight[] = "\xE2\x96\xBA";
constexpr char kUp[] = "\xE2\x96\xB2";
constexpr char kDown[] = "\xE2\x96\xBC";
constexpr char kDash[] = "\xE2\x80\x93";
constexpr char kBar[] = "\xE2\x94\x82";

constexpr size_t kWrap = 4;   // columns of *-->
constexpr size_t kPitch = 9;  // from one node to the next

std::string dashes() {
  return std::string(kDash) + kDash;
}

std::string node(int index) {
  const std::string number = std::to_string(index);
  return number.size() < 2 ? "[ " + number + " ]" : "[" + number + " ]";
}

// A mark under each node of a row.
std::string marks(size_t columns, const char* mark) {
  std::string line(kWrap + 2, ' ');
  for (size_t c = 0; c < columns; ++c) {
    line += mark;
    if (c + 1 < columns) line += std::string(kPitch - 1, ' ');
  }
  return line + "\n";
}

std::string row(const std::vector<int>& nodes, bool wraps) {
  std::string line = wraps ? "*" + dashes() + kRight : "";
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i > 0) line += kLeft + dashes() + kRight;
    line += node(nodes[i]);
  }
  if (wraps) line += kLeft + dashes() + "*";
  return line + "\n";
}

using Links = std::set<int>;

Links torus_links(size_t device, size_t rows, size_t columns) {
  const size_t r = device / columns;
  const size_t c = device % columns;
  const size_t places[] = {(r + rows - 1) % rows * columns + c, (r + 1) % rows * columns + c,
                           r * columns + (c + columns - 1) % columns,
                           r * columns + (c + 1) % columns};
  Links links;
  for (const size_t place : places) {
    if (place != device) links.insert(static_cast<int>(place));
  }
  return links;
}

Links chain_links(size_t device, size_t count) {
  Links links;
  if (device > 0) links.insert(static_cast<int>(device) - 1);
  if (device + 1 < count) links.insert(static_cast<int>(device) + 1);
  return links;
}

// Whether each device has exactly the links that `expected` gives it.
template <typename Expected>
bool linked_as(const Devices& devices, Expected expected) {
  for (size_t d = 0; d < devices.all.size(); ++d) {
    const Device& device = devices.all[d];
    if (device.index != static_cast<int>(d)) return false;
    if (Links(device.neighbours.begin(), device.neighbours.end()) != expected(d)) return false;
  }
  return true;
}

// Columns of the torus that the devices are, the fewest rows that fit last; 0: they are none.
size_t torus_columns(const Devices& devices) {
  const size_t count = devices.all.size();
  for (size_t rows = 1; rows <= count; ++rows) {
    if (count % rows != 0) continue;
    const size_t columns = count / rows;
    if (columns > 2 &&
        linked_as(devices, [&](size_t d) { return torus_links(d, rows, columns); })) {
      return columns;
    }
  }
  return 0;
}

std::vector<int> indexes(size_t first, size_t count) {
  std::vector<int> all;
  for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int>(first + i));
  return all;
}

std::string torus(size_t count, size_t columns) {
  const size_t rows = count / columns;
  std::string out;
  if (rows > 1) out += marks(columns, "*") + marks(columns, kBar) + marks(columns, kDown);
  for (size_t r = 0; r < rows; ++r) {
    out += row(indexes(r * columns, columns), true);
    if (r + 1 < rows) out += marks(columns, kUp) + marks(columns, kBar) + marks(columns, kDown);
  }
  if (rows > 1) out += marks(columns, kUp) + marks(columns, kBar) + marks(columns, "*");
  return out + "\nLegend:\n\n         *" + dashes() + kRight + " = Wrap-around link\n";
}

std::string neighbour_list(const Devices& devices) {
  std::string out;
  for (const Device& device : devices.all) {
    std::string others;
    for (const int other : device.neighbours) {
      others += (others.empty() ? " " + dashes() + kRight + " " : ", ") + std::to_string(other);
    }
    out += node(device.index) + others + "\n";
  }
  return out;
}

}  // namespace

std::string topology(const Devices& devices) {
  const std::string title = "\n\nNeuron Device Topology\n";
  const size_t count = devices.all.size();
  if (const size_t columns = torus_columns(devices)) return title + torus(count, columns);
  if (linked_as(devices, [&](size_t d) { return chain_links(d, count); })) {
    return title + row(indexes(0, count), false);
  }
  return title + neighbour_list(devices);
}

}  // namespace neuron_ls
