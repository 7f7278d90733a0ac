// Every data type with every reduction over the ranks of four devices, bit for bit what the
// schedule says: exact_client trn1|trn2 [brief], on a machine of that kind. The algorithms take
// turns; sums of floats, in which the order of operations shows, meet all of them. Brief: beside
// these sums only one reduction of each type; reductions are the same on all machines.
#include <nrt/nrt.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "runtime/collectives/schedule/select.h"
#include "tests/collectives/schedule/groups.h"
#include "tests/nccom_test/schedule_model.h"
#include "tools/nccom-test/golden.h"
#include "tools/nccom-test/launch.h"
#include "tools/nccom-test/program.h"
#include "tools/nccom-test/rank.h"

namespace nccom {
namespace {

constexpr const char* kTypes[] = {"uint8", "int8",  "uint16", "int16", "uint32", "int32", "uint64",
                                  "int64", "fp8e3", "fp8e4",  "fp8e5", "fp16",   "bf16",  "fp32"};
constexpr const char* kReductions[] = {"add", "max", "min"};

struct Case {
  Options options;
  std::string algorithm;
  std::string text;
};

// A row of the torus.
ccl::Group group_of_platform(const std::string& arch) {
  const ccl::Platform torus =
      arch == "trn1" ? ccl::torus(ccl::Gen::kV2, 2) : ccl::torus(ccl::Gen::kV3, 4);
  return ccl::group_of_ranks(torus, 0, 4 * torus.topology.cores);
}

// What the schedule makes of the inputs.
std::vector<Bytes> expected(const Case& c, uint64_t size, const ccl::Group& group) {
  const Options& o = c.options;
  ccl::OpRequest request;
  request.kind = o.operation == Operation::kReduceScatter ? ccl::OpKind::kReduceScatter
                                                          : ccl::OpKind::kAllReduce;
  request.dtype = o.dtype.code;
  request.op = o.reduction;
  request.input_bytes = input_bytes(o, size);
  request.output_bytes = output_bytes(o, size);
  const auto schedule = ccl::make_schedule(request, group, {}, c.algorithm);
  if (!schedule) return {};
  std::vector<Bytes> inputs(group.ranks(), Bytes(request.input_bytes));
  for (uint32_t r = 0; r < group.ranks(); ++r) {
    make_input(o, r, 0, request.input_bytes / contract::dtype_size(o.dtype.code), inputs[r].data());
  }
  return execute(*schedule, inputs);
}

// True if all ranks have the bits of the model.
bool run_case(const Case& c, const std::string& arch, const ccl::Group& group) {
  const uint32_t ranks = group.ranks();
  ::setenv("NCCOM_CC_ALGO", c.algorithm.c_str(), 1);
  const std::vector<Options> streams{c.options};
  const uint64_t size = size_list(c.options).front();
  const Workload work{streams, {size}, 1, arch, group.topology.lnc};
  const auto program = make_program(work);
  if (!program) {
    std::printf("%s: %s\n", c.text.c_str(), program.error().message().c_str());
    return false;
  }
  std::vector<RankResult> results(ranks);
  Agreement agreement(ranks);
  SharedCheck check;
  SharedOutputs outputs;
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back(
        [&, r] { results[r] = run_rank(work, *program, r, 1, &agreement, &check, &outputs); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Bytes> want = expected(c, size, group);
  for (uint32_t r = 0; r < ranks; ++r) {
    if (!results[r].status) {
      std::printf("%s: %s\n", c.text.c_str(), results[r].status.error().message().c_str());
      return false;
    }
    if (want.size() == ranks && results[r].outputs[0] == want[r]) continue;
    std::printf("%s: rank %u does not have the bits of the schedule\n", c.text.c_str(), r);
    return false;
  }
  return true;
}

Case make_case(uint32_t ranks, const std::string& type, const std::string& reduction,
               const std::string& algorithm) {
  const std::string operation = algorithm.substr(0, algorithm.find(':'));
  return {parse({"-r", std::to_string(ranks), "-b", "6000", "-e", "6000", "-d", type, "-c",
                 "--seed", "7", "--x-reduction", reduction, operation})
              .streams.front(),
          algorithm, type + " " + reduction + " " + algorithm};
}

std::vector<Case> cases(const std::string& arch, uint32_t ranks, bool brief) {
  const std::vector<std::string> choices =
      arch == "trn1" ? std::vector<std::string>{"allr:ring", "redsct:mesh", "allr:rdh", "allr:tree",
                                                "allr:mesh"}
                     : std::vector<std::string>{"allr:kangaring", "redsct:rdh", "allr:mesh",
                                                "allr:ring", "redsct:kangaring"};
  std::vector<Case> out;
  size_t turn = 0;
  for (const std::string type : kTypes) {
    const bool all = type == "fp32" || type == "fp16" || type == "bf16";
    // Each type another one, sums if all algorithms have to meet.
    const std::string only = all ? "add" : kReductions[turn / 3 % 3];
    for (const std::string reduction : kReductions) {
      const size_t first = turn++;
      if (brief && reduction != only) continue;
      for (size_t i = 0; i < (all && reduction == "add" ? choices.size() : 1); ++i) {
        out.push_back(make_case(ranks, type, reduction, choices[(first + i) % choices.size()]));
      }
    }
  }
  return out;
}

int run(const std::string& arch, bool brief) {
  if (!choose_root("127.0.0.1") || nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) {
    std::printf("no runtime\n");
    return 1;
  }
  const ccl::Group group = group_of_platform(arch);
  unsigned wrong = 0;
  const std::vector<Case> all = cases(arch, group.ranks(), brief);
  for (const Case& c : all) wrong += run_case(c, arch, group) ? 0 : 1;
  nrt_close();
  std::printf("%zu combinations, %u wrong\n", all.size(), wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nccom

int main(int argc, char** argv) {
  const bool brief = argc == 3 && std::string(argv[2]) == "brief";
  return argc == 2 || brief ? nccom::run(argv[1], brief) : 2;
}
