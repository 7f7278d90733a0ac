// In which order programs with functions and queue instances run their triggers.
#include "neff_loader/flow.h"

#include <gtest/gtest.h>

#include "tests/neff_loader/rules.h"

namespace neff {
namespace {

using test::example;
using test::expect_error;
using test::kDef;
using test::kSp;
using test::loaded;
using test::Members;
using test::packed;
using test::replace;

// vector_add with this program of the Sync engine behind its three triggers.
Members program(const std::string& text) {
  Members members = example("vector_add");
  replace(members, "sg00/sp.s", "4  HALT", text);
  return members;
}

std::string call(const std::string& name) {
  return "CALL name=" + name + "\n";
}
std::string function(const std::string& name, const std::string& body) {
  return ".function " + name + "\n" + body + "RETURN\n.endfunction\n";
}

// "id" of a block that runs once, "(id)" of one that may run otherwise.
std::string flow_of(const Members& members) {
  const Neff neff = loaded(packed(members));
  const EngineProgram& p = *neff.subgraphs[0].program(Engine::kSp);
  std::string text;
  for (const FlowStep& f : p.flow) {
    const std::string id = std::to_string(p.blocks[f.block].id);
    text += (text.empty() ? "" : " ") + (f.repeated ? "(" + id + ")" : id);
  }
  return text;
}

// A block 4 of the function `f`, on the queue of the loads.
Members with_block_of_function(const std::string& text) {
  Members members = program(text);
  replace(members, kSp, "{ \"id\": 2,", "{ \"id\": 4, \"function_start\": \"f\",");
  replace(members, "sg00/sp.s", "1  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2\n", "");
  return members;
}
constexpr char kTrigger4[] = "PSEUDO_DMA_TRIGGER qSyncIn0 block_id=4\n";

TEST(Flow, FunctionsRunWhereTheyAreCalled) {
  EXPECT_EQ(flow_of(program("HALT")), "1 2 3");
  EXPECT_EQ(
      flow_of(with_block_of_function(call("f") + call("f") + "HALT\n" + function("f", kTrigger4))),
      "1 3 4 4");
  EXPECT_EQ(flow_of(with_block_of_function(call("g") + "HALT\n" + function("f", kTrigger4) +
                                           function("g", call("f") + call("f")))),
            "1 3 4 4");
  // A function that nobody calls only names records.
  EXPECT_EQ(flow_of(with_block_of_function(".function f\n" + std::string(kTrigger4) +
                                           ".endfunction\nHALT\n")),
            "1 3 4");
}

TEST(Flow, LoopsAndBranchesRepeatWhatTheyCall) {
  EXPECT_EQ(flow_of(with_block_of_function("loop:\n" + call("f") +
                                           "COMPARE_BRANCH cond=NE a=r1 b=0 target=loop\nHALT\n" +
                                           function("f", kTrigger4))),
            "1 3 (4)");
  EXPECT_EQ(
      flow_of(with_block_of_function("COMPARE_BRANCH cond=NE a=r1 b=0 target=end\n" + call("f") +
                                     "end:\n" + call("f") + "HALT\n" + function("f", kTrigger4))),
      "1 3 (4) 4");
  // What an early RETURN may leave out.
  EXPECT_EQ(flow_of(with_block_of_function(
                call("f") + "HALT\n" +
                function("f", "COMPARE_BRANCH cond=EQ a=r1 b=0 target=go\nRETURN\ngo:\n" +
                                  std::string(kTrigger4)))),
            "1 3 (4)");
}

TEST(Flow, TriggersLookInTheActiveInstanceFirst) {
  Members members = program(
      "SWITCH_QUEUE_INSTANCE qSyncIn0 instance=spare\n"
      "PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\nPSEUDO_DMA_TRIGGER qSyncIn0 block_id=2\n"
      "SWITCH_QUEUE_INSTANCE qSyncIn0\nPSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\nHALT\n");
  replace(members, kDef, "\"semaphore\": 10",
          "\"semaphore\": 10, \"queue_instances\": [\"spare\"]");
  replace(members, kSp, "\"id\": 3, \"queue\": \"qSyncOut0\"",
          "\"id\": 1, \"instance_name\": \"spare\"");
  replace(members, "sg00/sp.s", "qSyncOut0 block_id=3", "qSyncIn0 block_id=1 instance=spare");
  const Neff neff = loaded(packed(members));
  const EngineProgram& p = *neff.subgraphs[0].program(Engine::kSp);
  std::vector<std::string> keys;
  for (const FlowStep& f : p.flow) keys.push_back(p.blocks[f.block].key);
  EXPECT_EQ(keys, (std::vector<std::string>{"qSyncIn0", "qSyncIn0", "spare", "spare", "qSyncIn0",
                                            "qSyncIn0"}));
}

TEST(Flow, BadCallsAreRefused) {
  const auto refused = [](const std::string& text, const char* what) {
    const auto neff = load(packed(program(text)));
    ASSERT_FALSE(neff.ok()) << text;
    expect_error(neff.error(), "B-04", 2);
    EXPECT_NE(neff.error().what.find(what), std::string::npos) << neff.error().what;
  };
  refused(call("f") + "HALT\n", "a function that the file does not have");
  refused("RETURN\nHALT\n", "RETURN outside");
  refused(call("f") + "HALT\n.function f\nHALT\n.endfunction\n", "HALT inside");
  refused(call("f") + function("f", "NOP\n") + "HALT\n", "without a CALL or RETURN");
  refused(call("f") + "HALT\n.function f\nNOP\n.endfunction\nHALT\n", "without a CALL or RETURN");
  refused(call("f") + "top:\nHALT\n" + function("f", "BRANCH target=top\n"), "crosses the border");
  refused(call("f") + "HALT\n" + function("f", call("f")), "calls itself");
  refused(call("f") + "HALT\n" + function("f", call("g")) + function("g", call("f")),
          "calls itself");
  refused("HALT\n" + function("f", call("g")) +
              function("g", "PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\n") + "HALT\n",
          "RETURN outside");  // f is not called
  refused("BRANCH_LINK target=+1\nHALT\n", "calls functions by CALL");
  refused("SWITCH_QUEUE_INSTANCE qSyncIn0 instance=none\nHALT\n", "has no instance 'none'");
  refused("SWITCH_QUEUE_INSTANCE other\nHALT\n", "names no queue set");
}

// vector_add with tables of one and of two tensors, variables 90 and 91.
Members with_tables(const std::string& text) {
  Members members = program(text);
  replace(members, kDef, "\"var\": {",
          "\"var\": { \"one\": { \"type\": \"dge-table\", \"var_id\": 90, \"size\": 16, "
          "\"list\": [1] }, \"two\": { \"type\": \"dge-table\", \"var_id\": 91, \"size\": 32, "
          "\"list\": [1, 2] },");
  return members;
}

TEST(Flow, ArgumentsComeFromTheCallTheFunctionOrTheCaller) {
  const std::string second = "TENSOR_LOAD dst=r4 src=uint32@arg1:0[4][1]\n";
  const std::string of_two = "CALL name=f args_table_var_id=91\n";
  const auto accepted = [](const std::string& text) {
    const auto neff = load(packed(with_tables(text)));
    EXPECT_TRUE(neff.ok()) << (neff.ok() ? "" : neff.error().message());
  };
  const auto refused = [](const std::string& text, const char* rule, const char* what) {
    const auto neff = load(packed(with_tables(text)));
    ASSERT_FALSE(neff.ok()) << text;
    expect_error(neff.error(), rule, 2);
    EXPECT_NE(neff.error().what.find(what), std::string::npos) << neff.error().what;
  };
  accepted(of_two + "HALT\n" + function("f", second));
  accepted("CALL name=f\nHALT\n" + function("f args_table_var_id=91", second));
  accepted(of_two + "HALT\n" + function("f", call("g")) + function("g", second));
  refused(call("f") + "HALT\n" + function("f", second), "E-20", "argument 1 of 0 is named");
  refused(second + "HALT\n", "E-20", "argument 1 of 0 is named");
  refused("CALL name=f args_table_var_id=90\nHALT\n" + function("f args_table_var_id=91", second),
          "E-20", "argument 1 of 1 is named");
  refused(of_two + "CALL name=g args_table_var_id=90\nHALT\n" + function("f", call("g")) +
              function("g", second),
          "E-20", "argument 1 of 1 is named");
  refused("CALL name=f args_table_var_id=1\nHALT\n" + function("f", "NOP\n"), "B-04",
          "which is no dge-table");
  refused("TENSOR_LOAD dst=r4 src=uint32@t1:0[4][1]\nHALT\n", "E-20",
          "TENSOR_LOAD names tensor 1 of a dge-table of 1");
}

TEST(Flow, DepthAndLengthAreLimited) {
  const auto chain = [](int depth, int calls) {
    std::string text = call("f0") + "HALT\n";
    for (int i = 0; i < depth; ++i) {
      std::string body = i + 1 < depth ? "" : "PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\n";
      for (int k = 0; i + 1 < depth && k < calls; ++k) body += call("f" + std::to_string(i + 1));
      text += function("f" + std::to_string(i), body);
    }
    Members members = program(text);
    replace(members, kSp, "{ \"id\": 1,",
            "{ \"id\": 1, \"function_start\": \"f" + std::to_string(depth - 1) + "\",");
    replace(members, "sg00/sp.s", "0  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\n", "");
    replace(members, "sg00/sp.s", "1  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2\n", "");
    return members;
  };
  EXPECT_EQ(flow_of(chain(64, 1)), "3 1");
  const auto deep = load(packed(chain(65, 1)));
  ASSERT_FALSE(deep.ok());
  expect_error(deep.error(), "B-04", 2);
  const auto wide = load(packed(chain(40, 2)));  // 2^39 triggers
  ASSERT_FALSE(wide.ok());
  expect_error(wide.error(), "R-01", 4);
}

}  // namespace
}  // namespace neff
