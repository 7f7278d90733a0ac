// Several hosts on one machine: nodes of an ultraserver, each with host memory and a driver of its
// own. Devices of node n are those of the platform file, or a change of it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/config/platform.h"
#include "arch/config/timing.h"
#include "contract/regs/misc.h"
#include "driver/kernel/host_arena.h"
#include "driver/kernel/kernel_driver.h"
#include "driver/uapi/requests.h"
#include "hw/link/links.h"
#include "hw/machine/chip.h"
#include "hw/machine/machine.h"
#include "sim/machine_params.h"
#include "tests/driver_kernel/driver_bench.h"

namespace e2e {

namespace misc = contract::misc;
namespace uapi = driver::uapi;
using contract::Gen;

// The first `nodes` servers of the Trainium2 ultraserver, with the cables between them.
inline config::Platform ultraserver(uint32_t nodes) {
  config::Platform platform = std::move(*config::load_platform("trn2-ultraserver"));
  const size_t chips = platform.chips.size() / platform.nodes.size() * nodes;
  platform.nodes.resize(nodes);
  platform.chips.resize(chips);
  const auto gone = [chips](uint32_t id) { return id >= chips; };
  for (config::Chip& chip : platform.chips) {
    auto& z = chip.connected_to_z;
    z.erase(std::remove_if(z.begin(), z.end(), gone), z.end());
  }
  auto& edges = platform.edges;
  edges.erase(
      std::remove_if(edges.begin(), edges.end(), [&](const config::Edge& e) { return gone(e.b); }),
      edges.end());
  return platform;
}

struct ClusterOptions {
  Gen gen = Gen::kV3;
  uint32_t nodes = 4;
  uint32_t devices = 16;  // per node
  std::string product = "trn2u.48xlarge";
  std::function<void(hw::MachineParams&)> change;
};

class Cluster {
 public:
  static constexpr base::Ps kLong = 5000 * base::kPsPerS;

  explicit Cluster(const ClusterOptions& options = {})
      : options_(options), hosts_(make_hosts(options.nodes)), machine(params(options, hosts_)) {
    drivers_.resize(options.nodes);
    logs.resize(options.nodes);
  }
  ~Cluster() {
    for (uint32_t n = 0; n < options_.nodes; ++n) unload(n);
  }

  uint32_t chip(uint32_t node, uint32_t device) const { return node * options_.devices + device; }
  // Loads the driver of a node; what it does happens in run().
  void load(uint32_t node) {
    std::vector<driver::DevicePlace> slots;
    for (uint32_t d = 0; d < options_.devices; ++d) {
      driver::DevicePlace slot;
      slot.device =
          tap != nullptr && tapped == chip(node, d) ? tap : &machine.device(chip(node, d));
      slot.location.bus = 16 + d;
      slots.push_back(slot);
    }
    driver::Params params;
    params.product_name = options_.product;
    params.log = [this, node](const std::string& line) { logs[node].push_back(line); };
    drivers_[node] =
        std::make_unique<driver::KernelDriver>(slots, *hosts_[node], machine.executor(), params);
    drivers_[node]->start();
  }
  void load_all() {
    for (uint32_t n = 0; n < options_.nodes; ++n) load(n);
    run();
  }
  void unload(uint32_t node) {
    if (drivers_[node] == nullptr) return;
    task([&] { drivers_[node]->remove(); });
    drivers_[node].reset();
  }
  void run() { EXPECT_EQ(machine.run_to_quiescence(kLong), hw::RunOutcome::kQuiescent); }
  void task(std::function<void()> body) {
    machine.executor().spawn("test", std::move(body));
    run();
  }
  driver::KernelDriver& driver(uint32_t node) { return *drivers_[node]; }
  const driver::Pod& pod(uint32_t node) { return driver(node).election().pod(); }
  uint32_t word(uint32_t node, uint32_t device, uint32_t offset) {
    pcie::Device& pci = machine.device(chip(node, device));
    const uint32_t command = pci.config_read(4, 2);
    pci.config_write(4, 2, command | 2);
    const contract::AddressMap map{options_.gen};
    return pci.read32(0, map.misc_ram().bar0 + offset);
  }
  void set_word(uint32_t chip, uint32_t offset, uint32_t value) {
    machine.device(chip).config_write(4, 2, 6);
    machine.device(chip).write32(0, contract::AddressMap{options_.gen}.misc_ram().bar0 + offset,
                                 value);
  }
  std::string sysfs(uint32_t node, const std::string& file) {
    auto text = driver(node).sysfs_read("/sys/class/neuron_device/" + file);
    return text ? *text : "absent";
  }
  bool logged(uint32_t node, const std::string& text) const {
    for (const std::string& line : logs[node]) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

  driver::Caller caller() { return {kTgid, kTgid, &memory_}; }
  int open(uint32_t node, int minor = 0, int flags = O_WRONLY) {
    int file = 0;
    task([&] {
      auto opened = driver(node).open(minor, flags, caller());
      file = opened ? *opened : -opened.error().code;
    });
    return file;
  }
  template <typename T>
  int ioctl(uint32_t node, int file, uint32_t request, T& arg) {
    int result = -1;
    task([&] {
      result = driver(node).ioctl(file, request, driver_test::address_of(arg), caller());
    });
    return result;
  }

  // A device seen through something else, set before load().
  pcie::Device* tap = nullptr;
  uint32_t tapped = 0;
  std::vector<std::vector<std::string>> logs;  // kernel log by node

  static constexpr int32_t kTgid = 100;

 private:
  using Hosts = std::vector<std::unique_ptr<driver::HostArena>>;
  static Hosts make_hosts(uint32_t nodes) {
    Hosts hosts;
    for (uint32_t n = 0; n < nodes; ++n) {
      hosts.push_back(std::move(*driver::HostArena::create(4 * base::kGiB)));
    }
    return hosts;
  }
  static hw::MachineParams params(const ClusterOptions& options, const Hosts& hosts) {
    std::vector<pcie::HostMemory*> memory;
    for (const auto& host : hosts) memory.push_back(host.get());
    hw::MachineParams p =
        sim::machine_params(ultraserver(options.nodes), *config::Timing::load("trn2"), memory);
    if (options.devices != 16) {
      p.links.clear();
      p.chips.resize(options.devices);
      for (hw::ChipParams& chip : p.chips) chip.neighbours.fill(hw::kNoNeighbour);
    }
    for (hw::ChipParams& chip : p.chips) {
      chip.gen = options.gen;
      if (options.gen == Gen::kV4) chip.device_id = 0x7564;
    }
    if (options.change) options.change(p);
    return p;
  }

  ClusterOptions options_;
  driver_test::SelfMemory memory_;
  Hosts hosts_;
  std::vector<std::unique_ptr<driver::KernelDriver>> drivers_;

 public:
  hw::Machine machine;
};

}  // namespace e2e
