// Typed errors and Result: how every room reports failure (exceptions are for construction only).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace base {

// Whose fault it is. Decides the exit code of the emulator and the colour of a message, nothing
// else.
enum class Fault {
  kConfig,       // a platform, timing or option file or value
  kUsage,        // host software called an interface wrongly
  kProgram,      // bad NEFF, instruction or descriptor
  kUndefined,    // software relied on something that the hardware contract leaves open
  kUnsupported,  // a known feature that is absent; it has a row in the support matrix
  kResource,     // out of memory, cores, rings, semaphores
  kIo,           // the host's files and sockets
  kInternal,     // a defect of the emulator
};

const char* to_string(Fault fault);

struct Error {
  Fault fault = Fault::kInternal;
  int code = 0;       // errno, NRT_STATUS or 0, as the producing room documents
  std::string where;  // instance or file: "m0.d0.dma3.q7", "sg00/def.json"
  std::string what;   // what happened, which value, what was expected, what to do

  std::string message() const { return where.empty() ? what : where + ": " + what; }
};

// Either a value or an Error. `if (!r) return r.error();`
template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace base
