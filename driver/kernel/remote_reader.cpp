#include "driver/kernel/remote_reader.h"

#include "arch/contract/descriptor.h"
#include "driver/kernel/neuron_device.h"

namespace driver {
namespace {

constexpr uint32_t kRing = 1024;  // descriptors per half (spec/hw-registers.md 9.3)
// The host page: a constant 1, the flag that the second descriptor sets, the data.
constexpr uint64_t kOne = 0;
constexpr uint64_t kFlag = 4;
constexpr uint64_t kData = 8;
constexpr int kPolls = 1000;
constexpr base::Ps kPollPeriod = base::us(4);

}  // namespace

RemoteReader::~RemoteReader() {
  for (const Queue& queue : queues_) {
    for (const uint64_t phys : {queue.tx, queue.rx, queue.page}) {
      device_.context().arena.free(phys);
    }
  }
}

bool RemoteReader::allocate(Queue& queue) {
  HostArena& arena = device_.context().arena;
  constexpr uint64_t kRingBytes = kRing * sizeof(contract::Descriptor);
  if (queue.tx == 0) queue.tx = arena.allocate(kRingBytes).value_or(0);
  if (queue.rx == 0) queue.rx = arena.allocate(kRingBytes).value_or(0);
  if (queue.page == 0) queue.page = arena.allocate(HostArena::kPage).value_or(0);
  return queue.tx != 0 && queue.rx != 0 && queue.page != 0;
}

bool RemoteReader::start() {
  const Dhal& dhal = device_.dhal();
  const uint64_t window = dhal.map.host_window();
  for (uint32_t i = 0; i < kEngines; ++i) {
    Queue& queue = queues_[i];
    device_.engines().init_engine(dhal.election_engines[i]);
    if (!allocate(queue)) return false;
    queue.next = 0;
    queue.ring_id = 1;
    const int error = device_.engines().init_queue(
        dhal.election_engines[i], 0, {queue.tx | window, kRing}, {queue.rx | window, kRing});
    if (error != 0) return false;
  }
  return true;
}

void RemoteReader::put(Queue& queue, uint64_t from, uint64_t to, uint32_t bytes) {
  namespace desc = contract::desc;
  HostArena& arena = device_.context().arena;
  const uint64_t at = queue.next * sizeof(contract::Descriptor);
  base::store(arena.at(queue.tx) + at,
              desc::tx_copy(from, bytes, queue.ring_id, desc::kFirst | desc::kLast, true));
  base::store(arena.at(queue.rx) + at, desc::rx(to, bytes, queue.ring_id));
  if (++queue.next == kRing) {
    queue.next = 0;
    queue.ring_id = (queue.ring_id + 1) % 4;
  }
}

std::optional<RemoteReader::Words> RemoteReader::read(uint32_t engine, uint32_t offset,
                                                      uint32_t words) {
  const contract::AddressMap& map = device_.dhal().map;
  const uint32_t number = device_.dhal().election_engines[engine];
  Queue& queue = queues_[engine];
  uint8_t* const page = device_.context().arena.at(queue.page);
  base::store(page + kOne, uint32_t{1});
  base::store(page + kFlag, uint32_t{0});
  constexpr uint32_t kEnginesPerWindow = 32;
  const uint64_t remote = contract::AddressMap::neighbour_address(number / kEnginesPerWindow,
                                                                  map.misc_ram().device + offset);
  const uint64_t local = queue.page | map.host_window();
  put(queue, remote, local + kData, words * 4);
  put(queue, local + kOne, local + kFlag, 4);
  device_.engines().ring_rx(number, 0, 2);
  device_.engines().ring_tx(number, 0, 2);
  for (int poll = 0; poll < kPolls; ++poll) {
    if (base::load<uint32_t>(page + kFlag) == 1) {
      Words out{};
      for (uint32_t w = 0; w < words; ++w) out[w] = base::load<uint32_t>(page + kData + 4 * w);
      return out;
    }
    device_.context().executor.delay(kPollPeriod);
  }
  return std::nullopt;
}

}  // namespace driver
