// Untrusted packets on the sockets of the device-node server (driver/node), from two processes: the
// target's own, whose memory the server reads and writes directly, and a child, for which the host
// refuses that, so that its memory travels through its channel.
//
// One step is {action, slot, variant, n} and data; see perform(). The target is the kernel thread;
// a waiting task lets those behind it run first. Three system calls are replaced: process_vm_readv
// and _writev work on a window of memory that stands for the clients', and sendmsg lets a client
// answer before the server waits for it. Invariants: the server goes on serving, an input's files
// are all closed at its end, and no connection is left.
#include "tests/fuzz/node_bench.h"

#include "driver/node/protocol.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"

namespace fuzz {
namespace {

namespace wire = driver::wire;

constexpr size_t kMaxSteps = 64;
constexpr size_t kSlots = 6;

const char* const kPaths[] = {"/sys/class/neuron_device/neuron0/core_count",
                              "/sys/devices/virtual/neuron_device/neuron3/note",
                              "/sys/class/neuron_device/neuron0",
                              "/sys/class/neuron_device/../../../etc/passwd",
                              "/sys/class/dmi/id/product_name",
                              "/proc/none",
                              "relative",
                              ""};

class Stream {
 public:
  explicit Stream(Input& input) : input_(input), clients_(kSlots) {}

  void run() {
    for (size_t steps = 0; !input_.empty() && steps < kMaxSteps; ++steps) perform();
    for (Client& client : clients_) client.close();
    bench_.finish();
  }

 private:
  void perform() {
    const uint8_t action = input_.u8();
    Client& client = clients_[input_.u8() % kSlots];
    const uint8_t variant = input_.u8();
    const uint8_t n = input_.u8();
    switch (action % 20) {
      case 0:
      case 1:
        return bench_.connect(client, (variant & 1) != 0, (variant & 2) != 0);
      case 2:
        return send(client, wire::kHello, 0, {}, variant);
      case 3:
        return send(client, wire::kOpen, 0, body(wire::OpenBody{n % 5, variant & 0x43}), variant);
      case 4:
        return send(client, wire::kIoctl, n, body(ioctl()), variant);
      case 5:
        return send(client, wire::kMmap, n, input_.bytes(sizeof(wire::MmapBody)), variant);
      case 6:
        return send(client, wire::kMunmap, n, input_.bytes(sizeof(wire::MunmapBody)), variant);
      case 7:
        return send(client, wire::kMmioWrite, n, input_.bytes(sizeof(wire::MmioWriteBody)),
                    variant);
      case 8:
        return send(client, wire::kFlush, n, {}, variant);
      case 9:
        return send(client, wire::kSysfsRefresh, 0, path(n), variant);
      case 10:
        return send(client, (variant & 0x20) != 0 ? wire::kSysfsWatch : wire::kSysfsOpen, n & 1,
                    path(n >> 1), variant);
      case 11:
        return send(client, wire::kIdentify, 0, {}, variant);
      case 12:  // anything
        return client.send(input_.bytes(size_t{n} * 2));
      case 13:
        return client.send(std::vector<uint8_t>(wire::kMaxMessage - 128 + n, variant));
      case 14:
        return bent_header(client, variant, n);
      case 15:
        return send(client, wire::kMemoryData, 0, input_.bytes(sizeof(wire::MemoryBody) + n),
                    variant);
      case 16:
        bench_.set_answers(variant);
        return;
      case 17:
        return (variant & 1) != 0 ? client.half_close() : client.close();
      case 18:
        if (n == 0xFF) return bench_.kill_child(clients_);
        return bench_.set_refusals(variant);
      default:
        bench_.serve(clients_);
        return;
    }
  }

  template <typename Body>
  static std::vector<uint8_t> body(const Body& value) {
    std::vector<uint8_t> bytes(sizeof value);
    base::store(bytes.data(), value);
    return bytes;
  }

  wire::IoctlBody ioctl() {
    wire::IoctlBody ioctl{};
    ioctl.request = input_.u32();
    ioctl.argument = NodeBench::kWindow + input_.u32();
    return ioctl;
  }

  std::vector<uint8_t> path(uint8_t n) {
    constexpr size_t kKnown = sizeof kPaths / sizeof kPaths[0];
    std::vector<uint8_t> bytes(sizeof(wire::SysfsBody));
    if (n % (kKnown + 1) == kKnown) return input_.bytes(bytes.size());
    std::memcpy(bytes.data(), kPaths[n % (kKnown + 1)], std::strlen(kPaths[n % (kKnown + 1)]));
    return bytes;
  }

  // Bit 7 of `variant`: without serving it before the next step.
  void send(Client& client, wire::Kind kind, uint8_t token, const std::vector<uint8_t>& payload,
            uint8_t variant) {
    wire::Header header = bench_.header(client, kind, payload.size());
    const bool plain = kind == wire::kSysfsOpen || kind == wire::kSysfsWatch;
    header.token = plain ? token : bench_.token(token);
    header.node = (variant & 0x40) != 0 ? 1 : 0;
    send(client, header, payload);
    if ((variant & 0x80) == 0) bench_.serve(clients_);
  }
  static void send(Client& client, const wire::Header& header,
                   const std::vector<uint8_t>& payload) {
    std::vector<uint8_t> message(sizeof header + payload.size());
    base::store(message.data(), header);
    std::copy(payload.begin(), payload.end(), message.begin() + sizeof header);
    client.send(message);
  }

  // One field of a header is the input's.
  void bent_header(Client& client, uint8_t field, uint8_t kind) {
    wire::Header header = bench_.header(client, static_cast<wire::Kind>(kind % 40), 0);
    uint8_t bytes[sizeof header];
    base::store(bytes, header);
    base::store(bytes + field % (sizeof header / 4) * 4, input_.u32());
    client.send(std::vector<uint8_t>(bytes, bytes + sizeof bytes));
  }

  Input& input_;
  NodeBench& bench_ = NodeBench::get();
  std::vector<Client> clients_;
};

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::Stream(input).run();
  return 0;
}
