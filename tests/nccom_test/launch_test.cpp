// The place of a process among those of a launcher, from its environment alone.
#include "tools/nccom-test/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace nccom {
namespace {

using Environment = std::map<std::string, std::string>;

// In a test's environment; "rank_start/local_ranks cores", or nothing if no launcher is seen.
std::string place(uint32_t ranks, const Environment& environment) {
  ::unsetenv("NEURON_RT_VISIBLE_CORES");
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<Options> streams(1);
  streams[0].ranks = ranks;
  const auto placed = place_of_process(&streams);
  const char* cores = ::getenv("NEURON_RT_VISIBLE_CORES");
  const std::string text = std::to_string(streams[0].rank_start) + "/" +
                           std::to_string(streams[0].local_ranks) + " " + (cores ? cores : "-");
  for (const auto& entry : environment) ::unsetenv(entry.first.c_str());
  ::unsetenv("NEURON_RT_VISIBLE_CORES");
  if (!placed) return placed.error().what;
  return *placed ? text : "";
}

TEST(Launch, TaskOfMpirun) {
  EXPECT_EQ(place(8, {{"OMPI_COMM_WORLD_RANK", "3"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "6/2 2-3");
}

TEST(Launch, TaskOfSrun) {
  EXPECT_EQ(place(8, {{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NTASKS_PER_NODE", "1"}}),
            "4/4 -");
}

TEST(Launch, ShellOfABatchJob) {
  Environment shell{
      {"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(place(8, shell), "");
  for (const char* no_task : {"4294967290", "4294967291", "-5", "batch", ""}) {
    shell["SLURM_STEP_ID"] = no_task;
    EXPECT_EQ(place(8, shell), "") << no_task;
  }
}

TEST(Launch, RanksThatTasksCannotShare) {
  EXPECT_EQ(place(8, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}}),
            "argument -r/--nworkers: 8 ranks for the 3 tasks of OMPI_COMM_WORLD_SIZE");
}

TEST(Launch, NoLauncher) {
  EXPECT_EQ(place(8, {}), "");
  EXPECT_EQ(place(8, {{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "");
}

}  // namespace
}  // namespace nccom
