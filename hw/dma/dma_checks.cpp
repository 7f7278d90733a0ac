#include "hw/dma/dma_checks.h"

#include <algorithm>

namespace hw {

using check::Checker;

DmaChecks::Queue& DmaChecks::queue(uint32_t q) {
  if (queues_[q] == nullptr) {
    queues_[q] = std::make_unique<Queue>();
    queues_[q]->agent = checker_.add_agent();
    queues_[q]->site = Checker::kHost;
  }
  return *queues_[q];
}

void DmaChecks::rung(uint32_t q, Half h, uint32_t count) {
  queue(q).rung[h].push_back(
      {count, checker_.acting_site(), checker_.acting_unplaced(), checker_.released()});
}

void DmaChecks::reset(uint32_t q, Half h) {
  if (queues_[q] != nullptr) queues_[q]->rung[h].clear();
}

// The packet takes its descriptors, and is ordered behind the doorbells that brought them.
void DmaChecks::start(Queue& queue, Half h, uint32_t descriptors) {
  std::deque<Rung>& rung = queue.rung[h];
  while (descriptors != 0 && !rung.empty()) {
    Rung& next = rung.front();
    // The doorbells of both halves know the same.
    if (next.known != nullptr && next.known != queue.last) {
      checker_.join(queue.clock, *next.known);
      queue.known.reset();
      queue.last = next.known;
    }
    next.known.reset();
    if (h == kM2s) {
      queue.site = next.site;
      queue.unplaced = next.unplaced;
    }
    const uint32_t n = std::min(descriptors, next.left);
    next.left -= n;
    descriptors -= n;
    if (next.left == 0) rung.pop_front();
  }
}

uint32_t DmaChecks::dma_site(uint32_t q) {
  Queue& own = queue(q);
  if (own.site == Checker::kHost) return own.site;
  if (own.starter != own.site) {
    own.starter = own.site;
    own.dma_site = checker_.dma_site(own.site, name_ + " queue " + std::to_string(q));
  }
  return own.dma_site;
}

void DmaChecks::dropped(const Packet& packet) {
  Queue& own = queue(packet.queue);
  start(own, kM2s, packet.tx_descriptors);
  start(own, kS2m, packet.rx_descriptors);
}

void DmaChecks::ended(const Packet& packet, const Buffer* buffers) {
  Queue& own = queue(packet.queue);
  start(own, kM2s, packet.tx_descriptors);
  start(own, kS2m, packet.rx_descriptors);
  own.epoch = checker_.advance(own.agent);
  if (packet.signal) return;
  const bool host = own.site == Checker::kHost;
  const check::Access by =
      own.unplaced ? check::Access() : check::Access{own.agent, own.epoch, dma_site(packet.queue)};
  const check::View view =
      own.unplaced ? check::View() : check::View{&own.clock, {own.agent, 0, 0}};
  for (uint32_t i = 0; i < packet.sources + packet.destinations; ++i) {
    const Buffer& b = buffers[i];
    if (!b.in_memory() || b.length == 0) continue;
    Checker::Tracked* memory = checker_.find(b.by.memory);
    if (memory == nullptr) continue;
    if (i >= packet.sources) {
      checker_.write(*memory, b.offset, b.length, by, view);
    } else if (!host && !own.unplaced) {  // it reads what it likes, between executions
      checker_.read(*memory, b.offset, b.length, by, view);
    }
  }
}

check::Release DmaChecks::signal(uint32_t q) {
  Queue& own = queue(q);
  if (own.known == nullptr) own.known = std::make_shared<const check::Clock>(own.clock);
  return {own.known, dma_site(q), {{{own.agent, own.epoch}, {}, {}}}};
}

}  // namespace hw
