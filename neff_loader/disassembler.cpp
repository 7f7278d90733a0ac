// Records to text, driven by the operand descriptions of the instruction table.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "arch/contract/isa_file.h"
#include "neff_loader/asm.h"
#include "neff_loader/asm_text.h"
#include "neff_loader/neff.h"
#include "neff_loader/status.h"

namespace neff {
namespace {

namespace isa = contract::isa;
using text::CondName;

std::string number(uint64_t n) {
  return std::to_string(n);
}

std::string hex_number(uint64_t n) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(n));
  return out;
}

std::string enum_name(const isa::EnumInfo& info, uint8_t value) {
  for (size_t i = 0; i < info.count; ++i) {
    if (info.names[i].value == value) return info.names[i].name;
  }
  return number(value);
}

std::string in_quotes(std::string_view symbol) {
  if (text::plain_symbol(symbol)) return std::string(symbol);
  std::string out = "\"";
  for (char c : symbol) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string wait_text(const isa::Wait& w) {
  if (w.cond == isa::WaitCond::kNone) return "";
  if (w.cond == isa::WaitCond::kEventSet) return " $E[" + number(w.id) + "]==1";
  if (w.cond == isa::WaitCond::kEventClear) return " $E[" + number(w.id) + "]==0";
  std::string cond;
  for (const CondName& c : text::kConds) {
    if (c.cond == w.cond) cond = c.name;
  }
  return " $S[" + number(w.id) + "]" + cond + (w.value_is_register ? "r" : "") + number(w.value);
}

std::string update_text(const isa::Update& u, const char* when) {
  const std::string semaphore = " $S[" + number(u.id) + "]";
  const std::string event = " $E[" + number(u.id) + "]";
  switch (u.op) {
    case isa::UpdateOp::kNone:
      return "";
    case isa::UpdateOp::kInc:
      return semaphore + "++" + when;
    case isa::UpdateOp::kDec:
      return semaphore + "--" + when;
    case isa::UpdateOp::kAdd:
      return semaphore + "+=" + number(u.value) + when;
    case isa::UpdateOp::kSub:
      return semaphore + "-=" + number(u.value) + when;
    case isa::UpdateOp::kWrite:
      return semaphore + "=" + number(u.value) + when;
    case isa::UpdateOp::kEventSet:
      return event + "=1" + when;
    case isa::UpdateOp::kEventClear:
      return event + "=0" + when;
  }
  return "";
}

std::string tensor_text(const uint8_t* at) {
  isa::TensorOperand t{};
  isa::unpack(at, &t);
  std::string steps;
  std::string counts;
  for (const isa::PatternDim& d : t.dims) {
    if (d.count == 0) break;
    steps += (steps.empty() ? "" : ",") + std::to_string(d.step);
    counts += (counts.empty() ? "" : ",") + std::to_string(d.count);
  }
  return enum_name(isa::kDataTypeShortInfo, static_cast<uint8_t>(t.dtype)) + "@" +
         (t.memory == isa::Memory::kPsum ? "psum:" : "") + number(t.byte_offset) +
         (t.offset_register == isa::kNoRegister ? "" : "+r" + number(t.offset_register)) + "[" +
         steps + "][" + counts + "]";
}

// Numbers that no one writes in decimal are shown as bits.
std::string scalar_text(const uint8_t* at) {
  isa::ScalarOperand s{};
  isa::unpack(at, &s);
  if (s.kind == isa::ScalarOperand::kTile) return tensor_text(at);
  if (s.kind == isa::ScalarOperand::kRegister) return "r" + number(s.bits);
  float value = 0;
  std::memcpy(&value, &s.bits, sizeof value);
  if (s.bits != 0 && !std::isnormal(value) && !std::isinf(value)) return hex_number(s.bits);
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value).ptr;  // the shortest that reads back
  return {text, end};
}

std::string affine_text(const uint8_t* at) {
  isa::AffineOperand a{};
  isa::unpack(at, &a);
  std::string steps;
  std::string counts;
  for (size_t i = 0; i < 4 && a.count[i] != 0; ++i) {
    steps += (i == 0 ? "" : ",") + std::to_string(a.step[i]);
    counts += (i == 0 ? "" : ",") + std::to_string(a.count[i]);
  }
  return std::to_string(a.offset) + (a.multiplier < 0 ? "" : "+") + std::to_string(a.multiplier) +
         "p[" + steps + "][" + counts + "]";
}

std::string pattern_text(const uint8_t* at) {
  isa::Pattern p{};
  isa::unpack(at, &p);
  std::string steps = std::to_string(p.step[0]);
  std::string counts = std::to_string(p.count[0]);
  if (p.count[1] != 0) {
    steps += "," + std::to_string(p.step[1]);
    counts += "," + std::to_string(p.count[1]);
  }
  return "[" + steps + "][" + counts + "]";
}

