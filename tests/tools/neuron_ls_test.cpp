// Tables, drawings and JSON of neuron-ls (spec/tools.md 3, spec/clients.md 3.1).
#include <gtest/gtest.h>

#include "base/json.h"
#include "tools/neuron-ls/columns.h"
#include "tools/neuron-ls/json.h"
#include "tools/neuron-ls/topology.h"

namespace {

using neuron_host::Device;
using neuron_host::Devices;
using neuron_ls::View;

constexpr uint64_t kGiB = 1ull << 30;

// The first two devices of the published sample.
Devices sample() {
  Devices devices;
  devices.has_logical = true;
  devices.logical_size = 2;
  for (int i = 0; i < 2; ++i) {
    Device device;
    device.index = i;
    device.architecture = 3;
    device.bdf = "0000:1" + std::to_string(i) + ":00.0";
    device.cpu_affinity = "0-47";
    device.numa_node = 0;
    device.neighbours = i == 0 ? std::vector<int>{12, 3, 4, 1} : std::vector<int>{13, 0, 5, 2};
    device.memory = 96 * kGiB;
    device.cores = 8;
    devices.all.push_back(device);
  }
  return devices;
}

Devices ring_of(size_t count, bool closed) {
  Devices devices;
  for (size_t i = 0; i < count; ++i) {
    Device device;
    device.index = static_cast<int>(i);
    if (closed || i > 0) device.neighbours.push_back(static_cast<int>((i + count - 1) % count));
    if (closed || i + 1 < count) device.neighbours.push_back(static_cast<int>((i + 1) % count));
    devices.all.push_back(device);
  }
  return devices;
}

TEST(NeuronLs, TheTableOfTheSample) {
  EXPECT_EQ(neuron_ls::heading({"trn2.48xlarge", "i-0123456789abcdef0"}, sample()),
            "instance-type: trn2.48xlarge\n"
            "instance-id: i-0123456789abcdef0\n"
            "logical-neuroncore-config: 2\n");
  EXPECT_EQ(
      neuron_ls::table(sample(), View::kDefault),
      "+--------+--------+----------+--------+-------------+--------------+----------+------+\n"
      "| NEURON | NEURON |  NEURON  | NEURON |  CONNECTED  |     PCI      |   CPU    | NUMA |\n"
      "| DEVICE | CORES  | CORE IDS | MEMORY |   DEVICES   |     BDF      | AFFINITY | NODE |\n"
      "+--------+--------+----------+--------+-------------+--------------+----------+------+\n"
      "| 0      | 4      | 0-3      | 96 GB  | 12, 3, 4, 1 | 0000:10:00.0 | 0-47     | 0    |\n"
      "| 1      | 4      | 4-7      | 96 GB  | 13, 0, 5, 2 | 0000:11:00.0 | 0-47     | 0    |\n"
      "+--------+--------+----------+--------+-------------+--------------+----------+------+\n");
}

TEST(NeuronLs, DevicesWithoutNeighboursHaveNoColumnForThem) {
  Devices devices = sample();
  devices.all.resize(1);
  devices.all[0].neighbours.clear();
  EXPECT_EQ(neuron_ls::table(devices, View::kDefault).find("CONNECTED"), std::string::npos);
  EXPECT_TRUE(base::parse_json(neuron_ls::json({}, devices))[0]["connected_to"].is_null());
}

TEST(NeuronLs, ProcessesStandOnRowsOfTheirOwn) {
  Devices devices = sample();
  devices.all[0].processes = {{41, "python train.py", "2.31.0"},
                              {42, std::string(100, 'x'), "2.31.0"},
                              {43, "neuron-ls -a", ""}};
  const std::string text = neuron_ls::table(devices, View::kDefault);
  EXPECT_NE(text.find("| 0      | 4      | 0-3      | 96 GB  | 12, 3, 4, 1 | 0000:10:00.0 | 41  | "
                      "0-47     | 0    | 2.31.0  |\n"
                      "|        |        |          |        |             |              | 42  | "
                      "         |      | 2.31.0  |\n| 1 "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("43"), std::string::npos) << "it does not use the runtime";
  const std::string wide = neuron_ls::table(devices, View::kWide);
  EXPECT_NE(wide.find("| " + std::string(77, 'x') + "... |"), std::string::npos) << wide;
  const std::string all = neuron_ls::table(devices, View::kAll);
  EXPECT_NE(all.find("| " + std::string(37, 'x') + "... |"), std::string::npos) << all;
  EXPECT_NE(all.find("| neuron-ls -a                             | NA      |\n+---"),
            std::string::npos)
      << all;
}

TEST(NeuronLs, KeysOfJsonInTheirOrder) {
  const auto parsed = base::parse_ordered_json(neuron_ls::json({"trn2.48xlarge", "i-0"}, sample()));
  ASSERT_EQ(parsed.size(), 2u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : parsed[1].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"instance_type", "instance_id", "neuron_device", "bdf",
                                            "cpu_affinity", "numa_node", "connected_to", "nc_count",
                                            "logical_neuroncore_config", "memory_size",
                                            "neuroncore_ids", "neuron_processes"}));
  EXPECT_EQ(parsed[1]["neuroncore_ids"], (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(parsed[1]["numa_node"], "0");
  EXPECT_EQ(parsed[1]["memory_size"], 103079215104);
}

TEST(NeuronLs, ARingIsOneRowWithWrapMarks) {
  EXPECT_EQ(neuron_ls::topology(ring_of(3, true)),
            "\n\nNeuron Device Topology\n"
            "*\u2013\u2013\u25BA[ 0 ]\u25C4\u2013\u2013\u25BA[ 1 ]\u25C4\u2013\u2013\u25BA[ 2 ]"
            "\u25C4\u2013\u2013*\n"
            "\nLegend:\n\n         *\u2013\u2013\u25BA = Wrap-around link\n");
}

TEST(NeuronLs, AChainHasNoLegend) {
  EXPECT_EQ(neuron_ls::topology(ring_of(3, false)),
            "\n\nNeuron Device Topology\n"
            "[ 0 ]\u25C4\u2013\u2013\u25BA[ 1 ]\u25C4\u2013\u2013\u25BA[ 2 ]\n");
  EXPECT_EQ(neuron_ls::topology(ring_of(1, false)), "\n\nNeuron Device Topology\n[ 0 ]\n");
}

TEST(NeuronLs, RowsOfATorus) {
  Devices devices = ring_of(16, false);
  for (int d = 0; d < 16; ++d) {
    const int row = d / 4 * 4;
    devices.all[static_cast<size_t>(d)].neighbours = {(d + 12) % 16, row + (d + 3) % 4,
                                                      (d + 4) % 16, row + (d + 1) % 4};
  }
  const std::string text = neuron_ls::topology(devices);
  EXPECT_NE(text.find("\n*\u2013\u2013\u25BA[ 8 ]\u25C4\u2013\u2013\u25BA[ 9 ]\u25C4\u2013\u2013"
                      "\u25BA[10 ]\u25C4\u2013\u2013\u25BA[11 ]\u25C4\u2013\u2013*\n"
                      "      \u25B2        \u25B2        \u25B2        \u25B2\n"
                      "      \u2502        \u2502        \u2502        \u2502\n"
                      "      \u25BC        \u25BC        \u25BC        \u25BC\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Topology\n      *        *        *        *\n"), std::string::npos);
  EXPECT_NE(text.find("      *        *        *        *\n\nLegend"), std::string::npos);
}

TEST(NeuronLs, OtherGraphsAreLists) {
  Devices devices = ring_of(4, false);
  devices.all[0].neighbours = {1, 2, 3};
  EXPECT_NE(neuron_ls::topology(devices).find("[ 0 ] \u2013\u2013\u25BA 1, 2, 3\n"),
            std::string::npos);
}

}  // namespace
