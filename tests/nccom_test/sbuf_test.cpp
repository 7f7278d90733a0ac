// --sb2sb: shapes, what concatenates them, what is refused, and the program that comes of it.
#include "tools/nccom-test/sbuf.h"

#include <gtest/gtest.h>

#include <sstream>

#include "neff_loader/neff.h"
#include "tools/nccom-test/options.h"
#include "tools/nccom-test/program.h"

namespace nccom {
namespace {

Parsed parsed(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> arguments;
  for (std::string word; text >> word;) arguments.push_back(word);
  return parse(arguments);
}

SbufShapes shapes(const std::string& line) {
  const Parsed p = parsed(line);
  EXPECT_TRUE(p.proceed) << p.text;
  if (!p.proceed) return {};
  const Options& o = p.streams.front();
  const auto shapes = sbuf_shapes(o, size_list(o).front());
  EXPECT_TRUE(shapes);
  return shapes ? *shapes : SbufShapes();
}

void expect_shape(const SbufShape& shape, uint64_t elements, uint32_t partitions,
                  uint32_t step = 1) {
  EXPECT_EQ(shape.elements, elements);
  EXPECT_EQ(shape.partitions, partitions);
  EXPECT_EQ(shape.step, step);
}

TEST(Sbuf, DefaultShapesUseMostPartitions) {
  const SbufShapes reduce = shapes("-r 2 -b 1200 -e 1200 -d bf16 --sb2sb allr");
  expect_shape(reduce.input, 75, 8);
  expect_shape(reduce.output, 75, 8);
  // Two chunks of 64 partitions fill all of them; four go on in the next elements.
  const SbufShapes two = shapes("-r 2 -b 1536 -e 1536 -d fp32 --sb2sb allg");
  expect_shape(two.input, 3, 64);
  expect_shape(two.output, 3, 128);
  const SbufShapes four = shapes("-r 4 -b 3072 -e 3072 -d fp32 --sb2sb allg");
  expect_shape(four.output, 6, 128);
  EXPECT_EQ(four.output_row, 3u);
  const SbufShapes scatter = shapes("-r 4 -b 3072 -e 3072 -d fp32 --sb2sb redsct");
  expect_shape(scatter.input, 6, 128);
  expect_shape(scatter.output, 3, 64);
  EXPECT_EQ(scatter.input_row, 3u);
}

TEST(Sbuf, ChunksSideBySide) {
  const SbufShapes four = shapes("-r 4 -b 3072 -e 3072 -d fp32 --sb2sb --cc-dim 0 allg");
  expect_shape(four.input, 3, 64);
  expect_shape(four.output, 12, 64);
  // Three chunks of 64 partitions do not fill 128.
  expect_shape(shapes("-r 3 -b 2304 -e 2304 -d fp32 --sb2sb allg").output, 9, 64);
}

TEST(Sbuf, GivenShapes) {
  const SbufShapes given = shapes(
      "-r 2 -b 4096 -e 4096 -d fp32 --sb2sb --input-shape [1,2][16,32] --output-shape [1,4][32,32] "
      "allg");
  expect_shape(given.input, 16, 32, 2);
  expect_shape(given.output, 32, 32, 4);
}

TEST(Sbuf, Refusals) {
  const auto refused = [](const std::string& line, const std::string& text) {
    const Parsed p = parsed("-r 2 -b 4096 -e 4096 -d fp32 " + line);
    EXPECT_FALSE(p.proceed) << line;
    EXPECT_EQ(p.exit_code, 2) << line;
    EXPECT_NE(p.text.find("nccom-test: error: argument " + text), std::string::npos) << p.text;
  };
  refused("allr --input-shape [1,1][8,128]", "--input-shape: only with --sb2sb");
  refused("allr --cc-dim 0", "--cc-dim: only with --sb2sb");
  refused("allg --sb2sb --cc-dim 2", "--cc-dim: must be 0 to 1");
  refused("redsct --sb2sb --cc-dim 0", "--cc-dim: reduce_scatter");
  refused("alltoall --sb2sb", "--sb2sb: only for all_reduce");
  refused("allr --sb2sb --coalesced-cc-size-ratio [1,1]", "--sb2sb: not allowed with");
  refused("allr --sb2sb --input-shape 8x128", "--input-shape: invalid shape");
  refused("allr --sb2sb --input-shape [1,1][8,0]", "--input-shape: invalid shape");
  refused("allr --sb2sb --input-shape [2,1][8,128]", "--input-shape: shape");
  refused("allr --sb2sb --input-shape [1,2][8,128]", "--input-shape: shape");
  refused("allr --sb2sb --input-shape [1,1][8,64]", "--sb2sb: an input shape of 8 x 64");
  refused("allg --sb2sb --cc-dim 0 --input-shape [1,1][8,64] --output-shape [1,1][8,128]",
          "--sb2sb: chunks side by side");
  refused("allg --sb2sb --input-shape [1,1][16,32] --output-shape [1,1][8,128]",
          "--sb2sb: chunks of 16 x 32");
}

TEST(Sbuf, ProgramWorksInOneStateBuffer) {
  const Parsed p = parsed("-r 4 -b 3072 -e 3072 -d fp32 -c --sb2sb --unique-buff allg");
  ASSERT_TRUE(p.proceed) << p.text;
  const auto program = make_program({p.streams, {3072}, 2, "trn2", 1});
  ASSERT_TRUE(program) << program.error().message();
  neff::LoadOptions options;
  options.target_core_version = 3;
  const auto neff = neff::load(program->neff, options);
  ASSERT_TRUE(neff) << neff.error().message();
  const neff::Subgraph& sg = neff->subgraphs[0];
  ASSERT_EQ(sg.collectives.size(), 2u);
  const neff::CollectiveOp& op = sg.collectives[0];
  EXPECT_EQ(sg.variables[op.source].type, neff::VariableType::kStateBuffer);
  ASSERT_TRUE(op.source_sbuf && op.destination_sbuf);
  EXPECT_EQ(op.source_sbuf->row_bytes, 12u);
  EXPECT_EQ(op.destination_sbuf->row_bytes, 24u);
  EXPECT_EQ(op.destination_offset, 64u);
  EXPECT_EQ(sg.collectives[1].source_offset, 128u);
  // The output leaves as the concatenation: rows, partitions, columns.
  const neff::AccessPattern& out = sg.programs[0].dma[1].transfers[0].sources[0].pattern;
  EXPECT_EQ(out.sizes, (std::array<int64_t, 4>{12, 128, 2, 1}));
  EXPECT_EQ(out.steps[1], static_cast<int64_t>(neff::kPartitionPitch));
  EXPECT_EQ(out.steps[2], 12);
}

TEST(SharedOutput, IsTheTensorOfBothCores) {
  const Parsed p = parsed("-r 4 -b 4096 -e 4096 -d fp32 -c --shared-output-buff allg");
  ASSERT_TRUE(p.proceed) << p.text;
  const auto program = make_program({p.streams, {4096}, 2, "trn2", 2});
  ASSERT_TRUE(program) << program.error().message();
  const auto neff = neff::load(program->neff);
  ASSERT_TRUE(neff) << neff.error().message();
  const neff::Subgraph& sg = neff->subgraphs[0];
  const neff::Variable& y = sg.variables[sg.collectives[0].destination];
  EXPECT_EQ(y.type, neff::VariableType::kOutput);
  EXPECT_EQ(sg.programs[0].dma.size(), 1u);  // of the input
  ASSERT_EQ(neff->subgraphs.size(), 2u);
  ASSERT_NE(neff->subgraphs[1].find_variable(y.name), nullptr);
  EXPECT_EQ(neff->subgraphs[1].find_variable(y.name)->size, 4096u);
  EXPECT_FALSE(parsed("-r 4 --shared-output-buff --unique-buff allg").proceed);
  EXPECT_FALSE(parsed("-r 4 -b 4096 -e 4096 --shared-output-buff --sb2sb allg").proceed);
}

}  // namespace
}  // namespace nccom
