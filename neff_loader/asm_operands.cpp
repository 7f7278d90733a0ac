#include "neff_loader/asm_operands.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "arch/contract/dge.h"
#include "neff_loader/status.h"

namespace neff::text {
namespace {

// Waits and updates: "$S[10]>=32", "$S[20]++@complete".
class Conditions {
 public:
  explicit Conditions(uint8_t* records) : records_(records) {}

  bool read(std::string_view s) {
    const bool event = s.substr(0, 3) == "$E[";
    const size_t close = s.find(']');
    uint64_t id = 0;
    if ((!event && s.substr(0, 3) != "$S[") || close == std::string_view::npos ||
        !parse_unsigned(s.substr(3, close - 3), 255, &id)) {
      return false;
    }
    const std::string_view rest = s.substr(close + 1);
    const size_t at = rest.find('@');
    if (at == std::string_view::npos) {
      return event ? event_wait(id, rest) : wait(id, rest);
    }
    const std::string_view when = rest.substr(at);
    if (when != "@read" && when != "@complete") return false;
    return update(event, id, rest.substr(0, at), when == "@read" ? 0 : 1);
  }

 private:
  bool put_wait(isa::WaitCond cond, bool is_register, uint64_t id, uint64_t value) {
    if (records_[3] != 0) return false;  // one wait per instruction
    records_[3] = static_cast<uint8_t>(static_cast<uint8_t>(cond) |
                                       (is_register ? isa::kWaitValueIsRegister : 0));
    records_[4] = static_cast<uint8_t>(id);
    isa::store32(records_ + 12, static_cast<uint32_t>(value));
    return true;
  }

  bool wait(uint64_t id, std::string_view s) {
    for (const CondName& c : kConds) {
      const std::string_view name = c.name;
      if (s.substr(0, name.size()) != name) continue;
      s.remove_prefix(name.size());
      const bool is_register = !s.empty() && s[0] == 'r';
      uint64_t value = 0;
      if (!parse_unsigned(s.substr(is_register ? 1 : 0),
                          is_register ? isa::kRegisters - 1 : 0xFFFFFFFF, &value)) {
        return false;
      }
      return put_wait(c.cond, is_register, id, value);
    }
    return false;
  }

  bool event_wait(uint64_t id, std::string_view s) {
    if (s != "==1" && s != "==0") return false;
    return put_wait(s == "==1" ? isa::WaitCond::kEventSet : isa::WaitCond::kEventClear, false, id,
                    0);
  }

  bool update(bool event, uint64_t id, std::string_view s, size_t slot) {
    isa::UpdateOp op = isa::UpdateOp::kNone;
    uint64_t value = 0;
    const auto with_value = [&](size_t skip, isa::UpdateOp which) {
      op = which;
      return parse_unsigned(s.substr(skip), 0xFFFFFFFF, &value);
    };
    if (event) {
      if (s != "=1" && s != "=0") return false;
      op = s == "=1" ? isa::UpdateOp::kEventSet : isa::UpdateOp::kEventClear;
    } else if (s == "++" || s == "--") {
      op = s == "++" ? isa::UpdateOp::kInc : isa::UpdateOp::kDec;
    } else if (s.substr(0, 2) == "+=" || s.substr(0, 2) == "-=") {
      if (!with_value(2, s[0] == '+' ? isa::UpdateOp::kAdd : isa::UpdateOp::kSub)) return false;
    } else if (s.substr(0, 1) != "=" || !with_value(1, isa::UpdateOp::kWrite)) {
      return false;
    }
    uint8_t* at = records_ + 5 + 2 * slot;
    if (at[0] != 0) return false;  // one update per timing
    at[0] = static_cast<uint8_t>(op);
    at[1] = static_cast<uint8_t>(id);
    isa::store32(records_ + 16 + 4 * slot, static_cast<uint32_t>(value));
    return true;
  }

