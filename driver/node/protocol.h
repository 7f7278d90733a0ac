// Messages between client processes (driver/shim) and the device-node server, on SOCK_SEQPACKET
// sockets: one message per packet, fixed little-endian layout. Four kinds of connection, told
// apart by their first message:
//   channel  kHello     then one request at a time, each answered by one kReply; a process has as
//   many
//                       channels as it has threads inside a request
//   file     kOpen      the socket *is* the open file: its last close(2) anywhere is the release;
//   afterwards it
//                       only answers kIdentify, which a process that inherited it uses to learn the
//                       token
//   writer   kSysfsOpen the socket is a sysfs attribute open for writing: each later packet is one
//   write(2)
//   watcher  kSysfsWatch after the answer, one byte comes for each change of an attribute that
//   pollers are told of; the token of the request is the count of changes that the client has seen
// The receiver validates every field; a violation closes the connection.
#pragma once

#include <stdint.h>

namespace driver::wire {

constexpr uint32_t kMagic = 0x4e4e4431;  // "1DNN"
constexpr uint32_t kVersion = 2;

enum Kind : uint32_t {
  kHello = 1,
  kOpen = 2,
  kIdentify = 3,
  kIoctl = 4,
  kMmap = 5,
  kMunmap = 6,
  kMmioWrite = 7,
  kFlush = 8,
  kSysfsRefresh = 9,
  kSysfsOpen = 10,
  kMemoryData = 11,  // client's answer to kMemoryRead and kMemoryWrite
  kSysfsWatch = 12,
  kLastRequest = kSysfsWatch,
  kReply = 32,
  kMemoryRead = 33,   // asks a waiting client for bytes of its memory
  kMemoryWrite = 34,  // asks a waiting client to store bytes
};

struct Header {
  uint32_t magic;
  uint32_t version;
  uint32_t length;  // of the whole message, header included
  uint32_t kind;
  int32_t pid;  // the sender's process id; must equal the socket's credentials
  int32_t tid;
  uint32_t node;    // which node of the platform, 0-based
  uint32_t serial;  // chosen by the sender of a request, echoed by its answer
  uint64_t token;   // names an open file; 0 where none is meant
};
static_assert(sizeof(Header) == 40, "wire layout");

struct OpenBody {
  int32_t minor;
  int32_t flags;  // open(2)
};
struct IoctlBody {
  uint32_t request;
  uint32_t reserved;
  uint64_t argument;
};
struct MmapBody {
  uint64_t address;  // where the client will map, 0 = undecided
  uint64_t offset;
  uint64_t length;
  int32_t protection;  // PROT_READ, PROT_WRITE
  int32_t flags;       // MAP_SHARED, ...
};
struct MunmapBody {
  uint64_t offset;
  uint64_t length;
};
struct MmioWriteBody {
  uint64_t bar_offset;
  uint32_t value;
  uint32_t reserved;
};
constexpr uint32_t kMaxPath = 512;
struct SysfsBody {
  char path[kMaxPath];  // absolute, as the program named it, NUL-terminated
};
struct MemoryBody {  // followed by `size` bytes in kMemoryWrite and in the answer to kMemoryRead
  uint64_t address;
  uint32_t size;
  uint32_t ok;  // answer: 1 when the whole range was accessible
};
constexpr uint32_t kMaxMemoryPart = 32 * 1024;

// Bodies of kReply; every one starts with the result: >= 0, or -errno. That of kSysfsRefresh is the
// count of changes of the attribute, that of kSysfsWatch is 1 when an event follows at once.
struct ReplyBody {
  int64_t result;
};
struct HelloReply {  // carries the status page's descriptor
  int64_t result;
  int32_t server_pid;
  uint32_t major;             // of the character device
  uint64_t minors;            // bit N: /dev/neuronN exists on the node
  char sysfs_root[kMaxPath];  // the virtual tree's files lie below it at their usual absolute path
  char host_name[64];         // empty: the host's own
  uint32_t node_count;        // of the machine; nodes are called alike but for a number at the end
  uint32_t reserved;
  uint32_t path_count;  // further virtual files, below /sys or /proc
  uint32_t path_bytes;
  char paths[2048];  // NUL-terminated, one after the other
};
struct OpenReply {
  int64_t result;
  uint64_t token;
  int32_t minor;
  int32_t flags;
};
struct MmapReply {  // carries the descriptor to map
  int64_t result;
  uint64_t fd_offset;
  uint64_t length;
  uint64_t bar_offset;  // of the first byte, when store_is_mmio
  uint32_t writable;
  uint32_t store_is_mmio;
};

constexpr uint32_t kMaxMessage = sizeof(Header) + sizeof(MemoryBody) + kMaxMemoryPart;

}  // namespace driver::wire
