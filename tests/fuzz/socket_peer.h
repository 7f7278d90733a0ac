// The untrusted end of a stream socket, with descriptors of every odd kind to pass along.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/span.h"

namespace fuzz {

// Files that a peer might pass: memory files sealed and not, too short, read-only, huge; pipes,
// devices, directories, sockets. Kept from input to input.
class OddFiles {
 public:
  static constexpr uint64_t kMemory = 0x1'0000;
  static constexpr size_t kKinds = 16;

  OddFiles();
  int get(size_t kind) const { return files_[kind % kKinds].get(); }
  // High half of `choice`: how many; low half: the first kind.
  std::vector<int> several(uint8_t choice) const;
  // A peer that takes back what it has passed: the unsealed memory file shrinks to `size`.
  void shrink(uint64_t size);
  // Undoes shrink().
  void restore();

 private:
  base::UniqueFd files_[kKinds];
  bool shrunk_ = false;
};

class SocketPeer {
 public:
  SocketPeer();

  // For the front end, once.
  base::UniqueFd take_other() { return std::move(other_); }
  bool open() const { return own_.valid(); }
  // Never blocks; what does not fit is lost.
  void send(base::ConstByteSpan bytes, const std::vector<int>& fds = {});
  // Takes all that has arrived.
  void drain();
  void half_close();
  void close() { own_.reset(); }

 private:
  base::UniqueFd own_;
  base::UniqueFd other_;
};

// The number of the next descriptor: the same before and after an input unless some have leaked.
int lowest_free_fd();

}  // namespace fuzz