  uint8_t* records_;
};

// "[1,64][64,2]": two lists of equal length.
bool split_lists(std::string_view s, std::vector<std::string_view>* first,
                 std::vector<std::string_view>* second) {
  for (auto* list : {first, second}) {
    const size_t close = s.find(']');
    if (s.empty() || s[0] != '[' || close == std::string_view::npos) return false;
    std::string_view items = s.substr(1, close - 1);
    for (;;) {
      const size_t comma = std::min(items.find(','), items.size());
      list->push_back(items.substr(0, comma));
      if (comma == items.size()) break;
      items.remove_prefix(comma + 1);
    }
    s.remove_prefix(close + 1);
  }
  return s.empty() && first->size() == second->size();
}

bool parse_tensor(std::string_view s, uint8_t* at) {
  const size_t sign = s.find('@');
  const size_t bracket = s.find('[');
  if (sign == std::string_view::npos || bracket == std::string_view::npos || bracket < sign)
    return false;
  isa::TensorOperand t{};
  bool known = false;
  for (const auto& names : {isa::kDataTypeShortInfo, isa::kDataTypeInfo}) {
    for (size_t i = 0; i < names.count; ++i) {
      if (s.substr(0, sign) != names.names[i].name) continue;
      t.dtype = static_cast<isa::DataType>(names.names[i].value);
      known = true;
    }
  }
  std::string_view address = s.substr(sign + 1, bracket - sign - 1);
  constexpr std::string_view kPsum = "psum:";
  if (address.substr(0, kPsum.size()) == kPsum) {
    t.memory = isa::Memory::kPsum;
    address.remove_prefix(kPsum.size());
  }
  t.offset_register = isa::kNoRegister;
  uint64_t n = 0;
  const size_t plus = address.find("+r");
  if (plus != std::string_view::npos) {
    if (!parse_unsigned(address.substr(plus + 2), isa::kRegisters - 1, &n)) return false;
    t.offset_register = static_cast<uint8_t>(n);
    address = address.substr(0, plus);
  }
  if (!known || !parse_unsigned(address, 0xFFFFFFFF, &n)) return false;
  t.byte_offset = static_cast<uint32_t>(n);
  std::vector<std::string_view> steps;
  std::vector<std::string_view> counts;
  if (!split_lists(s.substr(bracket), &steps, &counts) || steps.size() > 4) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t step = 0;
    if (!parse_signed(steps[i], INT16_MIN, INT16_MAX, &step) ||
        !parse_unsigned(counts[i], UINT16_MAX, &n)) {
      return false;
    }
    t.dims[i] = {static_cast<int16_t>(step), static_cast<uint16_t>(n)};
  }
  isa::pack(t, at);
  return true;
}

// "1.5", "-inf": a float32; "0x2A": its bits, or those of an integer; "r3"; or a tensor.
bool parse_scalar(std::string_view s, uint8_t* at) {
  if (s.find('@') != std::string_view::npos) return parse_tensor(s, at);
  isa::ScalarOperand scalar{};
  uint64_t n = 0;
  if (s.substr(0, 1) == "r") {
    scalar.kind = isa::ScalarOperand::kRegister;
    if (!parse_unsigned(s.substr(1), isa::kRegisters - 1, &n)) return false;
    scalar.bits = static_cast<uint32_t>(n);
  } else if (s.substr(0, 2) == "0x") {
    if (!parse_unsigned(s, UINT32_MAX, &n)) return false;
    scalar.bits = static_cast<uint32_t>(n);
  } else {
    float value = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (s.empty() || error != std::errc() || end != s.data() + s.size()) return false;
    std::memcpy(&scalar.bits, &value, sizeof value);
  }
  isa::pack(scalar, at);
  return true;
}

// "5-2p[1,64][64,2]": offset, multiplier of the lane, steps and counts.
bool parse_affine(std::string_view s, uint8_t* at) {
  const size_t lane = s.find('p');
  const size_t sign = s.find_first_of("+-", 1);
  if (lane == std::string_view::npos || sign == std::string_view::npos || sign > lane) return false;
  isa::AffineOperand a{};
  int64_t n = 0;
  if (!parse_signed(s.substr(0, sign), INT32_MIN, INT32_MAX, &n)) return false;
  a.offset = static_cast<int32_t>(n);
  const size_t digits = s[sign] == '+' ? sign + 1 : sign;
  if (!parse_signed(s.substr(digits, lane - digits), INT32_MIN, INT32_MAX, &n)) return false;
  a.multiplier = static_cast<int32_t>(n);
  std::vector<std::string_view> steps;
  std::vector<std::string_view> counts;
  if (!split_lists(s.substr(lane + 1), &steps, &counts) || steps.size() > 4) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    uint64_t count = 0;
    if (!parse_signed(steps[i], INT32_MIN, INT32_MAX, &n) ||
        !parse_unsigned(counts[i], UINT16_MAX, &count) || count == 0) {
      return false;
    }
    a.step[i] = static_cast<int32_t>(n);
    a.count[i] = static_cast<uint16_t>(count);
  }
  isa::pack(a, at);
  return true;
}

