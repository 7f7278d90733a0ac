// Programs that know nothing of the emulator, started with the shim preloaded.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <sstream>

#include "tests/driver_node/bench.h"

namespace {

using bench::Bench;
using bench::client_program;

class Shim : public testing::Test {
 protected:
  std::string scenario(const std::string& name, const std::string& argument = "") {
    std::vector<std::string> command = {client_program("node_client"), name};
    if (!argument.empty()) command.push_back(argument);
    const Bench::Outcome outcome = bench_.run(command);
    EXPECT_TRUE(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0)
        << name << " status " << outcome.status << "\n"
        << outcome.out;
    return outcome.out;
  }
  std::string shell(const std::string& script) { return bench_.run({"/bin/sh", "-c", script}).out; }
  bool released(size_t count) {
    return Bench::eventually([&] { return bench_.device().count("release") == count; });
  }
  Bench bench_;
};

TEST_F(Shim, Ioctl) {
  EXPECT_EQ(scenario("ioctl"),
            "swap 0 -> 22 11 errno 77\n"
            "fail -1 Device or resource busy\n"
            "bad address -1 Bad address\n"
            "unknown -1 Invalid argument\n"
            "bulk 0 wrong 0\n"
            "who 1\n"
            "read -1 Invalid argument\n"
            "close 0\n"
            "closed -1 Bad file descriptor\n"
            "absent -1 No such file or directory\n");
  EXPECT_TRUE(released(1));
  const std::vector<std::string> expected = {"open 0", "flush 0", "release 0"};
  EXPECT_EQ(bench_.device().log(), expected);
}

TEST_F(Shim, NodesLookLikeCharacterDevices) {
  EXPECT_EQ(scenario("list"),
            "stat 0 char 1 mode 666 minor 3 major>0 1\n"
            "fstat char 1\n"
            "access 0 -1\n"
            "entry neuron0\n"
            "entry neuron3\n"
            "null 1\n"
            "glob /dev/neuron0\n"
            "glob /dev/neuron3\n"
            "class neuron0\n"
            "class neuron3\n"
            "class node_id_4\n"
            "realpath /sys/devices/virtual/neuron_device/neuron0\n");
}

TEST_F(Shim, OrdinaryToolsSeeTheTree) {
  EXPECT_EQ(shell("cat /sys/class/neuron_device/neuron0/core_count"), "2");
  EXPECT_EQ(shell("cat /sys/module/neuron/version"), "2.26.5.0\n");
  EXPECT_EQ(shell("cat /sys/class/dmi/id/product_name"), "trn1.2xlarge\n");
  EXPECT_EQ(shell("cat /sys/devices/virtual/dmi/id/product_name"), "trn1.2xlarge\n");
  EXPECT_EQ(shell("cat /sys/class/infiniband/efa_0/node_desc"), "efa\n");
  EXPECT_EQ(shell("hostname; uname -n"), "node-0.test\nnode-0.test\n");
  EXPECT_EQ(shell("ls /sys/class/neuron_device"), "neuron0\nneuron3\nnode_id_4\n");
  EXPECT_EQ(shell("ls /sys/devices/virtual/neuron_device/neuron0/stats/hardware"),
            "sram_ecc_uncorrected\n");
  EXPECT_EQ(shell("ls -d /dev/neuron*"), "/dev/neuron0\n/dev/neuron3\n");
  EXPECT_EQ(shell("ls /dev | grep neuron"), "neuron0\nneuron3\n");
  EXPECT_EQ(shell("test -c /dev/neuron0 && echo yes"), "yes\n");
  EXPECT_EQ(shell("readlink /sys/class/neuron_device/neuron3"),
            "../../devices/virtual/neuron_device/neuron3\n");
  EXPECT_EQ(shell("grep -c ' neuron$' /proc/devices"), "1\n");
  EXPECT_EQ(shell("cd /sys/class/neuron_device/neuron0 && cat core_count "
                  "../../../../module/neuron/version"),
            "22.26.5.0\n");
  EXPECT_NE(shell("cat /sys/class/neuron_device/neuron0/dev").find(":0\n"), std::string::npos);
}

TEST_F(Shim, SysfsWritesReachTheDriver) {
  EXPECT_EQ(shell("echo 5 > /sys/class/neuron_device/neuron0/reset; "
                  "cat /sys/class/neuron_device/neuron0/reset"),
            "written:5\n");
  EXPECT_EQ(scenario("sysfs-write"), "write 2\nread-only attribute Permission denied\n");
}

TEST_F(Shim, DupForkAndClose) {
  EXPECT_EQ(scenario("fork"),
            "parent 1 copy 1\n"
            "child inherited 0 Permission denied own 1\n"
            "still 1\n"
            "after copy closed 0\n");
  EXPECT_TRUE(released(2));
  EXPECT_EQ(bench_.device().attached(), 0);
}

TEST_F(Shim, FileSurvivesExec) {
  EXPECT_EQ(scenario("inherit"), "swap 0 -> 2 1\n");
  EXPECT_TRUE(released(1));
}

TEST_F(Shim, ProgramMayCloseEveryDescriptor) {
  EXPECT_EQ(scenario("close-all"), "swap 0\n");
}

TEST_F(Shim, Mappings) {
  EXPECT_EQ(scenario("map"),
            "shared 1234\n"
            "no such offset Operation not permitted\n"
            "write-only Permission denied\n"
            "read-only fd Permission denied\n"
            "guarded 1 mprotect -1\n"
            "child killed by 11\n"
            "munmap 0 0\n");
  EXPECT_EQ(bench_.device().count("munmap 1048576 8192"), 2u);
}

TEST_F(Shim, StoresIntoRegisterWindows) {
  EXPECT_EQ(scenario("mmio"),
            "loads abcd0001 55aa 78 99 exchanged 77 float 3f800000\n"
            "handler kept 1\n"
            "null store caught 1\n"
            "byte store caught 2\n"
            "default kills 1\n");
  const auto registers = bench_.device().registers();
  EXPECT_EQ(registers.size(), 5u);
  EXPECT_EQ(registers.at(bench::kWindowBar), 0xabcd0001u);
  EXPECT_EQ(registers.at(bench::kWindowBar + 32), 0x78u);
}

TEST_F(Shim, ThreadsThatMapTheirFirstWindowsAtOnceMayStoreAtOnce) {
  EXPECT_EQ(scenario("first-windows"), "ended well 3 of 3\n");
}

// A file of that name that is no library comes first on the path, as if the package were missing.
TEST_F(Shim, WithoutTheDecoderRegisterWindowsAreReadOnly) {
  EXPECT_EQ(shell("dir=$(mktemp -d) && : > $dir/libZydis.so.4.0 && LD_LIBRARY_PATH=$dir " +
                  client_program("node_client") +
                  " map-window 2>$dir/err; sed \"s|$dir/||\" $dir/err; " + "rm -r $dir"),
            "to write Can not access a needed shared library\n"
            "to read mapped\n"
            "soma: register windows cannot be mapped for writing: libZydis.so.4.0, which decodes "
            "the stores into them, cannot be used: libZydis.so.4.0: file too short\n");
}

TEST_F(Shim, EveryClockSaysTheSame) {
  EXPECT_EQ(scenario("clocks"),
            "gettimeofday 1\ntime 1\nstored 1\ntimespec_get 1\nbase 1\n"
            "jumped 1 raw 1\ncpu time 1\nrealtime alike 1 raw alike 1\n");
}

// Timed out, not early, not late: whether simulated time is behind the host's or ahead of it.
TEST_F(Shim, EveryWaitLastsInVirtualTime) {
  const std::string expected =
      "mutex_timedlock 1 1 1\nmutex_clocklock 1 1 1\ncond_timedwait 1 1 1\n"
      "cond_clockwait 1 1 1\nsem_timedwait 1 1 1\nsem_clockwait 1 1 1\n"
      "usleep 1 1 1\nclock_nanosleep 1 1 1\nsleep 0 1\ninterrupted 1\ninterrupted -1 1 1\n";
  EXPECT_EQ(scenario("waits", "0"), expected);
  EXPECT_EQ(scenario("waits", "3000000000"), expected);
}

TEST_F(Shim, ClockCountsSimulatedTime) {
  std::istringstream lines(scenario("clock", "5"));
  long monotonic = 0, realtime = 0, slept = 0;
  ASSERT_TRUE(lines >> monotonic >> realtime >> slept);
  // 30 ms of emulation were 5 us on the device: what remains is the round trip on an idle machine.
  EXPECT_GE(monotonic, 5);
  EXPECT_LT(monotonic, 25'000);
  EXPECT_GE(realtime, 5);
  EXPECT_LT(realtime, 25'000);
  EXPECT_GE(slept, 20'000);
}

TEST_F(Shim, ClockJumpsAheadOfTheHost) {
  std::istringstream lines(scenario("clock", "4000000"));
  long monotonic = 0;
  ASSERT_TRUE(lines >> monotonic);
  EXPECT_GE(monotonic, 4'000'000);
}

TEST_F(Shim, HostClockOnRequest) {
  const auto outcome =
      bench_.run({client_program("node_client"), "clock", "5"}, driver::ClientClock::kHost);
  std::istringstream lines(outcome.out);
  long monotonic = 0;
  ASSERT_TRUE(lines >> monotonic);
  EXPECT_GE(monotonic, 30'000);
}

TEST_F(Shim, ClockNeverRunsBackwards) {
  EXPECT_EQ(scenario("monotonic"), "backwards 0\n");
}

TEST_F(Shim, DeadlinesHoldInVirtualTime) {
  EXPECT_EQ(scenario("deadline"), "timedwait timed out after>=40ms 1\n");
}

TEST_F(Shim, PollingWakesWithTheMachine) {
  EXPECT_EQ(scenario("poll"), "seen 42 in few rounds 1\n");
}

TEST_F(Shim, BlockedRequestDoesNotHoldOthers) {
  EXPECT_EQ(scenario("block"), "block 7\n");
}

TEST_F(Shim, DriverLibrary) {
  const auto outcome = bench_.run({client_program("ndl_client")});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
}

TEST_F(Shim, WithoutAServerNothingChanges) {
  const std::string script =
      "SOMA_SOCKET=/nonexistent ls /dev/neuron0 2>/dev/null || echo none; "
      "SOMA_SOCKET= date +%Y | wc -c";
  EXPECT_EQ(shell(script), "none\n5\n");
}

TEST(ShimAlone, MachineGoesAway) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_t client = -1;
  std::string out;
  char buffer[256];
  {
    Bench bench;
    client = bench.start({client_program("node_client"), "outlive"}, ends[1]);
    ASSERT_GT(client, 0);
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    ASSERT_GT(got, 0);
  }
  close(ends[1]);
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = -1;
  waitpid(client, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(out, "ioctl Input/output error\nclose 0\nopen Input/output error\n");
}

TEST_F(Shim, TwoClientsSideBySide) {
  std::vector<pid_t> clients;
  const base::UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (int i = 0; i < 2; ++i) {
    clients.push_back(bench_.start({client_program("node_client"), "ioctl"}, null.get()));
  }
  for (const pid_t client : clients) {
    int status = -1;
    waitpid(client, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(released(2));
}

TEST_F(Shim, ClientsKilledAtRandomMomentsLeaveNothing) {
  std::mt19937 random(3);
  const base::UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (int round = 0; round < 25; ++round) {
    const pid_t first = bench_.start({client_program("node_client"), "hammer"}, null.get());
    const pid_t second = bench_.start({client_program("node_client"), "hammer"}, null.get());
    usleep(static_cast<useconds_t>(random() % 15'000));
    for (const pid_t client : {first, second}) {
      kill(client, SIGKILL);
      int status = 0;
      waitpid(client, &status, 0);
    }
  }
  EXPECT_TRUE(Bench::eventually([&] {
    return bench_.device().attached() == 0 && bench_.server().connections() == 0 &&
           bench_.device().count("open") == bench_.device().count("release");
  }));
  EXPECT_EQ(bench_.server().protocol_errors(), 0u);
  size_t files = 1;
  bench_.on_kernel_thread([&] { files = bench_.server().open_files(); });
  EXPECT_EQ(files, 0u);
  // The next client runs.
  EXPECT_NE(scenario("ioctl").find("swap 0"), std::string::npos);
}

}  // namespace
