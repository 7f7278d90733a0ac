// Allocation in a memory of the chip: pieces of bytes in ranges of partitions. First fit, lowest
// byte first; tiles at other quadrants (32 partitions) may share bytes of the partitions' space.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kernel {

struct Piece {
  int64_t first_partition = 0;
  int64_t partitions = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string name;
};

class Arena {
 public:
  // `bank`: a piece of at most so many bytes lies in one bank, a larger one begins with one; 0:
  // none.
  Arena(std::string name, int64_t bytes, int64_t bank)
      : name_(std::move(name)), bytes_(bytes), bank_(bank) {}

  // The id of the piece, or nothing if it does not fit.
  std::optional<uint32_t> allocate(const std::string& name, int64_t first_partition,
                                   int64_t partitions, int64_t bytes);
  void release(uint32_t id) { pieces_.erase(id); }

  bool has(uint32_t id) const { return pieces_.count(id) != 0; }
  const Piece& piece(uint32_t id) const { return pieces_.at(id); }
  const std::string& name() const { return name_; }
  int64_t capacity() const { return bytes_; }
  // In all partitions of the range.
  int64_t largest_free(int64_t first_partition, int64_t partitions) const;
  int64_t allocated() const;  // bytes of a partition in which anything is allocated
  // "x 2048 at 0, y 512 at 2048", largest first.
  std::string list() const;

 private:
  struct Interval {
    int64_t low;
    int64_t high;
  };
  std::vector<Interval> taken(int64_t first_partition, int64_t partitions) const;
  int64_t placed(int64_t at, int64_t bytes) const;

  std::string name_;
  int64_t bytes_;
  int64_t bank_;
  uint32_t next_ = 1;
  std::map<uint32_t, Piece> pieces_;
};

}  // namespace kernel
