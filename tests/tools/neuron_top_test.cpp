// What neuron-top shows and what keys do (spec/tools.md 4).
#include <gtest/gtest.h>
#include <ndl/ndl.h>

#include "tools/neuron-top/screen.h"

namespace {

using namespace neuron_top;
using neuron_monitor::Application;
using neuron_monitor::Interval;
using neuron_monitor::Sample;

constexpr uint64_t kMiB = 1 << 20;

neuron_host::Devices devices_of(int count, uint32_t cores, uint32_t logical_size) {
  neuron_host::Devices devices;
  for (int i = 0; i < count; ++i) {
    neuron_host::Device device;
    device.index = i;
    device.architecture = 3;
    device.cores = cores;
    devices.all.push_back(device);
  }
  devices.has_logical = true;
  devices.logical_size = logical_size;
  return devices;
}

Application application_of(pid_t pid, uint32_t core, uint64_t busy_us) {
  Application application;
  application.pid = pid;
  application.tag = "job" + std::to_string(pid);
  application.host_bytes = kMiB;
  application.host_by_device[static_cast<int>(core / 8)] = kMiB;
  application.device_bytes = 3 * kMiB;
  application.cores[core][NDS_NC_COUNTER_TIME_IN_USE] = busy_us;
  return application;
}

// Two processes on one machine, seen twice within a second.
class Screen : public testing::Test {
 protected:
  Screen() {
    now_.time = before_.time + std::chrono::seconds(1);
    now_.applications = {application_of(7, 2, 250'000), application_of(9, 8, 1'000'000)};
    refresh();
  }
  void refresh() {
    tabs_ = tabs_of(now_);
    figures_ = figures_of({before_, now_}, devices_, state_.pid);
    for (auto& [number, core] : figures_.cores) core.memory = {{"tensors", number * kMiB}};
    rows_ = memory_rows(figures_, devices_, state_.expanded);
  }
  void press(std::string_view bytes) {
    for (const Press& each : decode(bytes)) {
      apply(each, tabs_, rows_, state_);
      refresh();
    }
  }
  std::string text(Look look) {
    std::string all;
    for (const std::string& line :
         draw({instance_, devices_, figures_, tabs_, rows_, state_}, look)) {
      all += line + "\n";
    }
    return all;
  }
  std::string plain() { return text({100, 40, false, false}); }

  neuron_host::Instance instance_{"trn2.48xlarge", "i-0123456789abcdef0"};
  neuron_host::Devices devices_ = devices_of(2, 8, 2);
  Sample before_;
  Sample now_;
  State state_;
  std::vector<Tab> tabs_;
  Figures figures_;
  std::vector<MemoryRow> rows_;
};

TEST_F(Screen, ShowsEveryCore) {
  const std::string screen = plain();
  EXPECT_NE(screen.find("running on i-0123456789abcdef0 (trn2.48xlarge)"), std::string::npos);
  // Of eight logical cores one is busy for a quarter of the time, one for all of it.
  EXPECT_NE(screen.find("NeuronCore v3d Utilization: 15.62% ---"), std::string::npos) << screen;
  EXPECT_NE(screen.find("\nND0  .............[  0.00%] |||..........[ 25.00%] "), std::string::npos)
      << screen;
  EXPECT_NE(screen.find("\nND1  |||||||||||||[100.00%] ....."), std::string::npos) << screen;
  EXPECT_NE(screen.find(">[1]:all<  [2]:job7   [3]:job9"), std::string::npos) << screen;
}

TEST_F(Screen, ATabIsOneProcess) {
  press("d");
  EXPECT_EQ(state_.pid, 7);
  EXPECT_NE(plain().find("[ 25.00%]"), std::string::npos);
  EXPECT_EQ(plain().find("[100.00%]"), std::string::npos);
  press("3");
  EXPECT_EQ(state_.pid, 9);
  press("4");
  EXPECT_EQ(state_.pid, 9) << "there is no such tab";
  press("d");
  EXPECT_EQ(state_.pid, kAll) << "around the end";
  press("a");
  EXPECT_EQ(state_.pid, 9);
  press("x");
  EXPECT_EQ(state_.pid, kAll);
  state_.pid = 12345;
  EXPECT_EQ(current_tab(state_, tabs_), 0u) << "a process that has ended";
}

TEST_F(Screen, TheTreeOpensAndCloses) {
  ASSERT_EQ(rows_.size(), 2u);
  EXPECT_EQ(rows_[0].device, kMiB) << "of logical core 1";
  EXPECT_EQ(rows_[0].host, kMiB);
  press("\r");
  ASSERT_EQ(rows_.size(), 3u);
  EXPECT_EQ(rows_[1].label, "NC1");
  press("\x1b[B\x1b[C");  // down, right
  ASSERT_EQ(rows_.size(), 4u);
  EXPECT_EQ(rows_[2].label, "Tensors");
  EXPECT_EQ(rows_[2].device, kMiB);
  press("\x1b[B\x1b[D");  // down, left: to the core
  EXPECT_EQ(state_.selected, "ND0/NC1");
  press("\x1b[D\x1b[D\x1b[D");  // closes it, goes to the device, closes that
  EXPECT_EQ(state_.selected, "ND0");
  EXPECT_EQ(rows_.size(), 2u);
  press("\x1b[A\x1b[B\x1b[B\x1b[B");
  EXPECT_EQ(state_.selected, "ND1") << "the tree's ends hold";
}

TEST_F(Screen, PercentOrOperations) {
  figures_.cores[1].tflops = 1.5;
  EXPECT_EQ(plain().find("TFLOPS: "), std::string::npos);
  state_.tflops = true;
  EXPECT_NE(plain().find("TFLOPS: 1.50"), std::string::npos);
  EXPECT_NE(plain().find("[   1.50]"), std::string::npos) << plain();
  press("F");
  EXPECT_FALSE(state_.tflops);
}

TEST_F(Screen, KeysThatMeanNothingDoNothing) {
  const std::string before = plain();
  press(std::string_view("\x1b[15~\x1b\x1b[1;5A\x01\x7f\xc3\xa4 z0\x1bOP\x1b[", 23));
  EXPECT_EQ(plain(), before);
  EXPECT_FALSE(state_.quit);
  press("q");
  EXPECT_TRUE(state_.quit);
}

// Columns on the screen: of escape sequences none, of a UTF-8 character one.
size_t columns_of(const std::string& line) {
  size_t columns = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      i = line.find('m', i);
    } else if ((static_cast<unsigned char>(line[i]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

TEST_F(Screen, EverythingStaysWithinTheTerminal) {
  for (const int count : {1, 2, 16, 64}) {
    devices_ = devices_of(count, 8, count == 16 ? 1 : 2);
    state_.expanded = {"ND0", "ND0/NC1"};
    refresh();
    for (size_t columns : {1u, 7u, 20u, 40u, 80u, 81u, 133u, 300u}) {
      for (size_t rows : {1u, 2u, 3u, 10u, 18u, 24u, 50u, 100u}) {
        for (const bool decorated : {false, true}) {
          const auto lines = draw({instance_, devices_, figures_, tabs_, rows_, state_},
                                  {columns, rows, decorated, decorated});
          ASSERT_LE(lines.size(), rows) << count << " devices, " << columns << "x" << rows;
          for (const std::string& line : lines) {
            ASSERT_LE(columns_of(line), columns) << line;
            ASSERT_EQ(line.find('\n'), std::string::npos);
          }
        }
      }
    }
  }
}

TEST_F(Screen, ManyDevicesStandBesideOneAnother) {
  devices_ = devices_of(64, 8, 2);
  refresh();
  const std::string screen = text({200, 50, false, false});
  for (const char* name : {"ND0 ", "ND31 ", "ND63 "}) {
    EXPECT_NE(screen.find(name), std::string::npos) << name << "\n" << screen;
  }
}

// What does not fit is where the selection is.
TEST_F(Screen, TheGridFollowsTheSelection) {
  devices_ = devices_of(64, 8, 2);
  now_.applications = {application_of(7, 0, 1), application_of(9, 63 * 8, 1)};
  refresh();
  EXPECT_NE(text({80, 24, false, false}).find("\nND0 "), std::string::npos);
  press("\x1b[B");
  EXPECT_EQ(state_.selected, "ND63");
  EXPECT_NE(text({80, 24, false, false}).find("ND63 "), std::string::npos);
}

TEST(Human, Units) {
  EXPECT_EQ(human(0), "0B");
  EXPECT_EQ(human(1023), "1023B");
  EXPECT_EQ(human(1536), "1.5KB");
  EXPECT_EQ(human(96ull << 30), "96.0GB");
  EXPECT_EQ(human(~0ull), "16.0EB");
}

}  // namespace
