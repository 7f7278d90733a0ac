#include "hw/machine/watch.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "hw/link/links.h"
#include "hw/machine/chip.h"

namespace hw {

namespace {

constexpr const char* kSuffix = ".vcd";
constexpr uint32_t kSemaphores = 256;
constexpr int kWord = 32;
constexpr int kState = 3;
constexpr int kDepth = 24;

// SystemC appends the suffix itself.
std::string without_suffix(const std::string& file) {
  const size_t at = file.rfind(kSuffix);
  return at != std::string::npos && at + 4 == file.size() ? file.substr(0, at) : file;
}

}  // namespace

Watch::Watch(const std::string& file, const std::vector<std::string>& patterns, KernelQueue& queue,
             const std::vector<Chip*>& chips, Links* links)
    : queue_(queue), patterns_(patterns), matched_(patterns.size()) {
  for (Chip* chip : chips) add_chip(*chip);
  if (links != nullptr) {
    for (const BandwidthResource* each : links->resources()) add_resource(*each);
  }
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (matched_[i]) continue;
    throw std::invalid_argument("--watch '" + patterns_[i] +
                                "' matches no signal; signals are d0.dma5.busy, d0.dma5.q3.depth, "
                                "d0.nc0.act.state, d0.nc0.act.pc, d0.nc0.sem12, d0.cc3.state, "
                                "d0.cc3.sem4, d0.hbm0.busy, link.d0-d1.backlog_ns");
  }
  const std::string base = without_suffix(file);
  std::FILE* probe = std::fopen((base + kSuffix).c_str(), "w");
  if (probe == nullptr) throw std::invalid_argument("cannot write " + base + kSuffix);
  std::fclose(probe);
  file_ = sc_core::sc_create_vcd_trace_file(base.c_str());
  file_->set_time_unit(1, sc_core::SC_PS);
  for (Signal& signal : signals_) {
    sc_core::sc_trace(file_, signal.value, signal.name, signal.bits);
  }
  look();
  queue_.set_probe([this] { look(); });
}

Watch::~Watch() {
  queue_.set_probe({});
  if (file_ != nullptr) sc_core::sc_close_vcd_trace_file(file_);
}

void Watch::add(const std::string& name, int bits, std::function<uint64_t()> read) {
  bool any = false;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (::fnmatch(patterns_[i].c_str(), name.c_str(), 0) != 0) continue;
    matched_[i] = any = true;
  }
  if (any) signals_.push_back({name, bits, std::move(read), 0});
}

void Watch::add_resource(const BandwidthResource& resource) {
  const size_t before = signals_.size();
  const auto left = [this, &resource] {
    return resource.state().end > queue_.now() ? resource.state().end - queue_.now() : 0;
  };
  add(resource.name() + ".busy", 1, [left] { return left() != 0 ? 1 : 0; });
  add(resource.name() + ".backlog_ns", kWord, [left] { return left() / base::kPsPerNs; });
  if (signals_.size() != before) resources_.push_back(&resource);
}

void Watch::add_chip(Chip& chip) {
  const std::string name = chip.fabric().name();
  for (uint32_t e = 0; e < chip.dma().engines(); ++e) {
    const std::string engine = name + ".dma" + std::to_string(e);
    add(engine + ".busy", 1, [&chip, e] { return chip.dma().engine(e).busy() ? 1 : 0; });
    for (uint32_t q = 0; q < UdmaEngine::kQueues; ++q) {
      add(engine + ".q" + std::to_string(q) + ".depth", kDepth,
          [&chip, e, q] { return chip.dma().engine(e).depth(q); });
    }
  }
  for (uint32_t n = 0; n < chip.cores().count(); ++n) {
    const std::string core = name + ".nc" + std::to_string(n);
    for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
      const std::string engine = core + "." + NeuronCore::engine_name(e);
      add(engine + ".state", kState,
          [&chip, n, e] { return static_cast<uint64_t>(chip.cores().core(n).engine(e).status()); });
      add(engine + ".pc", kWord, [&chip, n, e] { return chip.cores().core(n).engine(e).pc(); });
    }
    for (uint32_t s = 0; s < kSemaphores; ++s) {
      add(core + ".sem" + std::to_string(s), kWord,
          [&chip, n, s] { return chip.cores().core(n).semaphores().value(s); });
    }
  }
  for (uint32_t t = 0; t < chip.cc_cores().count(); ++t) {
    const std::string core = name + ".cc" + std::to_string(t);
    add(core + ".state", kState,
        [&chip, t] { return static_cast<uint64_t>(chip.cc_cores().core(t).firmware().status()); });
    for (uint32_t s = 0; s < kSemaphores; ++s) {
      add(core + ".sem" + std::to_string(s), kWord,
          [&chip, t, s] { return chip.cc_cores().core(t).semaphores().value(s); });
    }
  }
  for (uint32_t h = 0; h < chip.address_map().hbms(); ++h) {
    add_resource(chip.fabric().hbm_resource(h));
  }
}

// What is busy now is looked at again when it is through, though nothing else may happen then.
void Watch::look() {
  for (Signal& signal : signals_) signal.value = signal.read();
  base::Ps first = EventQueue::kForever;
  for (const BandwidthResource* each : resources_) {
    if (each->state().end > queue_.now()) first = std::min(first, each->state().end);
  }
  if (first == EventQueue::kForever || (next_ > queue_.now() && next_ <= first)) return;
  next_ = first;
  queue_.schedule({first, ~0u, Phase::kStart}, *this, 0, 0, EventQueue::Kind::kBackground);
}

}  // namespace hw
