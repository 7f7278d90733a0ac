// A finished kernel, taken apart again.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/kernel/kernel.h"
#include "neff_loader/asm.h"
#include "neff_loader/debug_info.h"
#include "neff_loader/neff.h"

namespace kernel_test {

namespace isa = contract::isa;
using kernel::DType;
using kernel::Engine;
using kernel::Kernel;
using kernel::Op;
using kernel::Space;
using kernel::Tile;
using kernel::View;

constexpr DType kF32 = DType::kFloat32;

struct Built {
  neff::Neff neff;
  std::vector<uint8_t> file;

  const neff::Subgraph& graph() const { return neff.subgraphs[0]; }
  const neff::EngineProgram* program(isa::Engine engine) const { return graph().program(engine); }
  std::vector<isa::Instruction> instructions(isa::Engine engine) const {
    std::vector<isa::Instruction> out;
    if (program(engine) == nullptr) return out;
    for (const neff::ProgramStep& s : program(engine)->steps) out.push_back(s.instruction);
    return out;
  }
  // One line per instruction, without debug ids.
  std::vector<std::string> lines(isa::Engine engine) const {
    std::vector<std::string> out;
    const neff::EngineProgram* p = program(engine);
    for (size_t i = 0; p != nullptr && i < p->steps.size(); ++i) {
      const size_t at = p->steps[i].pc * isa::kRecordBytes;
      std::string text =
          neff::disassemble_instruction(p->records.sub(at, p->records.size() - at), &p->symbols);
      out.push_back(text.substr(0, text.find(" debug=")));
    }
    return out;
  }
};

inline Built build(Kernel& k) {
  Built out;
  base::Result<std::vector<uint8_t>> file = k.finish();
  EXPECT_TRUE(file.ok()) << file.error().message();
  if (!file) return out;
  out.file = *file;
  base::Result<neff::Neff> neff = neff::load(out.file);
  EXPECT_TRUE(neff.ok()) << neff.error().message();
  if (neff) out.neff = std::move(*neff);
  EXPECT_TRUE(out.neff.executable);
  EXPECT_EQ(out.neff.warnings, std::vector<std::string>());
  return out;
}

// The text of the kernel's mistake.
inline std::string mistake(Kernel& k) {
  const base::Status status = k.status();
  return status.ok() ? "" : status.error().what;
}

}  // namespace kernel_test
