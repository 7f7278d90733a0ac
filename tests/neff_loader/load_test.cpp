// Every rule of spec/neff.md 1.10 and 4.6 that a loader can check, on spoilt copies of the
// examples.
#include <gtest/gtest.h>

#include <algorithm>

#include "neff_loader/asm.h"
#include "neff_loader/pack.h"
#include "tests/neff_loader/rules.h"

namespace neff {
namespace {

using test::Bytes;
using test::Case;
using test::example;
using test::expect_error;
using test::expect_refused;
using test::kDef;
using test::kSp;
using test::loaded;
using test::member;
using test::Members;
using test::packed;
using test::replace;

TEST(Load, VectorAdd) {
  const Neff neff = loaded(packed(example("vector_add")));
  EXPECT_TRUE(neff.executable);
  EXPECT_TRUE(neff.warnings.empty()) << neff.warnings[0];
  ASSERT_EQ(neff.subgraphs.size(), 1u);
  const Subgraph& sg = neff.subgraphs[0];
  EXPECT_EQ(sg.core_version, 2u);
  ASSERT_EQ(sg.variables.size(), 4u);
  EXPECT_EQ(sg.variables[0].type, VariableType::kStateBuffer);
  EXPECT_EQ(sg.find_variable("b")->var_id, 2u);
  EXPECT_EQ(sg.find_variable(uint32_t{3})->name, "c");
  EXPECT_EQ(sg.find_variable("d"), nullptr);
  ASSERT_EQ(sg.queues.size(), 2u);
  EXPECT_EQ(sg.queues[0].num_queues, 16u);
  EXPECT_EQ(sg.queues[0].owner, Engine::kSp);
  EXPECT_EQ(sg.program(Engine::kPe), nullptr);

  const EngineProgram& sp = *sg.program(Engine::kSp);
  ASSERT_EQ(sp.steps.size(), 5u);
  ASSERT_EQ(sp.dma.size(), 3u);
  ASSERT_EQ(sp.blocks.size(), 3u);
  const DmaBlock* block = sp.triggered_block(sp.steps[2]);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->id, 3);
  const DmaElement& store = sp.dma[block->elements[0]];
  EXPECT_EQ(store.semaphore, uint8_t{11});
  EXPECT_TRUE(store.section_start);
  EXPECT_EQ(sg.variables[store.transfers[0].destination.variable].name, "c");

