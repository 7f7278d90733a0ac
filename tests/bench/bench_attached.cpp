// What a guest waits for: a register read, and copies of 64 MiB to and from a device, over a remote
// PCI socket. bench_attached prints nanoseconds per read, then MB/s of the first copy to the device
// (its pages appear), of later ones, and of copies to the host; at last the median of the
// nanoseconds of reads while data move.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "driver/qemu/guest_memory.h"
#include "driver/qemu/remote_pci.h"
#include "sim/attached_machine.h"
#include "tests/driver_qemu/guest.h"

namespace {

using Clock = std::chrono::steady_clock;
using driver_test::Guest;

constexpr uint64_t kBytes = 64 << 20;
constexpr uint64_t kRam = 256 << 20;
constexpr uint64_t kHbm = contract::kFirmwareReserved;
constexpr int kReads = 20'000;
constexpr int kCopies = 5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double copy_rate(Guest& guest, uint64_t to, uint64_t from) {
  const auto begin = Clock::now();
  if (!guest.copy(to, from, kBytes)) return 0;
  return kBytes / 1e6 / seconds_since(begin);
}

void measure(Guest& guest) {
  guest.boot();
  if (!guest.reset_device()) return;
  guest.set_up_queue();
  const auto begin = Clock::now();
  for (int i = 0; i < kReads; ++i) (void)guest.get(guest.misc(contract::misc::kRoutingId));
  std::printf("%.0f\n", 1e9 * seconds_since(begin) / kReads);
  std::memset(guest.ram(Guest::kData), 7, kBytes);
  const uint64_t host = guest.host(Guest::kData);
  std::printf("%.0f\n", copy_rate(guest, kHbm, host));
  double down = 0;
  double up = 0;
  for (int i = 0; i < kCopies; ++i) {
    down = std::max(down, copy_rate(guest, kHbm, host));
    up = std::max(up, copy_rate(guest, host, kHbm));
  }
  std::printf("%.0f\n%.0f\n", down, up);
  std::vector<double> reads;
  for (int i = 0; i < kCopies; ++i) {
    guest.start_copy(kHbm, host, kBytes);
    while (!guest.copy_done()) {
      const auto at = Clock::now();
      (void)guest.get(guest.misc(contract::misc::kRoutingId));
      reads.push_back(1e9 * seconds_since(at));
    }
  }
  std::sort(reads.begin(), reads.end());
  std::printf("%.0f\n", reads.empty() ? 0 : reads[reads.size() / 2]);
}

}  // namespace

int main() {
  auto platform = config::load_platform("trn1.2xlarge");
  if (!platform) return 1;
  auto timing = config::Timing::load(platform->timing);
  if (!timing) return 1;
  driver::qemu::GuestMemory memory;
  sim::AttachedMachine::Params params{std::move(*platform), std::move(*timing)};
  params.bars = pcie::BarLayout::k32Bit;
  params.host_memory = {&memory};
  auto machine = sim::AttachedMachine::create(std::move(params));
  if (!machine) return 1;
  auto [ours, theirs] = driver_test::socket_pair();
  driver::qemu::RemotePci front((*machine)->device(0), memory, std::move(ours));
  std::thread thread([socket = theirs.release()] {
    Guest guest(base::UniqueFd(socket), kRam);
    measure(guest);
  });
  const base::Status status = (*machine)->serve({&front});
  thread.join();
  return status ? 0 : 1;
}
