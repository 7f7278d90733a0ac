// Hosts of an ultraserver elect their places over the links of the machine: spec/hw-registers.md 9,
// 10.8; spec/driver-ioctl.md 3.16, 7.4.
#include "tests/e2e/cluster.h"
#include "tests/e2e/recording_device.h"

namespace e2e {
namespace {

uint64_t serial(Cluster& c, uint32_t node) {
  return uint64_t{c.word(node, 0, misc::kSerialHi)} << 32 | c.word(node, 0, misc::kSerialLo);
}

class Generations : public ::testing::TestWithParam<Gen> {};

TEST_P(Generations, FourNodesFindTheirPlaces) {
  ClusterOptions options;
  options.gen = GetParam();
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
    EXPECT_EQ(c.pod(n).count, 4u);
    EXPECT_EQ(c.pod(n).serial, serial(c, 0));
    EXPECT_EQ(c.word(n, 0, misc::kElectionStatus), 0x0400'0303u | n << 16);
    EXPECT_EQ(c.word(n, 0, misc::kPodSerialLo), static_cast<uint32_t>(serial(c, 0)));
    EXPECT_EQ(c.word(n, 0, misc::kPodSerialHi), static_cast<uint32_t>(serial(c, 0) >> 32));
    for (uint32_t d = 0; d < 16; ++d) {
      if (d != 0) {
        EXPECT_EQ(c.word(n, d, misc::kElectionStatus), 3u);
      }
      for (uint32_t w = misc::kElectionLeftHi; w <= misc::kElectionRightLo; w += 4) {
        EXPECT_EQ(c.word(n, d, w), 0u) << "cleared";
      }
    }
  }
}

// 10.8: all accesses of a device from probe to the end of the election, in a node whose neighbours
// come up at the same time.
void compare(Gen gen, uint32_t node, uint32_t device) {
  ClusterOptions options;
  options.gen = gen;
  Cluster c(options);
  RecordingDevice tap(c.machine.device(c.chip(node, device)));
  c.tap = &tap;
  c.tapped = c.chip(node, device);
  c.load_all();
  const std::string name = gen == Gen::kV3 ? "v3" : "v4";
  const uint64_t left = serial(c, node ^ 1);
  const uint64_t right = serial(c, node % 2 == 1 ? (node + 1) % 4 : (node + 3) % 4);
  auto want = driver_test::golden_trace(name + "_bring_up.trace");
  const auto election = driver_test::golden_trace(
      name + (device == 0 ? "_election_primary.trace" : "_election_secondary.trace"),
      {{"D", device},
       {"H", std::nullopt},
       {"LEFT", left},
       {"RIGHT", right},
       {"POD", serial(c, 0)},
       {"V", 0x0400'0303 | node << 16}});
  want.insert(want.end(), election.begin(), election.end());
  driver_test::expect_trace(tap.log, 0, want);
  c.unload(node);
}

TEST_P(Generations, AccessesOfAPrimaryDeviceEqualTheGoldenTrace) {
  compare(GetParam(), 2, 0);
}
TEST_P(Generations, AccessesOfASecondaryDeviceEqualTheGoldenTrace) {
  compare(GetParam(), 1, 13);
}

INSTANTIATE_TEST_SUITE_P(Election, Generations, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

uapi::pod_status_v2 status_of(Cluster& c, uint32_t node, int file, int want = 0) {
  uapi::pod_status_v2 status{};
  status.v1.sz = sizeof status;
  EXPECT_EQ(c.ioctl(node, file, uapi::kPodStatusV2, status), want);
  return status;
}
int control(Cluster& c, int file, uint32_t ctrl, uint32_t mode = 0, uint32_t timeout = 600) {
  uapi::pod_ctrl_v2 request{};
  request.v1.sz = sizeof request;
  request.v1.ctrl = ctrl;
  request.v1.timeout = timeout;
  request.mode = mode;
  return c.ioctl(0, file, uapi::kPodCtrlV2, request);
}

// What programs see of a pod: the three ioctls, the class files, the numbering of cores.
TEST(Election, UserSpaceSeesThePod) {
  Cluster c;
  c.load(0);
  c.task([&] { c.driver(0).wait_ready(); });  // and then waits for the others until it gives up
  c.unload(0);
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    SCOPED_TRACE(n);
    const int file = c.open(n);
    ASSERT_GT(file, 0);
    const uapi::pod_status_v2 status = status_of(c, n, file);
    EXPECT_EQ(status.v1.state, 2u);
    EXPECT_EQ(status.v1.pod_type, 1);
    EXPECT_EQ(status.v1.pod_sz, 4);
    EXPECT_EQ(status.v1.node_id, static_cast<int>(n));
    EXPECT_EQ(base::load<uint64_t>(status.v1.pod_id), serial(c, 0));
    EXPECT_EQ(status.mode, 0u);
    EXPECT_EQ(status.modes_supported, 1u << 1 | 1u << 3 | 1u << 4);
    uapi::pod_info info{};
    info.sz = sizeof info;
    EXPECT_EQ(c.ioctl(n, file, uapi::kPodInfo, info), 0);
    EXPECT_EQ(info.pod_type, 1);
    EXPECT_EQ(info.pod_sz, 4);
    EXPECT_EQ(base::load<uint64_t>(info.pod_id), serial(c, 0));
    EXPECT_EQ(c.sysfs(n, "node_id_4"), std::to_string(n) + "\n");
    EXPECT_EQ(c.sysfs(n, "node_id_2"), "-1\n");
    EXPECT_EQ(c.sysfs(n, "server_id_4"), "0001000000001000\n");
    EXPECT_EQ(c.sysfs(n, "server_id_2"), "0000000000000000\n");
    EXPECT_EQ(c.sysfs(n, "ultraserver_mode"), "1,3,4\n");
    EXPECT_EQ(c.sysfs(n, "node_id"), "absent");
    // spec/hw-registers.md 1.6: device 0 begins with core 4; flipped, with position 6.
    uapi::nc_map_entry entries[3] = {};
    uapi::get_logical_to_physical_nc_map map{};
    map.map = driver_test::address_of(entries);
    map.max_map_entries = 2;
    EXPECT_EQ(c.ioctl(n, file, uapi::kGetLogicalToPhysicalNcMap, map), 0);
    const auto* first = reinterpret_cast<const uint8_t*>(entries) + 4;
    EXPECT_EQ(base::load<uint32_t>(first + 4), n % 2 == 1 ? 0u : 4u);
  }
}

TEST(Election, Control) {
  Cluster c;
  c.load_all();
  const int file = c.open(0);
  EXPECT_EQ(control(c, file, 3, 2), -524) << "no x2 horizontal in a pod of four";
  EXPECT_EQ(control(c, file, 3, 0), -524);
  EXPECT_EQ(control(c, file, 3, 99), -524);
  EXPECT_EQ(control(c, file, 4), -EINVAL);
  EXPECT_EQ(control(c, file, 3, 3), 0);
  EXPECT_EQ(control(c, file, 3, 3), 0);
  EXPECT_EQ(control(c, file, 3, 1), -EEXIST);
  EXPECT_EQ(status_of(c, 0, file).mode, 3u);
  uapi::crwl_nc_map_ext marks{};
  marks.nc_count = 2;
  marks.end_nc_index = 127;
  EXPECT_EQ(c.ioctl(0, file, uapi::kCrwlNcRangeMarkExt0, marks), 0);
  EXPECT_EQ(control(c, file, 0), -EAGAIN) << "cores are marked";
  EXPECT_EQ(c.ioctl(0, file, uapi::kCrwlNcRangeUnmarkExt0, marks), 0);
  EXPECT_EQ(status_of(c, 0, file).mode, 0u) << "no core is marked any more";
  EXPECT_EQ(control(c, file, 1), 0) << "a single node by choice";
  EXPECT_EQ(status_of(c, 0, file).v1.state, 4u);
  EXPECT_EQ(status_of(c, 0, file).mode, 4u);
}

// A further election finds the same, if all nodes hold it.
TEST(Election, AgainOnRequest) {
  Cluster c;
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(c.driver(n).election().start(10, false), 0);
    EXPECT_EQ(c.driver(n).election().start(10, false), -EBUSY);
  }
  uint32_t state = 0;
  EXPECT_EQ(c.driver(0).election().status(state), -EBUSY);
  EXPECT_EQ(state, 1u);
  EXPECT_EQ(c.sysfs(0, "node_id_4"), "busy\n");
  c.run();
  for (uint32_t n = 0; n < 4; ++n) EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
}

// Alone in its wish for another election a node ends as a single one when the time is up, and says
// so in its misc RAM.
TEST(Election, AloneItTimesOut) {
  Cluster c;
  c.load_all();
  const base::Ps start = c.machine.now();
  EXPECT_EQ(c.driver(0).election().start(10, false), 0);
  c.run();
  const base::Ps took = c.machine.now() - start;
  EXPECT_GE(took, base::Ps{10 + 120 + 120} * base::kPsPerS);
  EXPECT_LT(took, base::Ps{251} * base::kPsPerS);
  EXPECT_EQ(c.pod(0).node, -1);
  EXPECT_EQ(c.word(0, 0, misc::kElectionStatus), 0x00FF'0002u);
  EXPECT_EQ(c.word(0, 0, misc::kPodSerialLo), 0u);
  EXPECT_EQ(c.word(0, 1, misc::kElectionStatus), 2u);
  EXPECT_TRUE(c.logged(0, "does not take part"));
}

TEST(Election, EndsOnRequest) {
  Cluster c;
  c.load(0);
  c.task([&] {
    while (!c.driver(0).device(15)) c.machine.executor().delay(base::ms(1));
    c.driver(0).wait_ready();
    c.machine.executor().delay(5 * base::kPsPerS);
    uint32_t state = 0;
    EXPECT_EQ(c.driver(0).election().status(state), -EBUSY);
    EXPECT_EQ(c.driver(0).election().kill(), 0);
  });
  EXPECT_LT(c.machine.now(), 6 * base::kPsPerS);
  const int file = c.open(0);
  EXPECT_EQ(status_of(c, 0, file).v1.state, 4u);
  EXPECT_EQ(status_of(c, 0, file).modes_supported, 1u << 4);
  EXPECT_EQ(c.sysfs(0, "node_id_4"), "-1\n");
  EXPECT_EQ(c.sysfs(0, "ultraserver_mode"), "4\n");
}

// spec/hw-registers.md 9.1: the words outlive the driver, and a device reset.
TEST(Election, ALoadedDriverAdoptsTheResult) {
  Cluster c;
  c.load_all();
  for (uint32_t n : {3u, 1u}) {
    c.unload(n);
    const uint64_t reads = c.machine.links()->resources()[0]->total_bytes();
    const base::Ps start = c.machine.now();
    c.load(n);
    c.run();
    EXPECT_LE(c.machine.now() - start, base::ms(100)) << "no election";
    EXPECT_EQ(c.machine.links()->resources()[0]->total_bytes(), reads);
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
    EXPECT_EQ(c.pod(n).count, 4u);
    EXPECT_EQ(c.pod(n).serial, serial(c, 0));
    EXPECT_EQ(c.pod(n).modes(), 1u << 1 | 1u << 3 | 1u << 4);
  }
}

// Words of an election that never ended are no result.
TEST(Election, HalfAnElectionIsNotAdopted) {
  Cluster c;
  c.set_word(0, misc::kElectionStatus, 0x00FF'0003);
  c.load_all();
  EXPECT_EQ(c.pod(0).node, 0);
  EXPECT_EQ(c.pod(0).count, 4u);
}

struct Order {
  const char* name;
  uint64_t serials[4];
  int nodes[4];
};

class Serials : public ::testing::TestWithParam<Order> {};

// The node with the lowest serial is 0, its left neighbour 1, its diagonal 2.
TEST_P(Serials, DecideTheOrder) {
  ClusterOptions options;
  options.change = [](hw::MachineParams& p) {
    for (uint32_t n = 0; n < 4; ++n) p.chips[n * 16].serial = GetParam().serials[n];
  };
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(c.pod(n).node, GetParam().nodes[n]) << n;
    EXPECT_EQ(c.pod(n).serial, c.pod(0).serial);
    EXPECT_EQ(c.pod(n).count, 4u);
  }
}

constexpr uint64_t kHigh = 0xFFFF'0000'0000'0001;
INSTANTIATE_TEST_SUITE_P(Election, Serials,
                         ::testing::Values(Order{"Node2First",
                                                 {kHigh, 0x1'0000'0040, 0x0'FFFF'FFFF,
                                                  0x1'0000'0041},
                                                 {2, 3, 0, 1}},
                                           Order{"Node1First", {900, 100, 200, 800}, {1, 0, 3, 2}},
                                           Order{"Node3First", {400, 300, 200, 100}, {3, 2, 1, 0}}),
                         [](const auto& info) { return info.param.name; });

TEST(Election, TwoNodesWithBothCables) {
  ClusterOptions options;
  options.nodes = 2;
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 2; ++n) {
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
    EXPECT_EQ(c.pod(n).count, 2u);
    EXPECT_EQ(c.pod(n).serial, serial(c, 0));
    EXPECT_EQ(c.pod(n).modes(), 1u << 2 | 1u << 3 | 1u << 4);
    EXPECT_EQ(c.word(n, 0, misc::kElectionStatus), 0x0200'0303u | n << 16);
    EXPECT_EQ(c.sysfs(n, "node_id_2"), std::to_string(n) + "\n");
    EXPECT_EQ(c.sysfs(n, "node_id_4"), "-1\n");
    EXPECT_EQ(c.sysfs(n, "server_id_2"), "0001000000001000\n");
  }
}

// Of two cables per device one is missing: the election falls back from both to the one that is
// there, within milliseconds.
void cut(hw::MachineParams& p, uint32_t chip, bool left) {
  hw::ChipParams& at = p.chips[chip];
  at.neighbours[left ? 1 : 0] = at.neighbours[left ? 2 : 3] = hw::kNoNeighbour;
}

class OneCable : public ::testing::TestWithParam<bool> {};

TEST_P(OneCable, MakesAPodOfTwo) {
  const bool left = GetParam();
  ClusterOptions options;
  options.nodes = 2;
  options.change = [left](hw::MachineParams& p) {
    for (uint32_t chip = 0; chip < 32; ++chip) cut(p, chip, !left);
  };
  Cluster c(options);
  c.load_all();
  EXPECT_LT(c.machine.now(), base::kPsPerS);
  for (uint32_t n = 0; n < 2; ++n) {
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
    EXPECT_EQ(c.pod(n).count, 2u);
    EXPECT_EQ(c.pod(n).links, left ? 1u : 2u);
    EXPECT_EQ(c.pod(n).modes(), 1u << 4 | 1u << (left ? 3 : 2));
    EXPECT_TRUE(c.logged(n, std::string(left ? "right" : "left") + " neighbour does not answer"));
  }
}

INSTANTIATE_TEST_SUITE_P(Election, OneCable, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Left" : "Right"; });

TEST(Election, WithoutCablesANodeIsAlone) {
  ClusterOptions options;
  options.nodes = 1;
  Cluster c(options);
  c.load_all();
  EXPECT_LT(c.machine.now(), base::kPsPerS);
  EXPECT_EQ(c.pod(0).node, -1);
  const int file = c.open(0);
  EXPECT_EQ(status_of(c, 0, file).v1.state, 4u);
  EXPECT_EQ(status_of(c, 0, file).v1.node_id, -1);
  EXPECT_EQ(control(c, file, 3, 1), -524);
  EXPECT_EQ(control(c, file, 1), 0);
  // The engines that waited for nobody work for others, and their queues for whoever takes them.
  EXPECT_EQ(c.machine.counters().dma_errors, 0u);
}

// Node 2 is powered and cabled, but no driver runs there: its neighbours wait until their time is
// up. Node 0 and node 3 then find each other over the right cable.
TEST(Election, ANodeThatNeverStarts) {
  Cluster c;
  for (uint32_t n : {0u, 1u, 3u}) c.load(n);
  c.run();
  EXPECT_GT(c.machine.now(), 600 * base::kPsPerS);
  for (uint32_t n : {0u, 3u}) {
    EXPECT_EQ(c.pod(n).count, 2u);
    EXPECT_EQ(c.pod(n).node, n == 0 ? 0 : 1);
    EXPECT_EQ(c.pod(n).links, 2u);
    EXPECT_EQ(c.pod(n).serial, serial(c, 0));
  }
  EXPECT_EQ(c.pod(1).node, -1);
  EXPECT_EQ(c.pod(1).count, 0u);
}

// A node without power: the cables to it lead nowhere.
TEST(Election, ANodeWithoutPower) {
  ClusterOptions options;
  options.change = [](hw::MachineParams& p) {
    for (uint32_t d = 0; d < 16; ++d) {
      cut(p, 16 + d, false);
      cut(p, 48 + d, true);
    }
  };
  Cluster c(options);
  for (uint32_t n : {0u, 1u, 3u}) c.load(n);
  c.run();
  for (uint32_t n : {0u, 1u, 3u}) {
    uint32_t state = 0;
    EXPECT_EQ(c.driver(n).election().status(state), 0);
    EXPECT_LE(c.pod(n).count, 2u);
  }
}

// Left of n is n + 1, right is n - 1: no ring of the kind that is meant (spec/hw-registers.md 9.5).
TEST(Election, ARotatedRingIsFound) {
  ClusterOptions options;
  options.change = [](hw::MachineParams& p) {
    for (uint32_t chip = 0; chip < 64; ++chip) {
      auto& to = p.chips[chip].neighbours;
      to[1] = to[2] = (chip + 16) % 64;
      to[0] = to[3] = (chip + 48) % 64;
    }
  };
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(c.pod(n).node, -1);
    EXPECT_TRUE(c.logged(n, "mis-wired"));
  }
}

// One of the two links of a side ends at another device.
TEST(Election, TwoLinksToTwoDevicesAreFound) {
  ClusterOptions options;
  options.nodes = 2;
  options.change = [](hw::MachineParams& p) { p.chips[3].neighbours[2] = 16 + 5; };
  Cluster c(options);
  c.load_all();
  EXPECT_TRUE(c.logged(0, "device 3: left links lead to two devices"));
  // The other node notices nothing and waits for device 3: the two never try the same side at once.
  for (uint32_t n = 0; n < 2; ++n) EXPECT_EQ(c.pod(n).node, -1);
}

TEST(Election, LeftCablesOfTwoDevicesSwapped) {
  ClusterOptions options;
  options.nodes = 2;
  options.change = [](hw::MachineParams& p) {
    for (const auto& [chip, other] : {std::pair{3u, 21u}, {5u, 19u}, {21u, 3u}, {19u, 5u}}) {
      p.chips[chip].neighbours[1] = p.chips[chip].neighbours[2] = other;
    }
  };
  Cluster c(options);
  c.load_all();
  for (uint32_t n = 0; n < 2; ++n) {
    EXPECT_EQ(c.pod(n).links, 2u);
    EXPECT_EQ(c.pod(n).node, static_cast<int>(n));
  }
}

// 9.6: device 0 says which server of which rack this is, and how large the pod.
TEST(Configuration, Pds) {
  ClusterOptions options;
  options.nodes = 1;
  options.product = "trn2es.48xlarge";
  options.change = [](hw::MachineParams& p) {
    for (uint32_t d = 0; d < 16; ++d) {
      p.chips[d].routing_id = 16 + d;
      p.chips[d].server_rack = 0x8001'8001;  // server 1 of rack 1
    }
  };
  Cluster c(options);
  c.set_word(0, misc::kSizes, 1u << 31 | 64 << 16 | 16);
  c.set_word(0, misc::kReservationHi, 0x1234);
  c.set_word(0, misc::kReservationLo, 0x89AB'CDEF);
  c.load(0);
  const int file = c.open(0, 7, O_RDWR);  // waits for the last device
  ASSERT_GT(file, 0);
  EXPECT_EQ(c.pod(0).node, 2);
  EXPECT_EQ(c.pod(0).count, 4u);
  EXPECT_EQ(status_of(c, 0, file).v1.state, 2u);
  EXPECT_EQ(status_of(c, 0, file).v1.pod_type, 2);
  EXPECT_EQ(status_of(c, 0, file).modes_supported, 1u << 1 | 1u << 4);
  EXPECT_EQ(control(c, file, 0), 0) << "nothing to elect";
  EXPECT_EQ(c.sysfs(0, "node_id"), "2\n");
  EXPECT_EQ(c.sysfs(0, "node_cnt"), "4\n");
  EXPECT_EQ(c.sysfs(0, "reservation_id"), "0000123489abcdef\n");
  uapi::host_device_id_to_rid_map map{};
  EXPECT_EQ(c.ioctl(0, file, uapi::kHostDeviceIdToRidMap, map), 0);
  EXPECT_EQ(map.count, 16u);
  EXPECT_EQ(map.host_did_to_rid_map[5], 21u);
}

TEST(Configuration, PdsNeedsItsServerNumber) {
  ClusterOptions options;
  options.nodes = 1;
  options.product = "trn2es.48xlarge";
  options.change = [](hw::MachineParams& p) {
    for (uint32_t d = 0; d < 16; ++d) p.chips[d].routing_id = d;
    for (uint32_t d = 0; d < 15; ++d) p.chips[d].server_rack = 0x8000;
  };
  Cluster c(options);
  c.load_all();
  EXPECT_EQ(c.driver(0).device(15), nullptr);
  EXPECT_EQ(c.open(0, 3, O_RDWR), -EBUSY) << "the pod never gets known";
  EXPECT_GT(c.open(0, 3), 0);
}

class Max : public ::testing::TestWithParam<Gen> {};

TEST_P(Max, FourDevices) {
  const bool v3 = GetParam() == Gen::kV3;
  ClusterOptions options;
  options.gen = GetParam();
  options.nodes = 1;
  options.devices = 4;
  options.product = v3 ? "trn2en.24xlarge" : "trn3e.24xlarge";
  options.change = [v3](hw::MachineParams& p) {
    for (uint32_t d = 0; d < 4; ++d) {
      p.chips[d].routing_id = v3 ? 0xDEADBEEF : 100 + d;  // not looked at on Trn2
      p.chips[d].server_rack = v3 ? 0 : 0x8001;
    }
  };
  Cluster c(options);
  c.set_word(0, misc::kSizes, 1u << 31 | 8 << 16 | 4);
  c.load_all();
  const int file = c.open(0, 3, O_RDWR);
  ASSERT_GT(file, 0);
  EXPECT_EQ(c.pod(0).count, 2u);
  EXPECT_EQ(c.pod(0).node, v3 ? 0 : 1);
  EXPECT_EQ(c.sysfs(0, "ultraserver_mode"), "3,4\n");
}

INSTANTIATE_TEST_SUITE_P(Configuration, Max, ::testing::Values(Gen::kV3, Gen::kV4),
                         [](const auto& info) {
                           return "v" + std::to_string(static_cast<int>(info.param));
                         });

}  // namespace
}  // namespace e2e