std::string side_text(const uint8_t* at) {
  isa::SideOperand s{};
  isa::unpack(at, &s);
  std::string steps;
  std::string counts;
  for (size_t i = 0; i < 4 && s.count[i] != 0; ++i) {
    steps += (i == 0 ? "" : ",") + std::to_string(s.step[i]);
    counts += (i == 0 ? "" : ",") + std::to_string(s.count[i]);
  }
  const bool dynamic = s.offset_register != isa::kNoRegister;
  std::string place = "sbuf";
  if (s.entry < isa::kFirstArgument) place = "t" + number(s.entry);
  if (isa::is_argument(s)) place = "arg" + number(s.entry - isa::kFirstArgument);
  return enum_name(isa::kDataTypeShortInfo, static_cast<uint8_t>(s.dtype)) + "@" + place + ":" +
         number(s.offset) +
         (dynamic ? "+r" + number(s.offset_register) + "*" + number(s.scale) : "") + "[" + steps +
         "][" + counts + "]";
}

std::string write_text(const uint8_t* r) {
  const uint8_t size0 = r[56];
  const uint8_t size1 = r[57];
  const uint64_t data0 = size0 == 8 ? isa::load64(r + 48) : isa::load32(r + 48);
  std::string data = hex_number(data0);
  std::string size = number(size0);
  std::string dst = hex_number(isa::load64(r + 32));
  if (size1 != 0) {
    data += "," + hex_number(isa::load32(r + 52));
    size += "," + number(size1);
    dst += "," + hex_number(isa::load64(r + 40));
  }
  return " data=" + data + " size=" + size + " dst=" + dst;
}

// "partitions=0..127", and the start of every tensor that differs from the first one's.
std::string partitions_text(const uint8_t* records, const isa::OpOperands& op,
                            const isa::OperandInfo& lanes, uint8_t count) {
  std::string out;
  unsigned first = 0;
  bool have_first = false;
  for (size_t i = 0; i < op.count; ++i) {
    const isa::OperandInfo& o = op.operands[i];
    if (o.lanes == nullptr || std::string_view(o.lanes) != lanes.name) continue;
    const uint8_t* at = records + o.record * isa::kRecordBytes + o.offset;
    if (at[4] == 0) continue;  // an immediate or a register for all lanes
    const unsigned start = at[7];
    if (!have_first) {
      first = start;
      have_first = true;
      out = std::string(" ") + lanes.name + "=" + number(start) + ".." + number(start + count - 1);
    } else if (start != first) {
      out += std::string(" ") + o.name + "_partition=" + number(start);
    }
  }
  return out;
}

uint64_t scalar(const uint8_t* at, uint8_t bytes) {
  switch (bytes) {
    case 1:
      return isa::load8(at);
    case 2:
      return isa::load16(at);
    case 4:
      return isa::load32(at);
    default:
      return isa::load64(at);
  }
}

std::string symbol_text(uint64_t index, const std::vector<std::string>* symbols) {
  if (symbols == nullptr || index >= symbols->size()) return "symbol-" + number(index);
  return in_quotes((*symbols)[index]);
}

std::string operand_text(const uint8_t* records, const isa::OpOperands& op,
                         const isa::OperandInfo& o, const std::vector<std::string>* symbols) {
  const uint8_t* at = records + o.record * isa::kRecordBytes + o.offset;
  if (o.form == isa::TextForm::kNone) return "";
  if (o.form == isa::TextForm::kWrite) return write_text(records);
  if (o.type == isa::OperandType::kPartitions) return partitions_text(records, op, o, *at);
  const std::string key =
      std::string(" ") +
      (o.form == isa::TextForm::kPositional ? std::string() : std::string(o.name) + "=");
  switch (o.type) {
    case isa::OperandType::kTensor:
      return key + tensor_text(at);
    case isa::OperandType::kScalar: {
      const std::string text = scalar_text(at);
      return o.optional && text == "0" ? "" : key + text;
    }
    case isa::OperandType::kAffine:
      return key + affine_text(at);
    case isa::OperandType::kPattern:
      return key + pattern_text(at);
    case isa::OperandType::kSide:
      return key + side_text(at);
    case isa::OperandType::kValue: {
      isa::Value v{};
      isa::unpack(at, &v);
      return key + (v.is_register ? "r" : "") + number(v.value);
    }
    default:
      break;
  }
  const uint64_t n = scalar(at, o.bytes);
  if (o.optional && n == o.default_value) return "";
  switch (o.type) {
    case isa::OperandType::kEnum:
      return key + enum_name(*o.enumeration, static_cast<uint8_t>(n));
    case isa::OperandType::kReg:
      return key + (o.form == isa::TextForm::kNumber ? "" : "r") + number(n);
    case isa::OperandType::kSymbol:
      return key + symbol_text(n, symbols);
    case isa::OperandType::kTarget: {
      const auto offset = static_cast<int32_t>(n);
      return key + (offset >= 0 ? "+" : "") + std::to_string(offset);
    }
    case isa::OperandType::kI32:
      return key + std::to_string(static_cast<int32_t>(n));
    default:
      return key + number(n);
  }
}

