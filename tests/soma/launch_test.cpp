// The words of launchers: options, host lists, which nodes they mean.
#include "tools/soma/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soma::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Seen {
  std::string n, host;
  int quiet = 0;
};
std::vector<Option> options(Seen& seen) {
  return {
      {{"n", "np"}, true, [&](const std::string& v) { return seen.n = v, base::Status(); }},
      {{"host", "H"}, true, [&](const std::string& v) { return seen.host = v, base::Status(); }},
      {{"q"}, false, [&](const std::string&) { return ++seen.quiet, base::Status(); }},
      {{"bind-to"}, true, {}}};
}

TEST(LaunchOptions, EveryWayToWriteThem) {
  for (const Words& given : std::vector<Words>{
           {"-np", "4", "-H", "a,b", "-q", "prog", "-n", "9"},
           {"--np=4", "--host=a,b", "-q", "prog", "-n", "9"},
           {"-n4", "-Ha,b", "-q", "--", "prog", "-n", "9"},
           {"-np", "4", "--bind-to", "none", "-host", "a,b", "-q", "prog", "-n", "9"}}) {
    Seen seen;
    Words words = given;
    const base::Status taken = take_options(words, options(seen));
    ASSERT_TRUE(taken.ok()) << taken.error().message();
    EXPECT_EQ(seen.n, "4");
    EXPECT_EQ(seen.host, "a,b");
    EXPECT_EQ(seen.quiet, 1);
    EXPECT_THAT(words, ElementsAre("prog", "-n", "9"));
  }
}

TEST(LaunchOptions, Errors) {
  for (const Words& given : std::vector<Words>{{"--nope"}, {"-z"}, {"-np"}, {"-qz"}, {"--host"}}) {
    Seen seen;
    Words words = given;
    const base::Status taken = take_options(words, options(seen));
    ASSERT_FALSE(taken.ok()) << given[0];
    EXPECT_THAT(taken.error().message(), HasSubstr(given[0]));
  }
  for (const char* bad : {"", "0", "-1", "x", "4x", "99999", "4294967297"}) {
    EXPECT_FALSE(count_of(bad, "-np").ok()) << bad;
  }
  EXPECT_EQ(*count_of("64", "-np"), 64u);
}

TEST(LaunchHosts, Lists) {
  EXPECT_THAT(*expand_hosts("a,b:4,,c"), ElementsAre("a", "b:4", "c"));
  EXPECT_THAT(*expand_hosts("node-[0-2,7],x"),
              ElementsAre("node-0", "node-1", "node-2", "node-7", "x"));
  EXPECT_THAT(*expand_hosts(""), ElementsAre());
  for (const char* bad : {"n[", "n[1", "n[]", "n[a]", "n[2-1]", "n[1-]", "n[1]x", "n[0-99999]"}) {
    EXPECT_FALSE(expand_hosts(bad).ok()) << bad;
  }
}

TEST(LaunchHosts, Nodes) {
  Running machine;
  machine.hosts = {"node-0", "node-1", "node-2"};
  EXPECT_THAT(*nodes_of(machine, {"node-2", "node-0"}), ElementsAre(2, 0));
  EXPECT_THAT(*nodes_of(machine, {"127.0.0.1", "localhost", "127.0.0.1"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(*nodes_of(machine, {"trn-b", "trn-a", "trn-b"}), ElementsAre(0, 1, 0));
  EXPECT_FALSE(nodes_of(machine, {"a", "b", "c", "d"}).ok());
  EXPECT_EQ(machine.node_of("node-1", 2), 1u);
  EXPECT_EQ(machine.node_of("localhost", 2), 2u);
  EXPECT_FALSE(machine.node_of("node-3", 2).has_value());
  EXPECT_FALSE(machine.node_of("", 2).has_value());
}

TEST(LaunchEnvironment, OneVariableChanges) {
  const Words environment = on_node({"A=1", "SOMA_NODE=0", "SOMA_NODES=x"}, 3);
  EXPECT_THAT(environment, ElementsAre("A=1", "SOMA_NODE=3", "SOMA_NODES=x"));
}

}  // namespace
}  // namespace soma::launch