bool parse_pattern(std::string_view s, uint8_t* at) {
  std::vector<std::string_view> steps;
  std::vector<std::string_view> counts;
  if (!split_lists(s, &steps, &counts) || steps.size() > 2) return false;
  isa::Pattern p{};
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t step = 0;
    uint64_t n = 0;
    if (!parse_signed(steps[i], INT32_MIN, INT32_MAX, &step) ||
        !parse_unsigned(counts[i], UINT32_MAX, &n) || n == 0) {
      return false;
    }
    p.step[i] = static_cast<int32_t>(step);
    p.count[i] = static_cast<uint32_t>(n);
  }
  isa::pack(p, at);
  return true;
}

// "fp32@t3:1024+r5*2048[4,512][128,16]", "fp32@arg0:0[4][16]" or "fp32@sbuf:0[4,262144][64,128]": a
// tensor of the DGE table, of the argument table, or SBUF; steps in bytes.
bool parse_side(std::string_view s, uint8_t* at) {
  const size_t sign = s.find('@');
  const size_t colon = s.find(':');
  const size_t bracket = s.find('[');
  if (bracket == std::string_view::npos || sign > colon || colon > bracket) return false;
  isa::SideOperand side{};
  bool known = false;
  for (const auto& names : {isa::kDataTypeShortInfo, isa::kDataTypeInfo}) {
    for (size_t i = 0; i < names.count; ++i) {
      if (s.substr(0, sign) != names.names[i].name) continue;
      side.dtype = static_cast<isa::DataType>(names.names[i].value);
      known = true;
    }
  }
  const std::string_view place = s.substr(sign + 1, colon - sign - 1);
  std::string_view offset = s.substr(colon + 1, bracket - colon - 1);
  uint64_t n = 0;
  side.entry = isa::kSbufEntry;
  if (place.substr(0, 3) == "arg") {
    if (!parse_unsigned(place.substr(3), contract::dge::kMostArguments - 1, &n)) return false;
    side.entry = static_cast<uint16_t>(isa::kFirstArgument + n);
  } else if (place != "sbuf") {
    if (place.substr(0, 1) != "t" ||
        !parse_unsigned(place.substr(1), contract::dge::kMostEntries - 1, &n)) {
      return false;
    }
    side.entry = static_cast<uint16_t>(n);
  }
  side.offset_register = isa::kNoRegister;
  const size_t plus = offset.find("+r");
  if (plus != std::string_view::npos) {
    const std::string_view factors = offset.substr(plus + 2);
    const size_t times = factors.find('*');
    if (times == std::string_view::npos ||
        !parse_unsigned(factors.substr(0, times), isa::kRegisters - 1, &n)) {
      return false;
    }
    side.offset_register = static_cast<uint8_t>(n);
    if (!parse_unsigned(factors.substr(times + 1), UINT32_MAX, &n)) return false;
    side.scale = static_cast<uint32_t>(n);
    offset = offset.substr(0, plus);
  }
  if (!known || !parse_unsigned(offset, UINT64_MAX, &side.offset)) return false;
  std::vector<std::string_view> steps;
  std::vector<std::string_view> counts;
  if (!split_lists(s.substr(bracket), &steps, &counts) || steps.size() > 4) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t step = 0;
    if (!parse_signed(steps[i], INT32_MIN, INT32_MAX, &step) ||
        !parse_unsigned(counts[i], UINT32_MAX, &n) || n == 0) {
      return false;
    }
    side.step[i] = static_cast<int32_t>(step);
    side.count[i] = static_cast<uint32_t>(n);
  }
  isa::pack(side, at);
  return true;
}