// Symbol operands name strings of the table; only optional ones may be absent.
bool symbols_known(const uint8_t* records, uint8_t opcode,
                   const std::vector<std::string>& symbols) {
  const isa::OpOperands* op = text::operands_of(opcode);
  for (size_t i = 0; op != nullptr && i < op->count; ++i) {
    const isa::OperandInfo& o = op->operands[i];
    if (o.type != isa::OperandType::kSymbol) continue;
    const uint64_t index = scalar(records + o.record * isa::kRecordBytes + o.offset, o.bytes);
    if (index == 0 ? !o.optional : index >= symbols.size() || symbols[index].empty()) return false;
  }
  return true;
}

struct Lines {
  std::string first;
  std::string extension;  // empty, or the PSEUDO_EXTENSION line
};

Lines instruction_text(const uint8_t* records, const Instruction& in,
                       const std::vector<std::string>* symbols) {
  const isa::OpInfo& op = *isa::find_op(in.opcode);
  Lines out;
  out.first = op.name + wait_text(in.wait) + update_text(in.read_update, "@read") +
              update_text(in.complete_update, "@complete");
  const isa::OpOperands* operands = text::operands_of(op.opcode);
  if (operands != nullptr && operands->extension_line) out.extension = "PSEUDO_EXTENSION";
  for (size_t i = 0; operands != nullptr && i < operands->count; ++i) {
    const isa::OperandInfo& o = operands->operands[i];
    (o.line == 0 ? out.first : out.extension) += operand_text(records, *operands, o, symbols);
  }
  if (in.trace()) out.first += " @trace";
  if (in.debug_id != 0) out.first += " debug=" + hex_number(in.debug_id);
  return out;
}

struct ParsedFile {
  isa::EngineFileHeader header;
  std::vector<std::string> symbols;
  std::vector<Function> functions;
};

// Bounds are checked by the header's parse; shapes that assemble() cannot make are refused.
base::Result<ParsedFile> parse_file(base::ConstByteSpan file) {
  ParsedFile out;
  const isa::FileError error = isa::parse(file.data(), file.size(), &out.header);
  if (error != isa::FileError::kNone) return violation("B-01", "engine file", to_string(error));
  const isa::EngineFileHeader& h = out.header;
  const base::ConstByteSpan strings =
      h.strings_bytes == 0 ? base::ConstByteSpan() : file.sub(h.strings_offset, h.strings_bytes);
  if (!strings.empty() && strings[strings.size() - 1] != 0) {
    return violation("B-01", "engine file", "string table does not end in NUL");
  }
  for (size_t at = 0; at < strings.size(); at += out.symbols.back().size() + 1) {
    out.symbols.emplace_back(reinterpret_cast<const char*>(strings.data()) + at);
  }
  uint64_t free_from = 0;
  for (uint64_t i = 0; i < h.function_count; ++i) {
    const uint8_t* entry = file.data() + h.functions_offset + i * isa::kFunctionEntryBytes;
    const auto name = base::load<uint32_t>(entry);
    Function f;
    f.entry = base::load<uint32_t>(entry + 4);
    f.length = base::load<uint32_t>(entry + 8);
    f.args_var_id = base::load<uint32_t>(entry + 12);
    if (name >= out.symbols.size() || f.length == 0 || f.entry < free_from ||
        f.entry > h.record_count || f.length > h.record_count - f.entry) {
      return violation("B-04", "engine file", "malformed function table");
    }
    free_from = static_cast<uint64_t>(f.entry) + f.length;
    f.name = out.symbols[name];
    out.functions.push_back(std::move(f));
  }
  return out;
}

std::string preamble(const ParsedFile& file, bool with_symbols) {
  std::string out = std::string(".engine ") + to_string(static_cast<Engine>(file.header.engine)) +
                    "\n.arch v" + number(file.header.arch) + "\n";
  if ((file.header.flags & isa::kFileSelfCleaning) != 0) out += ".self_cleaning\n";
  for (size_t i = 1; with_symbols && i < file.symbols.size(); ++i) {
    out += ".symbol " + in_quotes(file.symbols[i]) + "\n";
  }
  return out;
}

