#include "driver/qemu/client_memory.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "driver/qemu/vfio_user_protocol.h"

namespace driver::qemu::vfio {
namespace {

base::Error refuse(int code, const DmaRange& range, const char* why) {
  return {base::Fault::kUsage, code, "vfio-user",
          "DMA range at " + std::to_string(range.address) + " of " + std::to_string(range.size) +
              " bytes: " + why};
}

}  // namespace

base::Status ClientMemory::check_new(const DmaRange& range) const {
  if (range.size == 0 || range.address % kPageSize != 0 || range.size % kPageSize != 0) {
    return refuse(EINVAL, range, "not whole pages of 4096 bytes");
  }
  if (range.address + (range.size - 1) < range.address) {
    return refuse(EINVAL, range, "wraps around");
  }
  if (ranges_.size() >= kDefaultMaxDmaMaps) return refuse(ENOSPC, range, "one too many");
  const auto next = ranges_.lower_bound(range.address);
  const bool over_next = next != ranges_.end() && next->first - range.address < range.size;
  if (over_next || find(range.address) != ranges_.end()) {
    return refuse(EEXIST, range, "lies over another");
  }
  return {};
}

base::Status ClientMemory::map(const DmaRange& range, base::UniqueFd file, uint64_t file_offset) {
  if (base::Status good = check_new(range); !good) return good;
  if (file_offset % kPageSize != 0) return refuse(EINVAL, range, "file offset within a page");
  base::Status added =
      files_.add({range.address, range.size, std::move(file), file_offset, range.writable});
  if (!added) return added;
  ranges_[range.address] = {range.size, range.readable, range.writable, true};
  return {};
}

base::Status ClientMemory::map(const DmaRange& range) {
  if (base::Status good = check_new(range); !good) return good;
  ranges_[range.address] = {range.size, range.readable, range.writable, false};
  return {};
}

base::Status ClientMemory::unmap(uint64_t address, uint64_t size) {
  const auto at = ranges_.find(address);
  if (at == ranges_.end() || at->second.size != size) {
    return refuse(ENOENT, {address, size}, "is not mapped as such");
  }
  if (at->second.file) files_.remove(address, size);
  ranges_.erase(at);
  return {};
}

void ClientMemory::clear() {
  ranges_.clear();
  files_.clear();
}

// The range that holds `address`.
ClientMemory::Ranges::const_iterator ClientMemory::find(uint64_t address) const {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return ranges_.end();
  --at;
  return address - at->first < at->second.size ? at : ranges_.end();
}

bool ClientMemory::allowed(uint64_t phys, uint64_t length, bool write) const {
  while (length > 0) {
    const auto at = find(phys);
    if (at == ranges_.end()) return false;
    const Range& range = at->second;
    if (write ? !range.writable : !range.readable) return false;
    if (!range.file && messenger_ == nullptr) return false;
    const uint64_t here = std::min(length, range.size - (phys - at->first));
    length -= here;
    phys += here;
  }
  return true;
}

// Calls piece(range, address, part of data) for each range that the access touches.
template <typename Span, typename Piece>
bool ClientMemory::each_piece(uint64_t phys, Span data, bool write, const Piece& piece) const {
  if (!allowed(phys, data.size(), write)) return false;
  for (size_t done = 0; done < data.size();) {
    const auto at = find(phys + done);
    const uint64_t rest = at->second.size - (phys + done - at->first);
    const auto here = static_cast<size_t>(std::min<uint64_t>(data.size() - done, rest));
    // A client that fails in the middle leaves the first part done; it is no longer a client then.
    if (!piece(at->second, phys + done, data.sub(done, here))) return false;
    done += here;
  }
  return true;
}

uint8_t* ClientMemory::direct(uint64_t phys, uint64_t length) {
  const auto at = find(phys);
  if (at == ranges_.end() || length > at->second.size - (phys - at->first)) return nullptr;
  const Range& range = at->second;
  // The caller does not say what it will do with the pointer.
  if (!range.file || !range.readable || !range.writable) return nullptr;
  return files_.direct(phys, length);
}

bool ClientMemory::read(uint64_t phys, base::ByteSpan to) {
  return each_piece(phys, to, false, [&](const Range& range, uint64_t at, base::ByteSpan part) {
    return range.file ? files_.read(at, part) : messenger_->dma_read(at, part);
  });
}

bool ClientMemory::write(uint64_t phys, base::ConstByteSpan from) {
  return each_piece(phys, from, true,
                    [&](const Range& range, uint64_t at, base::ConstByteSpan part) {
                      return range.file ? files_.write(at, part) : messenger_->dma_write(at, part);
                    });
}

}  // namespace driver::qemu::vfio