// All operands of one statement by name.
class Operands {
 public:
  Operands(const Statement& s, const Resolver& resolver, uint8_t* records)
      : statement_(s), resolver_(resolver), records_(records) {}

  base::Status encode() {
    records_[0] = statement_.op->opcode;
    records_[2] = statement_.op->extensions;
    for (unsigned i = 1; i <= statement_.op->extensions; ++i) {
      records_[i * isa::kRecordBytes] = static_cast<uint8_t>(isa::Opcode::kPseudoExtension);
      records_[i * isa::kRecordBytes + 1] = static_cast<uint8_t>(i);
    }
    for (const Token& t : statement_.tokens) {
      if (!sort(t)) return problem("malformed, repeated or misplaced '" + t.text + "'");
    }
    uint64_t debug = 0;
    std::string value;
    if (take("debug", &value) && !parse_unsigned(value, UINT64_MAX, &debug))
      return problem("bad debug id");
    isa::store64(records_ + 24, debug);
    const isa::OpOperands* op = operands_of(statement_.op->opcode);
    for (size_t i = 0; op != nullptr && i < op->count; ++i) {
      if (base::Status s = put(*op, op->operands[i]); !s) return s;
    }
    if (!keys_.empty()) return problem("unknown operand '" + keys_[0].first + "'");
    if (!positional_.empty()) return problem("unexpected '" + positional_ + "'");
    return {};
  }

 private:
  base::Error problem(const std::string& what) const {
    return {base::Fault::kProgram, status::kInvalid, "",
            std::string(statement_.op->name) + ": " + what};
  }

  bool sort(const Token& token) {
    const std::string& s = token.text;
    if (s[0] == '$') return Conditions(records_).read(s);
    if (s == "@trace") {
      records_[1] |= isa::kFlagTrace;
      return true;
    }
    const size_t equals = s[0] == '"' ? std::string::npos : s.find('=');
    if (equals == std::string::npos) {
      if (!positional_.empty()) return false;
      positional_ = s;
      return true;
    }
    const std::string key = s.substr(0, equals);
    const bool repeated =
        std::any_of(keys_.begin(), keys_.end(), [&](const auto& k) { return k.first == key; });
    keys_.emplace_back(key, s.substr(equals + 1));
    return !repeated;
  }

