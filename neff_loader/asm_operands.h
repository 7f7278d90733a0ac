// Operands of one assembler statement. Internal to this room.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "neff_loader/asm_text.h"

namespace neff::text {

struct Token {
  std::string text;
  int line;
};

struct Statement {
  const isa::OpInfo* op;
  std::vector<Token> tokens;
  int line;
  uint32_t pc;
  bool extension_open;  // its PSEUDO_EXTENSION line has not come yet
};

// What operands may refer to outside of their statement.
struct Resolver {
  std::function<uint32_t(const std::string&)> symbol;
  std::function<bool(const std::string&, int32_t*)> label;
};

// Decimal, or hexadecimal with 0x.
bool parse_unsigned(std::string_view s, uint64_t max, uint64_t* out);
bool parse_signed(std::string_view s, int64_t min, int64_t max, int64_t* out);

// A plain symbol or a quoted text with \" \\ \xNN. No NUL.
bool unquote(std::string_view s, std::string* out);

// Fills the (zeroed) records of the statement. The caller decodes them to check ranges.
base::Status encode_statement(const Statement& statement, const Resolver& resolver,
                              uint8_t* records);

}  // namespace neff::text
