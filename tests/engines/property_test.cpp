// Random programs on the machine and on the reference: every compute instruction, on every engine
// and generation that executes it.
#include <gtest/gtest.h>

#include "tests/engines/bench.h"
#include "tests/engines/generator.h"

namespace {

using contract::Gen;
using engine_reference::Bench;
using engine_reference::Generator;
using engine_reference::isa::Engine;
using engine_reference::isa::Instruction;
using engine_reference::isa::Memory;
using engine_reference::isa::Opcode;
namespace isa = engine_reference::isa;

constexpr int kCases = 2000;
constexpr int kCasesPerWindow = 500;

struct Subject {
  Gen gen;
  Engine engine;
  Opcode opcode;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Gen gen : {Gen::kV2, Gen::kV3, Gen::kV4}) {
    for (unsigned engine = 0; engine < isa::kEngines; ++engine) {
      for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const Subject s{gen, static_cast<Engine>(engine), static_cast<Opcode>(opcode)};
        if (Generator::makes(s.opcode, s.engine, s.gen)) all.push_back(s);
      }
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Subject>& info) {
  static constexpr const char* kEngines[] = {"PE", "ACT", "POOL", "DVE", "SP"};
  return std::string("v") + std::to_string(static_cast<int>(info.param.gen)) + "_" +
         kEngines[static_cast<size_t>(info.param.engine)] + "_" +
         isa::find_op(info.param.opcode)->name;
}

class EngineProperty : public ::testing::TestWithParam<Subject> {
 protected:
  // What the subject needs before it, or what shows its effect.
  Opcode companion(int number) const {
    const Opcode opcode = GetParam().opcode;
    switch (opcode) {
      case Opcode::kMatmul:
        return number % 3 == 0 ? Opcode::kLdweights : opcode;
      case Opcode::kLdweights:
        return number % 2 == 0 ? opcode : Opcode::kMatmul;
      case Opcode::kMatmulMx:
        return number % 3 == 0 ? Opcode::kLdweightsMx : opcode;
      case Opcode::kLdweightsMx:
        return number % 2 == 0 ? opcode : Opcode::kMatmulMx;
      case Opcode::kActivate:
      case Opcode::kActivate2:
      case Opcode::kTensorScalarReduce:
      case Opcode::kTensorScalarCumulative:
      case Opcode::kSelectReduce:
      case Opcode::kRangeSelect:
      case Opcode::kExponential:
        return number % 3 == 2 ? Opcode::kReadAccumulator : opcode;
      case Opcode::kReadAccumulator:
        if (number % 2 == 1) return opcode;
        return GetParam().engine == Engine::kAct ? Opcode::kActivate : Opcode::kTensorScalarReduce;
      default:
        return opcode;
    }
  }
  // Untouched bytes of the window, in all partitions.
  bool window_equal(const Generator& generator, std::string* message) {
    for (const Memory m : {Memory::kSbuf, Memory::kPsum}) {
      if (!bench_.equal(m, 0, isa::kPartitions, generator.window(m), Generator::kWindow, message)) {
        return false;
      }
    }
    return true;
  }

  Bench bench_{GetParam().gen};
};

TEST_P(EngineProperty, AgreesWithTheReference) {
  const Subject& s = GetParam();
  std::string message;
  for (int window = 0; window < kCases / kCasesPerWindow; ++window) {
    Generator generator(s.gen, s.engine, 1000 * static_cast<uint64_t>(s.opcode) + window);
    bench_.set_registers(s.engine, generator.registers());
    for (int number = 0; number < kCasesPerWindow; ++number) {
      const Instruction in = generator.next(companion(number));
      generator.fill(in, &bench_.reference());
      ASSERT_TRUE(bench_.run(s.engine, in, generator.registers(), &message))
          << "case " << window << "." << number << ": " << message;
      if (number % 8 != 0) continue;
      ASSERT_TRUE(window_equal(generator, &message))
          << "case " << window << "." << number << ": " << engine_reference::text_of(in) << "\n  "
          << message;
    }
  }
  EXPECT_TRUE(bench_.all_equal(&message)) << message;
}

INSTANTIATE_TEST_SUITE_P(All, EngineProperty, ::testing::ValuesIn(subjects()), name_of);

}  // namespace