  bool take(const std::string& key, std::string* value) {
    const auto it =
        std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.first == key; });
    if (it == keys_.end()) return false;
    *value = it->second;
    keys_.erase(it);
    return true;
  }

  base::Status put(const isa::OpOperands& op, const isa::OperandInfo& o) {
    if (o.form == isa::TextForm::kNone) return {};
    if (o.form == isa::TextForm::kWrite) return put_write();
    std::string value;
    if (o.form == isa::TextForm::kPositional) {
      value.swap(positional_);
    } else if (!take(o.name, &value) && o.optional) {
      if (o.bytes <= sizeof(uint64_t)) store(o, o.default_value);
      return {};
    }
    if (value.empty()) return problem(std::string("operand '") + o.name + "' is missing");
    const bool ok = o.type == isa::OperandType::kPartitions ? put_partitions(op, o, value)
                                                            : put_value(o, value);
    return ok ? base::Status() : problem(std::string("bad value for '") + o.name + "': " + value);
  }

  uint8_t* at(const isa::OperandInfo& o) {
    return records_ + o.record * isa::kRecordBytes + o.offset;
  }

  void store(const isa::OperandInfo& o, uint64_t n) {
    uint8_t* p = at(o);
    for (unsigned i = 0; i < o.bytes; ++i) p[i] = static_cast<uint8_t>(n >> (8 * i));
  }

  bool put_value(const isa::OperandInfo& o, const std::string& s) {
    uint64_t n = 0;
    switch (o.type) {
      case isa::OperandType::kTensor:
        return parse_tensor(s, at(o));
      case isa::OperandType::kScalar:
        return parse_scalar(s, at(o));
      case isa::OperandType::kAffine:
        return parse_affine(s, at(o));
      case isa::OperandType::kPattern:
        return parse_pattern(s, at(o));
      case isa::OperandType::kSide:
        return parse_side(s, at(o));
      case isa::OperandType::kValue: {
        const bool is_register = s[0] == 'r';
        int64_t v = 0;  // negative immediates in two's complement
        if (!parse_signed(std::string_view(s).substr(is_register ? 1 : 0),
                          is_register ? 0 : INT32_MIN,
                          is_register ? isa::kRegisters - 1 : UINT32_MAX, &v)) {
          return false;
        }
        isa::pack(isa::Value{static_cast<uint32_t>(v), is_register}, at(o));
        return true;
      }
      case isa::OperandType::kEnum:
        return put_enum(o, s);
      case isa::OperandType::kReg: {
        const bool bare = o.form == isa::TextForm::kNumber;
        if (!bare && s[0] != 'r') return false;
        if (!parse_unsigned(std::string_view(s).substr(bare ? 0 : 1), isa::kRegisters - 1, &n))
          return false;
        break;
      }
      case isa::OperandType::kSymbol: {
        std::string name;
        if (!unquote(s, &name) || name.empty()) return false;
        n = resolver_.symbol(name);
        break;
      }
      case isa::OperandType::kTarget:
        return put_target(o, s);
      case isa::OperandType::kI32: {
        int64_t v = 0;
        if (!parse_signed(s, INT32_MIN, INT32_MAX, &v)) return false;
        n = static_cast<uint64_t>(v);
        break;
      }
      case isa::OperandType::kU64:
        if (!parse_unsigned(s, UINT64_MAX, &n)) return false;
        break;
      default:
        if (!parse_unsigned(s, o.max, &n)) return false;
    }
    store(o, n);
    return true;
  }

  bool put_enum(const isa::OperandInfo& o, const std::string& s) {
    for (size_t i = 0; i < o.enumeration->count; ++i) {
      if (s != o.enumeration->names[i].name) continue;
      store(o, o.enumeration->names[i].value);
      return true;
    }
    return false;
  }

  bool put_target(const isa::OperandInfo& o, const std::string& s) {
    int32_t offset = 0;
    int64_t number = 0;
    const bool plus = s[0] == '+';
    if (parse_signed(std::string_view(s).substr(plus ? 1 : 0), INT32_MIN, INT32_MAX, &number)) {
      offset = static_cast<int32_t>(number);
    } else if (!resolver_.label(s, &offset)) {
      return false;
    }
    store(o, static_cast<uint32_t>(offset));
    return true;
  }

  // "0..127"; tensors that start elsewhere say so themselves.
  bool put_partitions(const isa::OpOperands& op, const isa::OperandInfo& o, std::string_view s) {
    const size_t dots = s.find("..");
    uint64_t first = 0;
    uint64_t last = 0;
    if (dots == std::string_view::npos ||
        !parse_unsigned(s.substr(0, dots), isa::kPartitions - 1, &first) ||
        !parse_unsigned(s.substr(dots + 2), isa::kPartitions - 1, &last) || last < first) {
      return false;
    }
    store(o, last - first + 1);
    for (size_t i = 0; i < op.count; ++i) {
      const isa::OperandInfo& tensor = op.operands[i];
      if (tensor.lanes == nullptr || std::string_view(tensor.lanes) != o.name) continue;
      if (at(tensor)[4] == 0) continue;  // an immediate or a register for all lanes
      uint64_t start = first;
      std::string value;
      if (take(std::string(tensor.name) + "_partition", &value) &&
          !parse_unsigned(value, isa::kPartitions - 1, &start)) {
        return false;
      }
      at(tensor)[7] = static_cast<uint8_t>(start);
    }
    return true;
  }

  bool numbers(const char* key, uint64_t max, std::vector<uint64_t>* out) {
    std::string value;
    if (!take(key, &value)) return false;
    std::string_view rest = value;
    for (;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      uint64_t n = 0;
      if (!parse_unsigned(rest.substr(0, comma), max, &n)) return false;
      out->push_back(n);
      if (comma == rest.size()) return true;
      rest.remove_prefix(comma + 1);
    }
  }

  base::Status put_write() {
    std::vector<uint64_t> data;
    std::vector<uint64_t> size;
    std::vector<uint64_t> dst;
    if (!numbers("data", UINT64_MAX, &data) || !numbers("size", 8, &size) ||
        !numbers("dst", UINT64_MAX, &dst)) {
      return problem("expected data=, size= and dst= with one or two numbers");
    }
    const size_t n = data.size();
    if (n > 2 || size.size() != n || dst.size() != n)
      return problem("data, size and dst differ in length");
    const bool fits = size[0] == 8 || data[0] <= 0xFFFFFFFF;
    if (!fits || (n == 2 && data[1] > 0xFFFFFFFF)) return problem("data does not fit its size");
    isa::store64(records_ + 32, dst[0]);
    isa::store64(records_ + 48, data[0]);
    records_[56] = static_cast<uint8_t>(size[0]);
    if (n == 2) {
      if (size[0] == 8) return problem("an 8-byte store is the only one of its instruction");
      isa::store64(records_ + 40, dst[1]);
      isa::store32(records_ + 52, static_cast<uint32_t>(data[1]));
      records_[57] = static_cast<uint8_t>(size[1]);
    }
    return {};
  }

  const Statement& statement_;
  const Resolver& resolver_;
  uint8_t* records_;
  std::vector<std::pair<std::string, std::string>> keys_;
  std::string positional_;
};

}  // namespace

