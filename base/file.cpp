#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/fd.h"

namespace base {
namespace {

constexpr mode_t kAllButExecute = 0666;  // the process's mask takes from it

// 0 or errno.
int write_all(const std::string& path, int flags, mode_t mode, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, mode);
  if (fd < 0) return errno;
  int failure = 0;
  while (!text.empty() && failure == 0) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) text.remove_prefix(static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) failure = errno;
  }
  if (::close(fd) != 0 && failure == 0) failure = errno;
  return failure;
}

// What the name stands for: a link is followed, so that it stays one.
std::string target_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : path;
}

int replace(const std::string& path, std::string_view text) {
  const std::string target = target_of(path);
  struct stat old = {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  const bool unlinked = exists && old.st_nlink == 0;  // an open file, by /proc/PID/fd/N
  if (unlinked || (exists && !S_ISREG(old.st_mode)))
    return write_all(target, 0, kAllButExecute, text);
  const std::string partial = target + ".part";
  ::unlink(partial.c_str());  // of a process that was killed
  const mode_t mode = exists ? old.st_mode & kAllButExecute : kAllButExecute;
  int failure = write_all(partial, O_EXCL, mode, text);
  if (failure == 0 && ::rename(partial.c_str(), target.c_str()) != 0) failure = errno;
  if (failure != 0) ::unlink(partial.c_str());
  const bool closed = failure == EACCES || failure == EPERM;
  return closed && exists ? write_all(target, 0, mode, text) : failure;
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error(path.c_str(), "cannot read");
  std::string text;
  std::array<char, 1 << 16> part;
  while (true) {
    const ssize_t n = ::read(fd.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(path.c_str(), "cannot read");
    if (n == 0) return text;
    if (static_cast<size_t>(n) > limit - text.size()) {
      return Error{Fault::kIo, EFBIG, path, "more than " + std::to_string(limit) + " bytes"};
    }
    text.append(part.data(), static_cast<size_t>(n));
  }
}

Status replace_file(const std::string& path, std::string_view text) {
  const int failure = replace(path, text);
  if (failure == 0) return {};
  errno = failure;
  return errno_error(path.c_str(), "cannot write");
}

Status flush_stdout() {
  errno = 0;
  const bool failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed) return {};
  if (errno == 0) errno = EIO;  // of an earlier write, and forgotten
  return errno_error("stdout", "cannot write");
}

}  // namespace base
