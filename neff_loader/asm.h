// Assembler and disassembler of engine programs, in the public operand syntax (spec/neff.md 5.1,
// 5.4 R-24). assemble(disassemble(file)) gives back every byte of a file that assemble() can make.
//
//   .engine dve            pe, act, pool, dve, sp
//   .arch trn1             trn1, inf2, trn2, trn3 or v2, v3, v4
//   .self_cleaning         the program leaves semaphores and events at zero
//   .symbol NAME           (only when the string table is not in order of use)
//   .function NAME args_table_var_id=N      ...      .endfunction
//
//   loop:                                           a label, for target=loop
//   TENSOR_TENSOR $S[10]>=32 $S[20]++@complete op=ADD
//       dst=fp32@512[1][64] src0=fp32@0+r3[1][64] src1=fp32@psum:256[1][64] partitions=0..127
//   COMPARE_BRANCH cond=LTU a=r1 b=8 target=loop    or target=-3, in records
//   PSEUDO_DMA_TRIGGER $S[20]>=r4 qSyncOut0 block_id=3
//   WRITE data=0x1,0x1 size=4,4 dst=0xffff1009038,0xffff1029038
//
// A line that does not begin with a mnemonic continues the instruction before it; a decimal number
// before a mnemonic is a comment, as is everything from '#' or ';' on. Waits: $S[n]>=v (>= > == <=
// < !=), $E[n]==1, $E[n]==0. Updates: $S[n]++ -- +=v -=v =v, $E[n]=1, $E[n]=0, each followed by
// @read or @complete. @trace asks for a TRACE notification; debug=N sets the debug id. An operand's
// start partition, where it differs from the destination's, is src0_partition=N.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/contract/isa.h"
#include "base/error.h"
#include "base/span.h"
#include "neff_loader/debug_info.h"

namespace neff {

// What the text need not say. A directive that contradicts is an error.
struct AsmOptions {
  std::optional<contract::isa::Engine> engine;
  std::optional<uint8_t> core_version;  // 2..4
};

// Text to the bytes of an engine instruction file (spec/neff.md 5.5).
base::Result<std::vector<uint8_t>> assemble(std::string_view text, const AsmOptions& options = {});

// An engine instruction file to text; with `info`, a comment says which line an instruction is of.
base::Result<std::string> disassemble(base::ConstByteSpan file, const DebugInfo* info = nullptr);

// One instruction at `records`, for traces and messages; any bytes give some text. Symbols are
// printed as their index when `symbols` is null.
std::string disassemble_instruction(base::ConstByteSpan records,
                                    const std::vector<std::string>* symbols = nullptr);

// What the text form calls tensor `number` of the instruction at `records`, in the order in which
// errors of engines count them: tiles of scalars and sides of transfers too. Empty: it has no such.
std::string tensor_name(base::ConstByteSpan records, uint32_t number);

}  // namespace neff