bool parse_unsigned(std::string_view s, uint64_t max, uint64_t* out) {
  int radix = 10;
  if (s.substr(0, 2) == "0x") {
    radix = 16;
    s.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out, radix);
  return !s.empty() && error == std::errc() && end == s.data() + s.size() && *out <= max;
}

bool parse_signed(std::string_view s, int64_t min, int64_t max, int64_t* out) {
  const bool negative = !s.empty() && s[0] == '-';
  uint64_t n = 0;
  if (!parse_unsigned(s.substr(negative ? 1 : 0), INT64_MAX, &n)) return false;
  *out = negative ? -static_cast<int64_t>(n) : static_cast<int64_t>(n);
  return *out >= min && *out <= max;
}

bool unquote(std::string_view s, std::string* out) {
  if (plain_symbol(s)) {
    *out = std::string(s);
    return true;
  }
  if (s.size() < 2 || s.front() != '"' || s.back() != '"') return false;
  s = s.substr(1, s.size() - 2);
  out->clear();
  for (size_t i = 0; i < s.size(); ++i) {
    char c = s[i];
    if (c == '"') return false;
    if (c == '\\') {
      if (++i == s.size()) return false;
      c = s[i];
      if (c == 'x') {
        unsigned code = 0;
        const char* digits = s.data() + i + 1;
        if (s.size() - i < 3 || std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2)
          return false;
        c = static_cast<char>(code);
        i += 2;
      } else if (c != '"' && c != '\\') {
        return false;
      }
    }
    if (c == 0) return false;
    *out += c;
  }
  return true;
}

base::Status encode_statement(const Statement& statement, const Resolver& resolver,
                              uint8_t* records) {
  return Operands(statement, resolver, records).encode();
}

}  // namespace neff::text
