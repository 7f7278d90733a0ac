// The vfio-user protocol on the wire: commands, structures, constants. Source of truth: QEMU's
// docs/interop/vfio-user.rst ("the document"; section names in quotes below), which takes region
// and interrupt indices from <linux/vfio.h>. All data is in the host's byte order ("Protocol
// Specification"); sizes are in bytes.
#pragma once

#include <cstdint>

namespace driver::qemu::vfio {

// "Version": the reply keeps the proposed major number and at most the proposed minor one. The
// document names no number of its own; its drafts were numbered 0.9, so the major one is 0.
constexpr uint16_t kVersionMajor = 0;
constexpr uint16_t kVersionMinor = 1;

// "Commands". 14 (dirty pages, in drafts) and anything above 18 is unknown.
enum class Command : uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kDeviceGetInfo = 4,
  kDeviceGetRegionInfo = 5,
  kDeviceGetRegionIoFds = 6,
  kDeviceGetIrqInfo = 7,
  kDeviceSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,   // server to client
  kDmaWrite = 12,  // server to client
  kDeviceReset = 13,
  kRegionWriteMulti = 15,
  kDeviceFeature = 16,
  kMigDataRead = 17,
  kMigDataWrite = 18,
};

// "Header"
struct Header {
  uint16_t id = 0;  // the sender's; echoed in the reply
  uint16_t command = 0;
  uint32_t size = 0;  // of the message with this header
  uint32_t flags = 0;
  uint32_t error = 0;  // errno, in a reply with kFlagError
};
static_assert(sizeof(Header) == 16);

constexpr uint32_t kFlagType = 0xF;
constexpr uint32_t kTypeCommand = 0;
constexpr uint32_t kTypeReply = 1;
constexpr uint32_t kFlagNoReply = 1u << 4;
constexpr uint32_t kFlagError = 1u << 5;

// "VFIO_USER_VERSION", followed by JSON with its terminating NUL
struct Version {
  uint16_t major = 0;
  uint16_t minor = 0;
};
static_assert(sizeof(Version) == 4);

// Values of a capability that the peer does not name ("Version", table of capabilities).
constexpr uint32_t kDefaultMaxFds = 1;
constexpr uint32_t kDefaultMaxTransfer = 1048576;
constexpr uint32_t kDefaultMaxDmaMaps = 65535;
constexpr uint32_t kPageSize = 4096;

// "VFIO_USER_DMA_MAP"
struct DmaMap {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint64_t size = 0;
};
static_assert(sizeof(DmaMap) == 32);
constexpr uint32_t kDmaReadable = 1u << 0;
constexpr uint32_t kDmaWritable = 1u << 1;

// "VFIO_USER_DMA_UNMAP". Its flags are unused in the document; those of <linux/vfio.h>
// (struct vfio_iommu_type1_dma_unmap) are taken for them.
struct DmaUnmap {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint64_t address = 0;
  uint64_t size = 0;
};
static_assert(sizeof(DmaUnmap) == 24);
constexpr uint32_t kUnmapDirtyBitmap = 1u << 0;
constexpr uint32_t kUnmapAll = 1u << 1;  // address and size are 0

// "VFIO_USER_DEVICE_GET_INFO"
struct DeviceInfo {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint32_t num_regions = 0;
  uint32_t num_irqs = 0;
};
static_assert(sizeof(DeviceInfo) == 16);
constexpr uint32_t kDeviceReset = 1u << 0;
constexpr uint32_t kDevicePci = 1u << 1;

// "VFIO_USER_DEVICE_GET_REGION_INFO"
struct RegionInfo {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint32_t index = 0;
  uint32_t cap_offset = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};
static_assert(sizeof(RegionInfo) == 32);
constexpr uint32_t kRegionReadable = 1u << 0;
constexpr uint32_t kRegionWritable = 1u << 1;
constexpr uint32_t kRegionMmap = 1u << 2;
constexpr uint32_t kRegionCaps = 1u << 3;

// "VFIO region capabilities": header of the sparse mmap capability; areas follow.
struct SparseMmap {
  uint16_t id = 1;  // VFIO_REGION_INFO_CAP_SPARSE_MMAP
  uint16_t version = 1;
  uint32_t next = 0;
  uint32_t nr_areas = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(SparseMmap) == 16);
struct SparseArea {
  uint64_t offset = 0;  // in the region, and from RegionInfo::offset in the file
  uint64_t size = 0;
};
static_assert(sizeof(SparseArea) == 16);

// <linux/vfio.h>: regions of a PCI device
constexpr uint32_t kBars = 6;  // regions 0 to 5
constexpr uint32_t kRegionRom = 6;
constexpr uint32_t kRegionConfig = 7;
constexpr uint32_t kRegionVga = 8;
constexpr uint32_t kRegions = 9;
// <linux/vfio.h>: INTx, MSI, MSI-X, error, request
constexpr uint32_t kIrqs = 5;
constexpr uint32_t kIrqOfErrors = 3;  // VFIO_PCI_ERR_IRQ_INDEX

// PCI Express Base Specification: extended configuration space of a function
constexpr uint64_t kConfigBytes = 4096;

// "VFIO_USER_DEVICE_GET_REGION_IO_FDS"; "VFIO_USER_DEVICE_GET_IRQ_INFO" has the same shape.
struct IndexInfo {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint32_t index = 0;
  uint32_t count = 0;
};
static_assert(sizeof(IndexInfo) == 16);

// "VFIO_USER_DEVICE_SET_IRQS"
struct IrqSet {
  uint32_t argsz = 0;
  uint32_t flags = 0;
  uint32_t index = 0;
  uint32_t start = 0;
  uint32_t count = 0;
};
static_assert(sizeof(IrqSet) == 20);
constexpr uint32_t kIrqDataNone = 1u << 0;
constexpr uint32_t kIrqActionTrigger = 1u << 5;

// "VFIO_USER_REGION_READ", "VFIO_USER_REGION_WRITE"; data follows.
struct RegionAccess {
  uint64_t offset = 0;
  uint32_t region = 0;
  uint32_t count = 0;
};
static_assert(sizeof(RegionAccess) == 16);

// "VFIO_USER_REGION_WRITE_MULTI": a count of 64 bits, then these.
struct SingleWrite {
  uint64_t offset = 0;
  uint32_t region = 0;
  uint32_t count = 0;  // at most 8
  uint8_t data[8] = {};
};
static_assert(sizeof(SingleWrite) == 24);

// "VFIO_USER_DMA_READ", "VFIO_USER_DMA_WRITE"; data follows. The table of the reply to a write
// gives its count 4 bytes, so replies of 12 and of 16 bytes are taken.
struct DmaAccess {
  uint64_t address = 0;
  uint64_t count = 0;
};
static_assert(sizeof(DmaAccess) == 16);
constexpr uint32_t kDmaWriteReplyShort = 12;

}  // namespace driver::qemu::vfio
