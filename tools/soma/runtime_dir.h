// The private directory of one machine: sockets, control files. Mode 0700 below $XDG_RUNTIME_DIR,
// or /dev/shm or /tmp where that is unset or unusable; the name carries the user id, so users never
// clash.
//
// The owner holds a lock file for as long as it lives; a directory whose lock is free was left by a
// machine that was killed, and the next one removes it.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace soma {

class RuntimeDir {
 public:
  // A fresh directory.
  static base::Result<RuntimeDir> create();
  // The directory of the machine `name`; fails if such a machine is alive.
  static base::Result<RuntimeDir> create_named(const std::string& name);
  // Where create_named puts it; fails for a name that is not a plain word.
  static base::Result<std::string> path_of(const std::string& name);
  // True if a machine that is alive holds the directory.
  static bool held(const std::string& path);
  // Removes the directory of a machine whose owner cannot.
  static void remove_at(const std::string& path);

  RuntimeDir() = default;
  RuntimeDir(RuntimeDir&& other) noexcept;
  RuntimeDir& operator=(RuntimeDir&& other) noexcept;
  RuntimeDir(const RuntimeDir&) = delete;
  RuntimeDir& operator=(const RuntimeDir&) = delete;
  ~RuntimeDir();

  const std::string& path() const { return path_; }

 private:
  base::Status take_lock();
  void remove();

  std::string path_;
  base::UniqueFd lock_;
};

}  // namespace soma
