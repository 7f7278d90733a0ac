// Untrusted bytes and descriptors on the socket of a remote PCI function (driver/qemu/remote_pci),
// with a device that does DMA where it is told.
//
// One step is {action, fds, size16} and data; see perform(). Messages are built from the data with
// a right header, or sent as they are. Invariants: serving returns, a session that has ended has
// let go of the guest's memory, and no descriptor leaks.
#include "driver/qemu/remote_pci.h"
#include "tests/fuzz/fake_function.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/socket_peer.h"

namespace fuzz {
namespace {

namespace remote = driver::qemu::remote;

constexpr size_t kMaxSteps = 128;

class Session {
 public:
  Session(Input& input, OddFiles& files) : input_(input), files_(files) {}

  void run() {
    for (size_t steps = 0; !input_.empty() && steps < kMaxSteps; ++steps) perform();
    serve();
    peer_.close();
    serve();
    if (!gone_) found("a session outlives its peer");
    if (memory_.regions() != 0) found("guest memory outlives its session");
  }

 private:
  void perform() {
    const uint8_t action = input_.u8();
    const uint8_t fds = input_.u8();
    const uint16_t size = input_.u16();
    switch (action % 12) {
      case 0:
        return send(remote::Command::kSyncSysmem, 192, fds);
      case 1:
        return send(remote::Command::kConfigWrite, 12, fds);
      case 2:
        return send(remote::Command::kConfigRead, 12, fds);
      case 3:
        return send(remote::Command::kBarWrite, 24, fds);
      case 4:
        return send(remote::Command::kBarRead, 24, fds);
      case 5:
        return send(remote::Command::kSetIrqFd, 0, fds);
      case 6:
        return send(remote::Command::kDeviceReset, 0, fds);
      case 7:  // anything
        return peer_.send(input_.bytes(size % 300), files_.several(fds));
      case 8:
        return dma(size);
      case 9:
        if ((size & 15) == 0) return peer_.half_close();
        return files_.shrink(size);
      default:
        if ((size & 1) == 0) peer_.drain();
        return serve();
    }
  }

  void send(remote::Command command, size_t payload, uint8_t fds) {
    const auto header = remote::encode_header(command, payload);
    std::vector<uint8_t> message(header.begin(), header.end());
    const std::vector<uint8_t> body = input_.bytes(payload);
    message.insert(message.end(), body.begin(), body.end());
    peer_.send(message, files_.several(fds));
  }

  // The device's own doing, at a place in or around what a table may have brought.
  void dma(uint16_t size) {
    uint8_t words[16];
    base::store(words, input_.u64());
    base::store<uint32_t>(words + 8, uint32_t{size} * 3);
    base::store<uint32_t>(words + 12, input_.u8());
    device_.bar_write(0, FakeFunction::kAddress, {words, sizeof words});
  }

  void serve() {
    if (gone_) return;
    // Each call takes so many messages; an input has less than that many bytes of them.
    for (int i = 0; i < 8 && !gone_; ++i) {
      const auto stays = front_.serve();
      gone_ = !stays || !*stays;
    }
    if (gone_ && memory_.regions() != 0) found("guest memory outlives its session");
  }

  Input& input_;
  OddFiles& files_;
  driver::qemu::GuestMemory memory_;
  FakeFunction device_{memory_};
  SocketPeer peer_;
  driver::qemu::RemotePci front_{device_, memory_, peer_.take_other()};
  bool gone_ = false;
};

}  // namespace
}  // namespace fuzz

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
