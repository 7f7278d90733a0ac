// Backing store of a register window that clients may map: private zero memory, reserved but not
// populated, until somebody asks to share it; then the same bytes live in a memfd. The address
// changes at that moment, so users ask for data() each time.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/fd.h"

namespace hw {

class SharedPages {
 public:
  // `used` bytes from the start may be non-zero; the rest of `size` stays zero.
  SharedPages(uint64_t size, uint64_t used);
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  // The file behind the pages; made on first use. Owned by this object.
  base::Result<int> share(const char* name);
  void clear();

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t used_ = 0;
  base::UniqueFd fd_;
  base::Mapping mapping_;
};

}  // namespace hw
