#include "runtime/collectives/schedule_cache.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace ccl {
namespace {

// The operations of a program or two; each takes some 100 KiB for a thousand ranks.
constexpr size_t kMostEntries = 64;

auto fields(const OpRequest& r) {
  static_assert(sizeof(OpRequest) == 96, "a new field belongs here");
  return std::tie(r.kind, r.dtype, r.op, r.input_bytes, r.output_bytes, r.input_rows, r.output_rows,
                  r.receive_counts_known, r.receive_displacements, r.root, r.pairs);
}

auto fields(const Position& p) {
  static_assert(sizeof(Position) == 24, "a new field belongs here");
  return std::tie(p.rank, p.node, p.chip, p.device, p.core, p.nc);
}

auto fields(const Topology& t) {
  static_assert(sizeof(Topology) == 48, "a new field belongs here");
  return std::tie(t.gen, t.fabric, t.lnc, t.cores, t.devices_per_node, t.sleds_per_rack, t.links);
}

auto fields(const ScheduleOptions& o) {
  static_assert(sizeof(ScheduleOptions) == 32, "a new field belongs here");
  return std::tie(o.in_place, o.max_channels, o.slot_bytes, o.slots, o.slices, o.max_steps,
                  o.strict);
}

bool same(const Group& a, const Group& b) {
  return fields(a.topology) == fields(b.topology) &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Position& x, const Position& y) { return fields(x) == fields(y); });
}

// Those that name files are only equal to themselves.
bool same(const Overrides* a, const Overrides* b) {
  if (a == b || a == nullptr || b == nullptr) return a == b;
  return a->programs.empty() && b->programs.empty() && a->rules.empty() && b->rules.empty() &&
         a->algorithms == b->algorithms;
}

struct Key {
  OpRequest request;
  Group group;
  ScheduleOptions options;
  std::shared_ptr<const Overrides> overrides;
};

bool same(const Key& a, const Key& b) {
  return fields(a.request) == fields(b.request) && fields(a.options) == fields(b.options) &&
         same(a.overrides.get(), b.overrides.get()) && same(a.group, b.group);
}

struct Entry {
  explicit Entry(Key key) : key(std::move(key)) {}

  const Key key;
  std::once_flag made;
  std::optional<base::Result<Schedule>> result;
};

class Cache {
 public:
  std::shared_ptr<Entry> find(Key key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto at = std::find_if(entries_.begin(), entries_.end(),
                           [&](const auto& entry) { return same(entry->key, key); });
    if (at == entries_.end()) {
      at = entries_.insert(entries_.begin(), std::make_shared<Entry>(std::move(key)));
      if (entries_.size() > kMostEntries) entries_.pop_back();
    } else {
      entries_.splice(entries_.begin(), entries_, at);
    }
    return *at;
  }

 private:
  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // the last used first
};

}  // namespace

std::shared_ptr<const base::Result<Schedule>> shared_schedule(
    const OpRequest& request, const Group& group, const ScheduleOptions& options,
    const std::shared_ptr<const Overrides>& overrides) {
  static auto* cache = new Cache;  // never destroyed: threads may load while the process exits
  static const Overrides kNone;
  const std::shared_ptr<Entry> entry = cache->find({request, group, options, overrides});
  // Others that need the same schedule wait for it; those that need another do not.
  std::call_once(entry->made, [&] {
    entry->result = make_schedule(request, group, options, overrides ? *overrides : kNone);
  });
  return {entry, &*entry->result};
}

}  // namespace ccl
