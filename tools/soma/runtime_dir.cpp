#include "tools/soma/runtime_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace soma {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "/lock";
// A Unix socket's path has 107 characters; sockets inside need some of them.
constexpr size_t kMaxBase = 60;
constexpr size_t kMaxName = 32;
constexpr mode_t kPrivate = 0700;

bool usable(const std::string& directory) {
  struct stat info = {};
  return !directory.empty() && directory.front() == '/' && directory.size() <= kMaxBase &&
         ::stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         ::access(directory.c_str(), W_OK | X_OK) == 0;
}

std::string base_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && usable(runtime)) return runtime;
  // Directories of sysfs are many small files: on a disk they cost more than all the rest.
  return usable("/dev/shm") ? "/dev/shm" : "/tmp";
}

std::string prefix() {
  return base_directory() + "/soma-" + std::to_string(::getuid()) + "-";
}

// Ours, a real directory, closed to others: nobody could have planted it in /tmp.
bool is_private(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid() &&
         (info.st_mode & 077) == 0;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;  // nothing useful can be done about a directory that stays
  fs::remove_all(path, ignored);
}

// Removes what killed machines of this user left.
void remove_stale() {
  std::error_code error;
  const std::string start = prefix();
  for (const auto& entry : fs::directory_iterator(base_directory(), error)) {
    const std::string path = entry.path().string();
    if (path.compare(0, start.size(), start) != 0 || !is_private(path)) continue;
    // Without a lock file it is being made just now.
    if (::access((path + kLock).c_str(), F_OK) == 0 && !RuntimeDir::held(path)) remove_tree(path);
  }
}

}  // namespace

RuntimeDir::RuntimeDir(RuntimeDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RuntimeDir& RuntimeDir::operator=(RuntimeDir&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
  }
  return *this;
}

RuntimeDir::~RuntimeDir() {
  remove();
}

void RuntimeDir::remove() {
  if (!path_.empty()) remove_tree(path_);
  path_.clear();
}

// The lock file appears only when it is locked.
base::Status RuntimeDir::take_lock() {
  const std::string hidden = path_ + "/.lock";
  lock_ = base::UniqueFd(::open(hidden.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock_.valid() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(hidden.c_str(), (path_ + kLock).c_str()) != 0) {
    return base::errno_error(path_.c_str(), "cannot lock the runtime directory");
  }
  return {};
}

void RuntimeDir::remove_at(const std::string& path) {
  remove_tree(path);
}

bool RuntimeDir::held(const std::string& path) {
  if (!is_private(path)) return false;
  const base::UniqueFd lock(::open((path + kLock).c_str(), O_RDONLY | O_CLOEXEC));
  return lock.valid() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

base::Result<RuntimeDir> RuntimeDir::create() {
  remove_stale();
  std::string path = prefix() + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return base::errno_error(path.c_str(), "mkdtemp");
  RuntimeDir directory;
  directory.path_ = path;
  base::Status locked = directory.take_lock();
  if (!locked) return locked.error();
  return directory;
}

base::Result<std::string> RuntimeDir::path_of(const std::string& name) {
  constexpr const char* kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.empty() || name.size() > kMaxName || name.find_first_not_of(kWord) != name.npos) {
    return base::Error{base::Fault::kConfig, 0, "--name",
                       "'" + name + "' is not a word of letters, digits, _ and - (at most 32)"};
  }
  return prefix() + "up-" + name;
}

base::Result<RuntimeDir> RuntimeDir::create_named(const std::string& name) {
  base::Result<std::string> path = path_of(name);
  if (!path) return path.error();
  remove_stale();
  if (::mkdir(path->c_str(), kPrivate) != 0) {
    if (errno == EEXIST && held(*path)) {
      return base::Error{base::Fault::kUsage, EEXIST, name,
                         "a machine of this name is up; stop it with: soma down --name " + name};
    }
    return base::errno_error(path->c_str(), "cannot create the runtime directory");
  }
  RuntimeDir directory;
  directory.path_ = *path;
  base::Status locked = directory.take_lock();
  if (!locked) return locked.error();
  return directory;
}

}  // namespace soma
