// Programs and libraries below /opt/aws/neuron: found by name, started and loaded. A machine's own
// lie elsewhere, in a directory that the tool has made (SOMA_SDK).
#include "driver/shim/sdk.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/shim/client.h"
#include "driver/shim/real.h"

namespace driver::shim {
namespace {

constexpr char kPrefix[] = "/opt/aws/neuron";
constexpr size_t kLength = sizeof kPrefix - 1;

bool starts_with_word(const char* text, const char* word) {
  const size_t length = strlen(word);
  return strncmp(text, word, length) == 0 && (text[length] == 0 || text[length] == '/');
}

}  // namespace

bool is_sdk_name(const char* path) {
  if (path == nullptr || path[0] != '/' || path[1] != 'o') return false;
  if (!facts.active || facts.sdk[0] == 0 || strncmp(path, kPrefix, kLength) != 0) return false;
  const char* rest = path + kLength;
  if (*rest == 0) return true;
  if (*rest != '/') return false;
  while (*rest == '/') ++rest;
  return *rest == 0 || starts_with_word(rest, "bin") || starts_with_word(rest, "lib") ||
         starts_with_word(rest, "include");
}

SdkName::SdkName(const char* path) : name_(path) {
  if (!is_sdk_name(path)) return;
  const int length = snprintf(buffer_, sizeof buffer_, "%s%s", facts.sdk, path + kLength);
  if (length > 0 && static_cast<size_t>(length) < sizeof buffer_) name_ = buffer_;
}

}  // namespace driver::shim

namespace shim = driver::shim;

// Starting programs. Those that are searched for along PATH find the machine's own first.

SHIM_EXPORT int execve(const char* path, char* const arguments[],
                       char* const environment[]) noexcept {
  return SHIM_REAL(execve)(shim::SdkName(path).get(), arguments, environment);
}
SHIM_EXPORT int execv(const char* path, char* const arguments[]) noexcept {
  return SHIM_REAL(execv)(shim::SdkName(path).get(), arguments);
}
SHIM_EXPORT int execvp(const char* path, char* const arguments[]) noexcept {
  return SHIM_REAL(execvp)(shim::SdkName(path).get(), arguments);
}
SHIM_EXPORT int execvpe(const char* path, char* const arguments[],
                        char* const environment[]) noexcept {
  return SHIM_REAL(execvpe)(shim::SdkName(path).get(), arguments, environment);
}

namespace {

// Arguments that a caller has written out, up to the null that ends them; the environment of execle
// stands behind it.
size_t count_of(va_list list) {
  size_t count = 1;
  while (va_arg(list, char*) != nullptr) ++count;
  return count;
}

}  // namespace

#define SHIM_EXEC_LIST(name, call)                                          \
  SHIM_EXPORT int name(const char* path, const char* first, ...) noexcept { \
    va_list list;                                                           \
    va_start(list, first);                                                  \
    const size_t count = first == nullptr ? 0 : count_of(list);             \
    va_end(list);                                                           \
    char* arguments[count + 1];                                             \
    arguments[0] = const_cast<char*>(first);                                \
    va_start(list, first);                                                  \
    for (size_t i = 1; i <= count; ++i) arguments[i] = va_arg(list, char*); \
    call;                                                                   \
    va_end(list);                                                           \
    return result;                                                          \
  }
#pragma GCC diagnostic ignored "-Wvla"
SHIM_EXEC_LIST(execl, const int result = execv(path, arguments))
SHIM_EXEC_LIST(execlp, const int result = execvp(path, arguments))
SHIM_EXEC_LIST(execle, const int result = execve(path, arguments, va_arg(list, char**)))

SHIM_EXPORT int posix_spawn(pid_t* child, const char* path,
                            const posix_spawn_file_actions_t* actions,
                            const posix_spawnattr_t* attributes, char* const arguments[],
                            char* const environment[]) noexcept {
  return SHIM_REAL(posix_spawn)(child, shim::SdkName(path).get(), actions, attributes, arguments,
                                environment);
}
SHIM_EXPORT int posix_spawnp(pid_t* child, const char* path,
                             const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const arguments[],
                             char* const environment[]) noexcept {
  return SHIM_REAL(posix_spawnp)(child, shim::SdkName(path).get(), actions, attributes, arguments,
                                 environment);
}

namespace {

__attribute__((noinline)) void* open_sdk_library(const char* path, int flags) {
  return SHIM_REAL(dlopen)(shim::SdkName(path).get(), flags);
}

}  // namespace

// The dynamic linker searches where its caller's file says, so any other name must reach it by a
// jump, which leaves no frame of ours: there is nothing on this function's stack.
SHIM_EXPORT void* dlopen(const char* path, int flags) noexcept {
  if (shim::is_sdk_name(path)) return open_sdk_library(path, flags);
  return SHIM_REAL(dlopen)(path, flags);
}