base::Result<std::string> body(base::ConstByteSpan records, const ParsedFile& file,
                               const DebugInfo* info) {
  std::string out;
  size_t next_function = 0;
  uint64_t function_end = UINT64_MAX;
  const auto close_function = [&](uint32_t pc) {
    if (pc < function_end) return;
    out += ".endfunction\n";
    function_end = UINT64_MAX;
  };
  uint32_t pc = 0;
  while (pc < file.header.record_count) {
    close_function(pc);
    if (next_function < file.functions.size() && file.functions[next_function].entry == pc) {
      const Function& f = file.functions[next_function++];
      out += ".function " + in_quotes(f.name);
      if (f.args_var_id != 0) out += " args_table_var_id=" + number(f.args_var_id);
      out += "\n";
      function_end = static_cast<uint64_t>(f.entry) + f.length;
    }
    const size_t at = size_t{pc} * isa::kRecordBytes;
    Instruction in;
    const isa::DecodeError error = isa::decode(records.data() + at, records.size() - at, &in);
    if (error != isa::DecodeError::kNone) {
      const isa::OpInfo* op = isa::find_op(in.opcode);
      return violation(
          error == isa::DecodeError::kUnknownOpcode ? "B-02" : "B-03",
          "engine file record " + number(pc),
          std::string(op == nullptr ? "opcode " + number(static_cast<uint8_t>(in.opcode))
                                    : op->name) +
              ": " + to_string(error));
    }
    const auto engine = static_cast<Engine>(file.header.engine);
    if (const isa::OpInfo* op = isa::find_op(in.opcode); !op->runs_on(engine)) {
      return violation("B-03", "engine file record " + number(pc),
                       std::string(op->name) + " does not run on engine " + to_string(engine));
    }
    if (!symbols_known(records.data() + at, records[at], file.symbols)) {
      return violation("B-04", "engine file record " + number(pc), "unknown symbol");
    }
    const Lines lines = instruction_text(records.data() + at, in, &file.symbols);
    const std::string source = info == nullptr ? "" : info->describe(in.debug_id);
    out += number(pc) + "  " + lines.first + (source.empty() ? "" : "  # " + source) + "\n";
    if (!lines.extension.empty()) out += number(pc + 1) + "  " + lines.extension + "\n";
    pc += in.records();
  }
  close_function(pc);
  return out;
}

}  // namespace

std::string tensor_name(base::ConstByteSpan records, uint32_t number) {
  Instruction in;
  if (isa::decode(records.data(), records.size(), &in) != isa::DecodeError::kNone) return {};
  const isa::OpOperands* op = text::operands_of(static_cast<uint8_t>(in.opcode));
  for (size_t i = 0; op != nullptr && i < op->count; ++i) {
    const isa::OperandInfo& o = op->operands[i];
    const uint8_t* at = records.data() + o.record * isa::kRecordBytes + o.offset;
    const bool tile = o.type == isa::OperandType::kScalar && at[4] != 0;
    const bool counts =
        tile || o.type == isa::OperandType::kTensor || o.type == isa::OperandType::kSide;
    if (counts && number-- == 0) return o.name;
  }
  return {};
}

base::Result<std::string> disassemble(base::ConstByteSpan file, const DebugInfo* info) {
  base::Result<ParsedFile> parsed = parse_file(file);
  if (!parsed) return parsed.error();
  const isa::EngineFileHeader& h = parsed->header;
  const base::ConstByteSpan records =
      h.record_count == 0 ? base::ConstByteSpan()
                          : file.sub(h.records_offset, size_t{h.record_count} * isa::kRecordBytes);
  base::Result<std::string> instructions = body(records, *parsed, info);
  if (!instructions) return instructions.error();
  // Symbols are listed only where the order of use does not give the same table.
  const std::string text = preamble(*parsed, false) + *instructions;
  const auto again = assemble(text);
  const auto symbols = [](const base::Result<ParsedFile>& f) {
    return f.ok() ? f->symbols : std::vector<std::string>();
  };
  const bool same = again.ok() && symbols(parse_file(*again)) == parsed->symbols;
  return same ? text : preamble(*parsed, true) + *instructions;
}

std::string disassemble_instruction(base::ConstByteSpan records,
                                    const std::vector<std::string>* symbols) {
  Instruction in;
  const isa::DecodeError error = isa::decode(records.data(), records.size(), &in);
  if (error != isa::DecodeError::kNone) {
    const isa::OpInfo* op = isa::find_op(in.opcode);
    return std::string(op == nullptr ? "opcode " + number(static_cast<uint8_t>(in.opcode))
                                     : op->name) +
           " (" + to_string(error) + ")";
  }
  const Lines lines = instruction_text(records.data(), in, symbols);
  return lines.extension.empty() ? lines.first : lines.first + "\n" + lines.extension;
}

}  // namespace neff
