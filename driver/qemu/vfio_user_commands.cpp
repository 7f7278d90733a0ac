// The commands of vfio-user, client to server. Each names its section of the protocol document.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "driver/qemu/vfio_user.h"
#include "driver/qemu/vfio_user_version.h"

namespace driver::qemu {

using vfio::Header;

const VfioUser::Entry VfioUser::kCommands[] = {
    {vfio::Command::kVersion, 0, &VfioUser::version},  // answers a short one itself
    {vfio::Command::kDmaMap, sizeof(vfio::DmaMap), &VfioUser::dma_map},
    {vfio::Command::kDmaUnmap, sizeof(vfio::DmaUnmap), &VfioUser::dma_unmap},
    {vfio::Command::kDeviceGetInfo, sizeof(vfio::DeviceInfo), &VfioUser::device_info},
    {vfio::Command::kDeviceGetRegionInfo, sizeof(vfio::RegionInfo), &VfioUser::region_info},
    {vfio::Command::kDeviceGetRegionIoFds, sizeof(vfio::IndexInfo), &VfioUser::region_io_fds},
    {vfio::Command::kDeviceGetIrqInfo, sizeof(vfio::IndexInfo), &VfioUser::irq_info},
    {vfio::Command::kDeviceSetIrqs, sizeof(vfio::IrqSet), &VfioUser::set_irqs},
    {vfio::Command::kRegionRead, sizeof(vfio::RegionAccess), &VfioUser::region_read},
    {vfio::Command::kRegionWrite, sizeof(vfio::RegionAccess), &VfioUser::region_write},
    {vfio::Command::kRegionWriteMulti, sizeof(uint64_t), &VfioUser::region_write_multi},
    {vfio::Command::kDeviceReset, 0, &VfioUser::device_reset},
    {{}, 0, nullptr}};

namespace {

// What comes without a file also when all is well: ROMs, the memory of adapters, BARs of vfio-user
// devices that can be mapped. Only main memory of a PC has 640 KiB from 0 on.
constexpr uint64_t kConventional = 640ull << 10;

bool is_main_memory(const vfio::DmaRange& range) {
  return range.writable && range.address == 0 && range.size >= kConventional;
}

uint32_t errno_of(const base::Error& error) {
  if (error.code != 0) return static_cast<uint32_t>(error.code);
  switch (error.fault) {
    case base::Fault::kUnsupported:
      return ENOTSUP;
    case base::Fault::kResource:
      return ENOSPC;
    case base::Fault::kIo:
      return EIO;
    default:
      return EINVAL;
  }
}

}  // namespace

template <typename Payload>
VfioUser::Reply VfioUser::reply_with(const Payload& payload) {
  Reply reply;
  reply.bytes.resize(sizeof(Header) + sizeof payload);
  base::store(reply.bytes.data() + sizeof(Header), payload);
  return reply;
}

// "VFIO_USER_VERSION"
VfioUser::Reply VfioUser::version(Message& message) {
  if (negotiated_) return error(EINVAL);
  const auto agreed = vfio::negotiate(message.payload);
  if (!agreed) {
    Reply reply = error(errno_of(agreed.error()));
    reply.farewell = "no agreement on a version";
    return reply;
  }
  negotiated_ = true;
  write_multiple_ = agreed->write_multiple;
  max_transfer_ = agreed->max_transfer;
  Reply reply;
  reply.bytes.resize(sizeof(Header));
  reply.bytes.insert(reply.bytes.end(), agreed->reply.begin(), agreed->reply.end());
  return reply;
}

// "VFIO_USER_DMA_MAP"
VfioUser::Reply VfioUser::dma_map(Message& message) {
  const auto asked = base::load<vfio::DmaMap>(message.payload.data());
  if (message.fds_lost) return error(EMFILE);
  if (message.payload.size() != sizeof asked || asked.argsz < sizeof asked ||
      message.fds.size() > vfio::kDefaultMaxFds) {
    return error(EINVAL);
  }
  if ((asked.flags & ~(vfio::kDmaReadable | vfio::kDmaWritable)) != 0) return error(EINVAL);
  const vfio::DmaRange range{asked.address, asked.size, (asked.flags & vfio::kDmaReadable) != 0,
                             (asked.flags & vfio::kDmaWritable) != 0};
  if (message.fds.empty() && is_main_memory(range)) {
    Reply reply = error(EINVAL);
    reply.farewell = "guest memory of " + std::to_string(range.size) + " bytes at " +
                     std::to_string(range.address) + " comes without a file: " + vfio::kShareHint;
    return reply;
  }
  const base::Status mapped =
      message.fds.empty() ? memory_.map(range)
                          : memory_.map(range, std::move(message.fds.front()), asked.offset);
  return mapped ? Reply{} : error(errno_of(mapped.error()));
}

// "VFIO_USER_DMA_UNMAP". Transfers take their memory afresh at every step, so none is left that
// could still refer to the range.
VfioUser::Reply VfioUser::dma_unmap(Message& message) {
  const auto asked = base::load<vfio::DmaUnmap>(message.payload.data());
  if (asked.argsz < sizeof asked) return error(EINVAL);
  if ((asked.flags & vfio::kUnmapDirtyBitmap) != 0) return error(ENOTSUP);
  if ((asked.flags & ~vfio::kUnmapAll) != 0) return error(EINVAL);
  if ((asked.flags & vfio::kUnmapAll) != 0) {
    if (asked.address != 0 || asked.size != 0) return error(EINVAL);
    memory_.clear();
  } else if (const base::Status done = memory_.unmap(asked.address, asked.size); !done) {
    return error(errno_of(done.error()));
  }
  vfio::DmaUnmap answer = asked;
  answer.argsz = sizeof answer;
  return reply_with(answer);
}

// "VFIO_USER_DEVICE_GET_INFO"
VfioUser::Reply VfioUser::device_info(Message& message) {
  const auto asked = base::load<vfio::DeviceInfo>(message.payload.data());
  if (asked.argsz < sizeof asked) return error(EINVAL);
  vfio::DeviceInfo info;
  info.argsz = sizeof info;
  info.flags = vfio::kDeviceReset | vfio::kDevicePci;
  info.num_regions = vfio::kRegions;
  info.num_irqs = vfio::kIrqs;
  return reply_with(info);
}

uint64_t VfioUser::region_size(uint32_t region) const {
  if (region < vfio::kBars) return device_.identity().bar_size[region];
  return region == vfio::kRegionConfig ? vfio::kConfigBytes : 0;
}

// "VFIO_USER_DEVICE_GET_REGION_INFO". A region without a size is absent.
VfioUser::Reply VfioUser::region_info(Message& message) {
  const auto asked = base::load<vfio::RegionInfo>(message.payload.data());
  if (asked.argsz < sizeof asked || asked.index >= vfio::kRegions) return error(EINVAL);
  vfio::RegionInfo info;
  info.argsz = sizeof info;
  info.index = asked.index;
  info.size = region_size(asked.index);
  if (info.size != 0) info.flags = vfio::kRegionReadable | vfio::kRegionWritable;
  std::vector<vfio::SparseArea> areas;
  base::UniqueFd file = mappable(asked.index, info, areas);
  if (!file.valid()) return reply_with(info);
  vfio::SparseMmap sparse;
  sparse.nr_areas = static_cast<uint32_t>(areas.size());
  const auto needed = static_cast<uint32_t>(sizeof sparse + areas.size() * sizeof areas[0]);
  // A client that has no room for the capability is told how much it needs. QEMU asks so first, and
  // refuses an offset that lies in the structure itself also then.
  info.argsz = static_cast<uint32_t>(sizeof info) + needed;
  info.flags |= vfio::kRegionCaps;
  info.cap_offset = sizeof info;
  if (asked.argsz < info.argsz) return reply_with(info);
  info.flags |= vfio::kRegionMmap;
  Reply reply = reply_with(info);
  size_t at = reply.bytes.size();
  reply.bytes.resize(at + needed);
  base::store(reply.bytes.data() + at, sparse);
  at += sizeof sparse;
  for (const vfio::SparseArea& area : areas) {
    base::store(reply.bytes.data() + at, area);
    at += sizeof area;
  }
  reply.fd = std::move(file);
  return reply;
}

// The file behind a BAR, and where it is; the protocol has room for one file per region. Not valid
// where there is none.
base::UniqueFd VfioUser::mappable(uint32_t region, vfio::RegionInfo& info,
                                  std::vector<vfio::SparseArea>& areas) {
  if (region >= vfio::kBars || info.size == 0) return {};
  for (const pcie::BarArea& area : device_.bar_areas(static_cast<int>(region))) {
    areas.push_back({area.offset, area.length});
  }
  if (areas.empty()) return {};
  const uint64_t first = areas.front().offset;
  const auto start = device_.bar_map(static_cast<int>(region), first, vfio::kPageSize);
  if (!start || start->fd < 0 || !start->writable || start->fd_offset < first) return {};
  info.offset = start->fd_offset - first;
  return base::UniqueFd(::fcntl(start->fd, F_DUPFD_CLOEXEC, 0));
}

// "VFIO_USER_DEVICE_GET_REGION_IO_FDS": none.
VfioUser::Reply VfioUser::region_io_fds(Message& message) {
  const auto asked = base::load<vfio::IndexInfo>(message.payload.data());
  if (asked.argsz < sizeof asked || asked.flags != 0 || asked.index >= vfio::kRegions) {
    return error(EINVAL);
  }
  return reply_with(vfio::IndexInfo{sizeof asked, 0, asked.index, 0});
}

// "VFIO_USER_DEVICE_GET_IRQ_INFO": spec/hw-registers.md 1.4, none of any type. That of errors is
// refused, as the kernel's VFIO does where a function has none: QEMU warns of a count of 0.
VfioUser::Reply VfioUser::irq_info(Message& message) {
  const auto asked = base::load<vfio::IndexInfo>(message.payload.data());
  if (asked.argsz < sizeof asked || asked.index >= vfio::kIrqs ||
      asked.index == vfio::kIrqOfErrors) {
    return error(EINVAL);
  }
  return reply_with(vfio::IndexInfo{sizeof asked, 0, asked.index, 0});
}

// "VFIO_USER_DEVICE_SET_IRQS": with no interrupts, only their being disabled makes sense.
VfioUser::Reply VfioUser::set_irqs(Message& message) {
  const auto asked = base::load<vfio::IrqSet>(message.payload.data());
  const bool disable = asked.flags == (vfio::kIrqDataNone | vfio::kIrqActionTrigger) &&
                       asked.start == 0 && asked.count == 0;
  if (asked.argsz < sizeof asked || asked.index >= vfio::kIrqs || !disable ||
      message.payload.size() != sizeof asked || !message.fds.empty() || message.fds_lost) {
    return error(EINVAL);
  }
  return {};
}

bool VfioUser::accessible(const vfio::RegionAccess& access, uint64_t count_limit) const {
  const uint64_t size = access.region < vfio::kRegions ? region_size(access.region) : 0;
  return size != 0 && access.count <= count_limit && access.offset <= size &&
         access.count <= size - access.offset;
}

// In naturally aligned pieces of 4, 2 and 1 bytes, as a host bridge makes them.
void VfioUser::access_config(uint64_t offset, uint8_t* data, uint32_t count, bool write) {
  for (uint32_t done = 0; done < count;) {
    const auto at = static_cast<uint32_t>(offset) + done;
    unsigned piece = 4;
    while (at % piece != 0 || piece > count - done) piece /= 2;
    uint32_t value = 0;
    if (write) {
      for (unsigned i = 0; i < piece; ++i) value |= uint32_t{data[done + i]} << (8 * i);
      device_.config_write(at, piece, value);
    } else {
      value = device_.config_read(at, piece);
      for (unsigned i = 0; i < piece; ++i) data[done + i] = static_cast<uint8_t>(value >> (8 * i));
    }
    done += piece;
  }
}

void VfioUser::read_region(const vfio::RegionAccess& access, uint8_t* to) {
  if (access.region == vfio::kRegionConfig) {
    access_config(access.offset, to, access.count, false);
  } else {
    device_.bar_read(static_cast<int>(access.region), access.offset, {to, access.count});
  }
}

void VfioUser::write_region(const vfio::RegionAccess& access, const uint8_t* from) {
  if (access.region == vfio::kRegionConfig) {
    access_config(access.offset, const_cast<uint8_t*>(from), access.count, true);
  } else {
    device_.bar_write(static_cast<int>(access.region), access.offset, {from, access.count});
  }
}

// "VFIO_USER_REGION_READ"
VfioUser::Reply VfioUser::region_read(Message& message) {
  const auto asked = base::load<vfio::RegionAccess>(message.payload.data());
  if (message.payload.size() != sizeof asked || !accessible(asked, vfio::kDefaultMaxTransfer)) {
    return error(EINVAL);
  }
  Reply reply = reply_with(asked);
  const size_t header = reply.bytes.size();
  reply.bytes.resize(header + asked.count);
  read_region(asked, reply.bytes.data() + header);
  return reply;
}

// "VFIO_USER_REGION_WRITE"
VfioUser::Reply VfioUser::region_write(Message& message) {
  const auto asked = base::load<vfio::RegionAccess>(message.payload.data());
  if (!accessible(asked, vfio::kDefaultMaxTransfer) ||
      message.payload.size() != sizeof asked + asked.count) {
    return error(EINVAL);
  }
  write_region(asked, message.payload.data() + sizeof asked);
  return reply_with(asked);
}

// "VFIO_USER_REGION_WRITE_MULTI": all of them or, where one is not good, none.
VfioUser::Reply VfioUser::region_write_multi(Message& message) {
  const auto count = base::load<uint64_t>(message.payload.data());
  const size_t room = (message.payload.size() - sizeof count) / sizeof(vfio::SingleWrite);
  if (!write_multiple_ || count > room ||
      message.payload.size() != sizeof count + count * sizeof(vfio::SingleWrite)) {
    return error(EINVAL);
  }
  const uint8_t* first = message.payload.data() + sizeof count;
  const auto single = [first](uint64_t i) {
    return base::load<vfio::SingleWrite>(first + i * sizeof(vfio::SingleWrite));
  };
  for (uint64_t i = 0; i < count; ++i) {
    const vfio::SingleWrite write = single(i);
    if (!accessible({write.offset, write.region, write.count}, sizeof write.data)) {
      return error(EINVAL);
    }
  }
  for (uint64_t i = 0; i < count; ++i) {
    const vfio::SingleWrite write = single(i);
    write_region({write.offset, write.region, write.count}, write.data);
  }
  return reply_with(count);
}

// "VFIO_USER_DEVICE_RESET". The client's mappings stay.
VfioUser::Reply VfioUser::device_reset(Message& message) {
  if (!message.payload.empty()) return error(EINVAL);
  device_.reset();
  return {};
}

}  // namespace driver::qemu
