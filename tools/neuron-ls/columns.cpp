#include "tools/neuron-ls/columns.h"

#include <algorithm>
#include <functional>

#include "tools/neuron-ls/table.h"

namespace neuron_ls {
namespace {

using neuron_host::Device;
using neuron_host::Devices;
using neuron_host::Process;

constexpr uint64_t kGiB = 1ull << 30;

struct Column {
  const char* first;
  const char* second;
  std::function<std::string(const Device&)> of_device;    // once per device
  std::function<std::string(const Process&)> of_process;  // or once per process
};

std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

std::string range(uint32_t first, uint32_t count) {
  const std::string start = std::to_string(first);
  return count <= 1 ? start : start + "-" + std::to_string(first + count - 1);
}

std::string without_domain(const std::string& bdf) {
  const size_t colon = bdf.find(':');
  return colon == std::string::npos ? bdf : bdf.substr(colon + 1);
}

std::vector<const Process*> shown_processes(const Device& device, View view) {
  std::vector<const Process*> shown;
  for (const Process& process : device.processes) {
    if (view == View::kAll || process.uses_runtime()) shown.push_back(&process);
  }
  return shown;
}

class Columns {
 public:
  Columns(const Devices& devices, View view) : devices_(devices), view_(view) {}

  std::vector<Column> choose() {
    const bool full = view_ == View::kDefault;
    add_device();
    if (full) add_core_ids();
    add_memory();
    const auto bdf = [full](const Device& d) { return full ? d.bdf : without_domain(d.bdf); };
    columns_.push_back({"PCI", "BDF", bdf, {}});
    const bool with_processes = full && any_process();
    const auto pid = [](const Process& p) { return std::to_string(p.pid); };
    if (with_processes || view_ == View::kWide || view_ == View::kAll) {
      columns_.push_back({"PID", "", {}, pid});
    }
    if (full) add_place();
    if (view_ == View::kWide) add_command(kWideCommand);
    if (view_ == View::kAll) add_command(kShortCommand);
    if (with_processes || view_ == View::kWide || view_ == View::kAll) {
      columns_.push_back({"RUNTIME", "VERSION", {}, [](const Process& p) {
                            return p.uses_runtime() ? p.runtime_version : "NA";
                          }});
    }
    return std::move(columns_);
  }

 private:
  bool any_process() const {
    for (const Device& device : devices_.all) {
      if (!shown_processes(device, view_).empty()) return true;
    }
    return false;
  }
  void add_device() {
    columns_.push_back(
        {"NEURON", "DEVICE", [](const Device& d) { return std::to_string(d.index); }, {}});
    columns_.push_back({"NEURON",
                        "CORES",
                        [&devices = devices_](const Device& d) {
                          return std::to_string(devices.logical_cores(d));
                        },
                        {}});
  }
  void add_core_ids() {
    columns_.push_back({"NEURON",
                        "CORE IDS",
                        [&devices = devices_](const Device& d) {
                          return range(devices.first_core(d), devices.logical_cores(d));
                        },
                        {}});
  }
  void add_memory() {
    columns_.push_back({"NEURON",
                        "MEMORY",
                        [](const Device& d) { return std::to_string(d.memory / kGiB) + " GB"; },
                        {}});
    bool linked = false;
    for (const Device& device : devices_.all) linked = linked || !device.neighbours.empty();
    if (!linked) return;
    columns_.push_back(
        {"CONNECTED", "DEVICES", [](const Device& d) { return listed(d.neighbours); }, {}});
  }
  void add_place() {
    columns_.push_back({"CPU", "AFFINITY", [](const Device& d) { return d.cpu_affinity; }, {}});
    columns_.push_back(
        {"NUMA", "NODE", [](const Device& d) { return std::to_string(d.numa_node); }, {}});
  }
  void add_command(size_t limit) {
    columns_.push_back({"COMMAND", "", {}, [limit](const Process& p) {
                          return neuron_host::shortened(p.command, limit);
                        }});
  }

  const Devices& devices_;
  View view_;
  std::vector<Column> columns_;
};

}  // namespace

std::string heading(const neuron_host::Instance& instance, const Devices& devices) {
  std::string text = "instance-type: " + instance.type + "\ninstance-id: " + instance.id + "\n";
  if (devices.has_logical) {
    text += "logical-neuroncore-config: " + std::to_string(devices.logical_size) + "\n";
  }
  return text;
}

std::string table(const Devices& devices, View view) {
  const std::vector<Column> columns = Columns(devices, view).choose();
  Table table;
  for (const Column& column : columns) table.add_column(column.first, column.second);
  for (const Device& device : devices.all) {
    const std::vector<const Process*> processes = shown_processes(device, view);
    const size_t lines = view == View::kTopology ? 1 : std::max<size_t>(1, processes.size());
    for (size_t line = 0; line < lines; ++line) {
      std::vector<std::string> cells;
      for (const Column& column : columns) {
        if (column.of_device) {
          cells.push_back(line == 0 ? column.of_device(device) : "");
        } else {
          cells.push_back(line < processes.size() ? column.of_process(*processes[line]) : "");
        }
      }
      table.add_row(std::move(cells));
    }
    if (view == View::kAll) table.add_rule();
  }
  return table.text();
}

}  // namespace neuron_ls