  ASSERT_EQ(neff.tensors.size(), 3u);
  EXPECT_EQ(neff.tensors[2].name, "c");
  EXPECT_FALSE(neff.tensors[2].is_input);
  EXPECT_EQ(neff.tensors[2].dtype, DataType::kFloat32);
  EXPECT_EQ(neff.tensors[2].shape, (std::vector<uint64_t>{128, 64}));
  EXPECT_EQ(neff.tensors[2].format, "NC");
  EXPECT_TRUE(check_context(neff, {}).ok());
}

TEST(Load, AllReduce) {
  const Neff neff = loaded(packed(example("allreduce_two_ranks")));
  const Subgraph& sg = neff.subgraphs[0];
  EXPECT_EQ(sg.scratchpad_bytes, 8192u);
  ASSERT_EQ(sg.collectives.size(), 1u);
  const CollectiveOp& op = sg.collectives[0];
  EXPECT_EQ(op.pc, 1u);
  EXPECT_EQ(op.type, CollectiveType::kAllReduce);
  EXPECT_EQ(op.source_bytes, 4096u);
  EXPECT_EQ(sg.variables[op.destination].name, "cc_out");
  EXPECT_EQ(sg.program(Engine::kPool)->steps[2].pc, 3u);  // behind the extension record
  EXPECT_EQ(*sg.cc.groups[0].list_of(1), (RankList{0, 1}));
  for (uint32_t rank : {0u, 1u}) EXPECT_TRUE(check_context(neff, {true, rank, 2}).ok());
}

TEST(Load, VectorAddWithALoop) {
  const Neff neff = loaded(packed(example("vector_add_loop")));
  EXPECT_TRUE(neff.warnings.empty());
  const EngineProgram& dve = *neff.subgraphs[0].program(Engine::kDve);
  ASSERT_EQ(dve.steps.size(), 6u);
  EXPECT_EQ(dve.steps[3].instruction.operands.compare_branch.target, -3);
  EXPECT_EQ(dve.steps[1].instruction.operands.tensor_tensor.src1.offset_register, 0);
}

class VectorAddRules : public testing::TestWithParam<Case> {};

TEST_P(VectorAddRules, AreEnforced) {
  const Case& c = GetParam();
  Members members = example("vector_add");
  replace(members, c.member, c.from, c.to);
  expect_refused(members, c.rule);
}

const Case kDefinitionCases[] = {
    {"D-01", kDef, "\"var\"", "\"vars\""},
    {"D-02", kDef, "\"var_id\": 1, ", ""},
    {"D-02", kDef, "\"type\": \"input\",  ", ""},
    {"D-02", kDef, "\"var_id\": 1, \"size\": 32768,", "\"var_id\": 1,"},
    {"D-02", kDef, "\"size\": 32768", "\"size\": -1"},
    {"D-02", kDef, "\"var_id\": 1", "\"var_id\": \"1\""},
    {"D-03", kDef, "\"output\"", "\"outputs\""},
    {"D-04", kDef, "\"var_id\": 2", "\"var_id\": 1"},
    {"D-05", kDef, "\"size\": 32768", "\"size\": 32768, \"alignment\": 48"},
    {"D-06", kDef, "\"type\": \"input\"", "\"type\": \"virtual\""},
    {"D-06", kDef, "\"type\": \"input\"", "\"type\": \"virtual\", \"backing_variable_off\": -8"},
    {"D-07", kDef, "\"type\": \"input\"", "\"type\": \"file\""},
    {"D-07", kDef, "\"type\": \"input\"", "\"type\": \"file\", \"file_name\": \"none.npy\""},
    {"D-07", kDef, "\"type\": \"input\"",
     "\"type\": \"file\", \"file_name\": \"sp.json\", \"x_file_offset\": 1000000"},
    {"V-11", kDef, "\"type\": \"input\"", "\"type\": \"file\", \"file_name\": \"../../x\""},
    {"D-08", kDef, "\"type\": \"input\"", "\"type\": \"pointer\""},
    {"D-08", kDef, "\"type\": \"input\"", "\"type\": \"pointer\", \"referenced_var_id\": 9"},
    {"D-09", kDef, "\"type\": \"input\"", "\"type\": \"dge-table\""},
    {"D-09", kDef, "\"type\": \"input\"", "\"type\": \"dge-table\", \"list\": []"},
    {"D-09", kDef, "\"type\": \"input\"", "\"type\": \"dge-table\", \"list\": [2, 77]"},
    {"D-11", kDef, "\"type\": \"in\", ", ""},
    {"D-11", kDef, "\"type\": \"in\"", "\"type\": \"inn\""},
    {"D-12", kDef, "\"num_queues\": 16", "\"num_queues\": 17"},
    {"D-12", kDef, "\"num_queues\": 16", "\"num_queues\": 0"},
    {"D-13", kDef, "\"num_queues\": 16", "\"num_queues\": 16, \"fabric_path\": \"third\""},
    {"D-14", kDef, "\"num_queues\": 16", "\"num_queues\": 16, \"queue_instances\": [\"i\", \"i\"]"},
    {"D-15", kDef, "\"semaphore\": 10", "\"semaphore\": 256"},
    {"D-15", kDef, "\"semaphore\": 10", "\"semaphore_set\": [1, -1]"},
    {"V-12", kDef, "\"dve.json\"", "\"DVE.json\""},
    {"V-12", kDef, "\"dve_instr\": \"dve.bin\"", "\"dve_instr\": \"DVE.bin\""},
    {"V-12", "kelf-0.json", "sg00/def.json", "sg01/def.json"},
    {"V-13", kSp, "] }", "]"},
    {"V-14", "kelf-0.json", "\"graphs\"", "\"graph\""},
    {"V-14", "neff.json", "\"accelerator\"", "\"cpu\""},
    {"V-15", "kelf-0.json", "\"sg00\" }", "\"sg00\" }, { \"definition\": \"sg00/def.json\" }"},
    {"V-17", kDef, "\"x_arch\": \"trn1\"", "\"x_arch\": \"trn9\""},
};
INSTANTIATE_TEST_SUITE_P(Definition, VectorAddRules, testing::ValuesIn(kDefinitionCases));

const Case kDmaCases[] = {
    {"E-01", kSp, "\"id\": 1, ", ""},
    {"E-01", kSp, "\"desc\"", "\"descs\""},
    {"E-01", kSp, "\"id\": 1,", "\"id\": 1.5,"},
    {"E-02", kSp, "\"queue\": \"qSyncIn0\", ", ""},
    {"E-02", kSp, "\"queue\": \"qSyncIn0\"", "\"queue\": \"qSyncIn1\""},
    {"E-02", kSp, "\"queue\": \"qSyncIn0\"", "\"queue\": \"qSyncIn0\", \"instance_name\": \"i\""},
    {"E-03", kSp, "\"id\": 1,", "\"id\": 1, \"function_start\": \"f\","},
    {"E-04", kSp, "\"op\": \"copy\"", "\"op\": \"move\""},
    {"E-05", kSp, "\"to\": \"SB\",", ""},
    {"E-05", kSp, "\"from\": \"a\",", ""},
    {"E-05", kSp, "\"op\": \"copy\"", "\"op\": \"copy\", \"from_arr\": []"},
    {"E-06", kSp, "\"from\": \"a\"", "\"from\": \"z\""},
    {"E-07", kSp, "\"from_steps\": [1, 256]", "\"from_steps\": [1]"},
    {"E-07", kSp, "\"from_sizes\": [256, 128], \"from_steps\": [1, 256]",
     "\"from_sizes\": [], \"from_steps\": []"},
    {"E-07", kSp, "\"from_sizes\": [256, 128], \"from_steps\": [1, 256]",
     "\"from_sizes\": [256, 128, 1, 1, 1], \"from_steps\": [1, 256, 0, 0, 0]"},
    {"E-08", kSp, "\"to_steps\":   [1, 262144]", "\"to_steps\":   [1, 0]"},
    {"E-08", kSp, "\"from_sizes\": [256, 128]", "\"from_sizes\": [256, 0]"},
    {"E-08", kSp, "\"from_sizes\": [256, 128], \"from_steps\": [1, 256]",
     "\"from_sizes\": [4611686018427387904, 4], \"from_steps\": [0, 0]"},
    {"E-09", kSp, "\"from_sizes\": [256, 128]", "\"from_sizes\": [256, 129]"},
    {"E-09", kSp, "\"from_off\": 0", "\"from_off\": -1"},
    {"E-09", kSp, "\"from_off\": 0", "\"from_off\": 9223372036854775807"},
    {"E-09", kSp, "\"to_off\": 0", "\"to_off\": 196500"},
    {"E-10", kSp, "\"from_sizes\": [256, 128]", "\"from_sizes\": [128, 128]"},
    {"E-10", kSp, "\"op\": \"copy\"",
     "\"op\": \"cast\", \"from_dtype\": \"bfloat16\", \"to_dtype\": \"float32\""},
    {"E-11", kSp, "\"op\": \"copy\"", "\"op\": \"cast\", \"from_dtype\": \"float33\""},
    {"E-11", kSp,
     "\"op\": \"copy\",\n        \"from\": \"a\", \"from_off\": 0, \"from_sizes\": [256, 128]",
     "\"op\": \"cast\", \"from_dtype\": \"float32\", \"from\": \"a\", \"from_off\": 0, "
     "\"from_sizes\": [254, 128]"},
    {"E-12", kSp, "\"op\": \"copy\"", "\"op\": \"add\", \"from_arr\": []"},
    {"E-13", kSp, "\"op\": \"copy\"", "\"op\": \"fma\", \"scale_dtype\": \"bfloat16\""},
    {"E-14", kSp, "\"op\": \"copy\"", "\"op\": \"max\", \"constant_dtype\": \"float32\""},
    {"E-14", kSp, "\"op\": \"copy\"",
     "\"op\": \"max\", \"constant_dtype\": \"int8\", \"constant\": 0"},
    {"E-15", kSp, "\"op\": \"copy\"", "\"op\": \"transpose\", \"transpose_shape\": [1, 1, 128]"},
    {"E-15", kSp, "\"op\": \"copy\"",
     "\"op\": \"transpose\", \"transpose_shape\": [1, 1, 128, 127]"},
    {"E-15", kSp, "\"op\": \"copy\"", "\"op\": \"transpose\", \"x_perm\": [0, 1, 2, 2]"},
    {"E-16", kSp, "\"semaphore\": 10", "\"semaphore\": 256"},
    {"E-16", kSp, "\"semaphore\": 10", "\"semaphore\": 10, \"event\": -1"},
    {"E-17", kSp, "\"semaphore\": 10", "\"semaphore\": 10, \"remote_semaphores\": [30]"},
    {"E-20", "sg00/sp.s", "block_id=3", "block_id=4"},
    {"E-20", "sg00/sp.s", "qSyncOut0", "qSyncIn0"},
    {"E-20", "sg00/sp.s", "qSyncOut0", "qOther"},
    {"E-20", kDef, "\"sp\":  \"sp.json\", ", ""},
};
INSTANTIATE_TEST_SUITE_P(Dma, VectorAddRules, testing::ValuesIn(kDmaCases));

const Case kProgramCases[] = {
    {"B-03", "sg00/dve.s", "dst=fp32@512", "dst=fp32@196400"},
    {"B-03", "sg00/dve.s", "src0=fp32@0[1][64]", "src0=fp32@0[-1][64]"},
    {"B-03", "sg00/dve.s", "src0=fp32@0[1][64]", "src0=fp32@psum:16384[1][64]"},
    {"B-03", "sg00/dve.s", "2  HALT", ""},
    {"B-03", "sg00/sp.s", "4  HALT", "WRITE data=1 size=4 dst=0x1000\nHALT"},
    {"B-04", "sg00/dve.s", "2  HALT", "BRANCH target=+1"},
    {"B-04", "sg00/dve.s", "2  HALT", "BRANCH target=-1"},  // into an extension record
};
INSTANTIATE_TEST_SUITE_P(Program, VectorAddRules, testing::ValuesIn(kProgramCases));

TEST(Load, EngineFileErrors) {
  const auto spoilt = [](size_t at, uint8_t value) {
    Members members = example("vector_add");
    member(members, "sg00/dve.s").name = "sg00/unused.txt";
    Bytes program = *assemble(".engine dve\n.arch trn1\nNOP\nHALT\n");
    program[at] = value;
    members.push_back({"sg00/dve.bin", program});
    return members;
  };
  expect_refused(spoilt(0, 'X'), "B-01");
  expect_refused(spoilt(12, 4), "B-01");  // engine sp under the key dve
  expect_refused(spoilt(13, 3), "B-01");
  expect_refused(spoilt(20, 200), "B-01");
  expect_refused(spoilt(128, 214), "B-02");
  expect_refused(spoilt(128, 132), "B-02");  // DMA_DIRECT2D
  expect_refused(spoilt(130, 1), "B-03");
  expect_refused(spoilt(128 + 63, 1), "B-03");
  const auto unknown = load(packed(spoilt(128, 214)));
  EXPECT_NE(unknown.error().what.find("Unsupported hardware operator code 214 found in neff."),
            std::string::npos);
  const auto known = load(packed(spoilt(128, 132)));
  EXPECT_EQ(known.error().fault, base::Fault::kUnsupported);
}

// What pack() itself would refuse.
Bytes raw_file(const Members& members) {
  Header header;
  header.feature_bits = kFeatureEmulator;
  return test::file_of(*write_archive(members, true), header);
}

TEST(Load, MalformedJson) {
  for (const char* text :
       {"", "[]", "7", "{", "{\"var\": {}", "{\"a\": \"\xff\"}", "{} trailing", "nul"}) {
    Members members = example("vector_add");
    member(members, kDef).data = text_bytes(text);
    const auto neff = load(raw_file(members));
    ASSERT_FALSE(neff.ok()) << text;
    expect_error(neff.error(), "V-13", 2);
    EXPECT_NE(neff.error().what.find("Unable to parse: sg00/def.json - 1"), std::string::npos);
  }
  Members members = example("vector_add");
  member(members, kDef).data = text_bytes(std::string(100000, '['));
  expect_error(load(raw_file(members)).error(), "V-13", 2);
}

TEST(Load, Inf1Restrictions) {
  const auto refused = [](const char* file, const char* from, const char* to, const char* rule) {
    PackOptions foreign;
    foreign.feature_bits = 0;
    Members members = example("vector_add");
    for (const char* program : {"sg00/sp", "sg00/dve"}) {
      member(members, std::string(program) + ".s").name = std::string(program) + ".bin";
    }
    replace(members, kDef, "trn1", "inf1");
    for (int i = 0; i < 2; ++i) replace(members, kDef, "\"num_queues\": 16, ", "");
    replace(members, file, from, to);
    const auto neff = load(packed(members, foreign));
    ASSERT_FALSE(neff.ok());
    expect_error(neff.error(), rule, 2);
  };
  refused(kDef, "\"type\": \"in\"", "\"type\": \"in\", \"num_queues\": 2", "D-12");
  refused(kDef, "\"type\": \"in\"", "\"type\": \"in\", \"queue_instances\": [\"i\"]", "D-14");
  refused(kSp, "\"id\": 1", "\"id\": 1", "E-18");  // section_start_desc is there already
}

TEST(Load, TargetAndResources) {
  const Bytes file = packed(example("vector_add"));
  LoadOptions trn2;
  trn2.target_core_version = 3;
  expect_error(load(file, trn2).error(), "V-17", 2);
  trn2.allow_legacy = true;
  EXPECT_TRUE(load(file, trn2).ok());
  LoadOptions lnc;
  lnc.target_lnc = 2;
  expect_error(load(file, lnc).error(), "V-15", 2);
  LoadOptions plain;
  plain.supported_features = kDefaultFeatureMask & ~kFeatureEmulator;
  expect_error(load(file, plain).error(), "V-07", 10);
  LoadOptions deep;
  deep.limits.max_json_depth = 3;
  LoadOptions many;
  many.limits.max_json_values = 20;
  expect_error(load(file, many).error(), "R-01", 4);
  expect_error(load(file, deep).error(), "V-13", 2);
}

TEST(Load, TwoCoresForOneLogicalCore) {
  Members members = example("vector_add");
  Members second = members;
  for (Member& m : second) {
    if (m.name.rfind("sg00/", 0) != 0) continue;
    m.name.replace(0, 4, "sg01");
    members.push_back(m);
  }
  members.erase(std::find_if(members.begin(), members.end(),
                             [](const Member& m) { return m.name == "kelf-0.json"; }));
  replace(members, kDef, "trn1", "trn2");
  replace(members, "sg01/def.json", "trn1", "trn2");
  for (const char* source : {"sg00/dve.s", "sg00/sp.s", "sg01/dve.s", "sg01/sp.s"}) {
    replace(members, source, ".arch trn1", ".arch trn2");
  }
  replace(members, "sg01/sp.json", "\"semaphore\": 11",
          "\"semaphore\": 11, \"remote_semaphores\": [30]");
  const Neff neff = loaded(packed(members));
  EXPECT_EQ(neff.header.num_tpb, 2u);
  EXPECT_EQ(neff.header.lnc_size, 2u);
  ASSERT_EQ(neff.subgraphs.size(), 2u);
  EXPECT_EQ(neff.subgraphs[1].name, "sg01");
  EXPECT_EQ(neff.subgraphs[1].program(Engine::kSp)->dma[2].remote_semaphores,
            (std::vector<uint8_t>{30}));
  LoadOptions few;
  few.available_cores = 1;
  expect_error(load(packed(members), few).error(), "V-16", 9);
}

TEST(Load, ForeignFilesAreForInspection) {
  PackOptions options;
  options.feature_bits = 0;
  Members members = example("vector_add");
  member(members, "sg00/dve.s").name = "sg00/note.txt";
  members.push_back({"sg00/dve.bin", {1, 2, 3}});
  const Neff neff = loaded(packed(members, options));
  EXPECT_FALSE(neff.executable);
  EXPECT_EQ(neff.subgraphs[0].program(Engine::kSp)->blocks.size(), 3u);
  EXPECT_TRUE(neff.subgraphs[0].program(Engine::kSp)->steps.empty());
  options.version_major = 1;
  options.feature_bits = kFeatureEmulator;  // means nothing before 2.0
  EXPECT_FALSE(loaded(packed(members, options)).executable);
}

TEST(Load, WarningsDoNotRefuse) {
  Members members = example("vector_add");
  replace(members, kDef, "\"num_queues\": 16",
          "\"num_queues\": 16, \"pinned\": true, \"owner\": \"nobody\"");
  replace(members, kDef, "\"type\": \"input\"",
          "\"type\": \"input\", \"file_name\": \"x\", \"backing_variable_off\": 5");
  replace(members, kSp, "\"from_off\": 0, ", "");
  replace(members, kSp, "\"op\": \"copy\"", "\"op\": \"copy\", \"scale\": 2.0");
  replace(members, "neff.json", "\"name\": \"a\", \"usage\"", "\"name\": \"ghost\", \"usage\"");
  const Neff neff = loaded(packed(members));
  EXPECT_EQ(neff.warnings.size(), 6u);
}

TEST(Load, TransfersWithSeveralSources) {
  Members members = example("vector_add");
  replace(members, kSp,
          "\"op\": \"copy\",\n        \"from\": \"a\", \"from_off\": 0, \"from_sizes\": [256, "
          "128], \"from_steps\": [1, 256],",
          "\"op\": \"fma\", \"scale\": 0.5, \"to_dtype\": \"float32\", \"from_arr\": ["
          "{\"from\": \"a\", \"from_off\": 0, \"from_sizes\": [16384], \"from_steps\": [1], "
          "\"from_dtype\": \"bfloat16\"},"
          "{\"from\": \"b\", \"from_off\": 0, \"from_sizes\": [32768], \"from_steps\": [1], "
          "\"from_dtype\": \"float32\","
          " \"scale\": 3}],");
  const Neff neff = loaded(packed(members));
  const DmaTransfer& t = neff.subgraphs[0].program(Engine::kSp)->dma[0].transfers[0];
  EXPECT_EQ(t.op, DmaOp::kFma);
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_EQ(t.sources[0].scale, 0.5);
  EXPECT_EQ(t.sources[0].dtype, DataType::kBfloat16);
  EXPECT_EQ(t.sources[1].scale, 3.0);
}

TEST(Load, BlocksByFunctionAndInstance) {
  Members members = example("vector_add");
  replace(members, kDef, "\"semaphore\": 11", "\"queue_instances\": [\"outA\", \"outB\"]");
  replace(members, kSp, "\"id\": 2,", "\"id\": 1, \"function_start\": \"f\",");
  replace(members, kSp, "\"id\": 3, \"queue\": \"qSyncOut0\"",
          "\"id\": 3, \"instance_name\": \"outB\"");
  replace(members, "sg00/sp.s", "qSyncOut0 block_id=3", "qSyncOut0 block_id=3 instance=outB");
  replace(members, "sg00/sp.s", "1  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2", "");
  replace(members, "sg00/sp.s", "4  HALT",
          "HALT\n.function f\nPSEUDO_DMA_TRIGGER qSyncIn0 block_id=1\nHALT\n.endfunction");
  const Neff neff = loaded(packed(members));
  const EngineProgram& sp = *neff.subgraphs[0].program(Engine::kSp);
  ASSERT_EQ(sp.blocks.size(), 3u);
  EXPECT_EQ(sp.blocks[1].function, "f");
  EXPECT_EQ(sp.triggered_block(sp.steps[0]), &sp.blocks[0]);
  EXPECT_EQ(sp.triggered_block(sp.steps[1]), &sp.blocks[2]);
  EXPECT_EQ(sp.triggered_block(sp.steps[4]), &sp.blocks[1]);
  EXPECT_EQ(neff.subgraphs[0].queues[sp.blocks[2].queue].name, "qSyncOut0");
}

TEST(Load, Constants) {
  const auto with_file = [](const std::string& name, const Bytes& content, const char* extra = "") {
    Members members = example("vector_add");
    replace(members, kDef, "\"type\": \"output\", \"var_id\": 3",
            "\"type\": \"file\", \"file_name\": \"" + name + "\", \"var_id\": 3" + extra);
    members.push_back({"sg00/" + name, content});
    return members;
  };
  const auto npy = [](const std::string& order, size_t bytes) {
    std::string header = "{'descr': '<f4', 'fortran_order': " + order + ", 'shape': (8192,), }";
    header.resize(117, ' ');
    header += '\n';
    const std::string text = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) +
                             std::string(1, 0) + header + std::string(bytes, 42);
    return text_bytes(text);
  };
  const Neff neff = loaded(packed(with_file("w.npy", npy("False", 32768))));
  const Variable& w = *neff.subgraphs[0].find_variable("c");
  ASSERT_EQ(w.content.size(), 32768u);
  EXPECT_EQ(w.content[0], 42);
  expect_refused(with_file("w.npy", npy("True", 32768)), "D-07");
  expect_refused(with_file("w.npy", npy("False", 32767)), "D-07");
  expect_refused(with_file("w.npy", {0x93, 'N', 'U'}), "D-07");
  expect_refused(with_file("w.npy", {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 255, 255, 255, 255, 0}),
                 "D-07");
  expect_refused(with_file("w.raw", Bytes(32769)), "D-07");
  // One for the short file, one for neff.json, which still lists c as an output.
  EXPECT_EQ(loaded(packed(with_file("w.raw", Bytes(100)))).warnings.size(), 2u);
  const Neff merged =
      loaded(packed(with_file("all.raw", Bytes(70000, 9), ", \"x_file_offset\": 1000")));
  EXPECT_EQ(merged.subgraphs[0].find_variable("c")->content.size(), 32768u);
}

TEST(Load, SecondKelfAndMissingKelf) {
  Members two = example("vector_add");
  two.push_back({"kelf-1.json", member(two, "kelf-0.json").data});
  expect_refused(two, "V-14");
  Members none = example("vector_add");
  none.erase(std::find_if(none.begin(), none.end(),
                          [](const Member& m) { return m.name == "kelf-0.json"; }));
  none.erase(std::find_if(none.begin(), none.end(),
                          [](const Member& m) { return m.name == "sg00/def.json"; }));
  expect_refused(none, "V-14");
}

}  // namespace
}  // namespace neff
