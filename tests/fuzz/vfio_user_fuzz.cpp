// Untrusted bytes and descriptors of a vfio-user client (driver/qemu/vfio_user), with a device that
// does DMA where it is told: into files of the client and, where a range has none, through messages
// that the client answers as the input likes.
//
// One step is {action, fds, size16} and data; see perform(). A client that does not answer a DMA at
// all would be waited for in wall time: the target replaces poll(2), and has the client leave then.
// Invariants: serving returns, a session that has ended has let go of the client's memory, and no
// descriptor leaks.
#include <poll.h>

#include "driver/qemu/vfio_user.h"
#include "tests/fuzz/fake_function.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/socket_peer.h"

namespace fuzz {
namespace {

namespace vfio = driver::qemu::vfio;

constexpr size_t kMaxSteps = 128;
constexpr size_t kMaxData = 4096;

SocketPeer* waited_for = nullptr;

class Session {
 public:
  Session(Input& input, OddFiles& files) : input_(input), files_(files) { waited_for = &peer_; }
  ~Session() { waited_for = nullptr; }

  void run() {
    if ((input_.u8() & 1) == 0) agree();
    for (size_t steps = 0; !input_.empty() && steps < kMaxSteps; ++steps) perform();
    serve();
    peer_.close();
    serve();
    serve();
    if (!gone_) found("a session outlives its peer");
    front_.reset();
    if (memory_.ranges() != 0) found("client memory outlives its session");
  }

 private:
  void perform() {
    const uint8_t action = input_.u8();
    const uint8_t fds = input_.u8();
    const uint16_t size = input_.u16();
    switch (action % 16) {
      case 0:  // anything
        return peer_.send(input_.bytes(size % 300), files_.several(fds));
      case 1:
      case 2:
        return send(vfio::Command::kDmaMap, sizeof(vfio::DmaMap), fds);
      case 3:
        return send(vfio::Command::kDmaUnmap, sizeof(vfio::DmaUnmap), fds);
      case 4:
        return send(vfio::Command::kDeviceGetRegionInfo, sizeof(vfio::RegionInfo), fds);
      case 5:
        return send(static_cast<vfio::Command>(size % 20), size >> 8, fds);
      case 6:
        return send(vfio::Command::kRegionRead, sizeof(vfio::RegionAccess), fds);
      case 7:
        return send(vfio::Command::kRegionWrite, sizeof(vfio::RegionAccess) + size % kMaxData, fds);
      case 8:
        return send(vfio::Command::kRegionWriteMulti,
                    sizeof(uint64_t) + size % 8 * sizeof(vfio::SingleWrite), fds);
      case 9:
        return send(vfio::Command::kDeviceReset, 0, fds);
      case 10:
      case 11:
        return answer(size);
      case 12:
        return dma(size);
      case 13:
        if ((size & 15) == 0) return peer_.half_close();
        return files_.shrink(size);
      default:
        if ((size & 1) == 0) peer_.drain();
        return serve();
    }
  }

  void send(vfio::Header header, base::ConstByteSpan payload, uint8_t fds) {
    header.size = static_cast<uint32_t>(sizeof header + payload.size());
    std::vector<uint8_t> message(sizeof header + payload.size());
    base::store(message.data(), header);
    std::copy(payload.begin(), payload.end(), message.begin() + sizeof header);
    peer_.send(message, files_.several(fds));
  }
  void send(vfio::Command command, size_t payload, uint8_t fds) {
    vfio::Header header;
    header.id = next_id_++;
    header.command = static_cast<uint16_t>(command);
    send(header, input_.bytes(payload), fds);
  }

  void agree() {
    constexpr char kText[] =
        "\0\0\1\0{\"capabilities\":{\"max_msg_fds\":8,\"write_multiple\":true}}";
    vfio::Header header;
    header.command = static_cast<uint16_t>(vfio::Command::kVersion);
    send(header, {reinterpret_cast<const uint8_t*>(kText), sizeof kText}, 0);
    serve();
  }

  // The reply to a DMA that will be asked for; low bits of `size` bend it.
  void answer(uint16_t size) {
    const uint64_t address = input_.u64();
    const uint32_t count = size >> 4;
    vfio::Header header;
    header.id = static_cast<uint16_t>(asked_++ + ((size & 8) != 0 ? 1 : 0));
    header.command =
        static_cast<uint16_t>((size & 1) == 0 ? vfio::Command::kDmaRead : vfio::Command::kDmaWrite);
    header.flags = vfio::kTypeReply | ((size & 4) != 0 ? vfio::kFlagError : 0);
    std::vector<uint8_t> payload(sizeof(vfio::DmaAccess) + ((size & 3) == 0 ? count : 0));
    base::store(payload.data(), vfio::DmaAccess{address, count});
    send(header, payload, 0);
  }

  // The device's own doing, at a place in or around what has been mapped.
  void dma(uint16_t size) {
    uint8_t words[16];
    base::store(words, input_.u64());
    base::store<uint32_t>(words + 8, size >> 4);
    base::store<uint32_t>(words + 12, size & 15);
    device_.bar_write(0, FakeFunction::kAddress, {words, sizeof words});
  }

  void serve() {
    if (gone_) return;
    for (int i = 0; i < 8 && !gone_; ++i) {
      const auto stays = front_->serve();
      gone_ = !stays || !*stays;
    }
  }

  Input& input_;
  OddFiles& files_;
  vfio::ClientMemory memory_;
  FakeFunction device_{memory_};
  SocketPeer peer_;
  std::unique_ptr<driver::qemu::VfioUser> front_ =
      std::make_unique<driver::qemu::VfioUser>(device_, memory_, peer_.take_other());
  bool gone_ = false;
  uint16_t next_id_ = 1;
  uint16_t asked_ = 0;
};

}  // namespace
}  // namespace fuzz

extern "C" int __wrap_poll(pollfd* fds, nfds_t count, int /*timeout*/) {
  if (fuzz::waited_for != nullptr) fuzz::waited_for->close();
  for (nfds_t i = 0; i < count; ++i) fds[i].revents = fds[i].events;
  return static_cast<int>(count);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* files = new fuzz::OddFiles;
  const int before = fuzz::lowest_free_fd();
  {
    fuzz::Input input(data, size);
    fuzz::Session(input, *files).run();
  }
  files->restore();
  if (fuzz::lowest_free_fd() != before) fuzz::found("descriptors leak");
  return 0;
}
