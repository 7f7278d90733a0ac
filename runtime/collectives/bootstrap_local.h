// What the two I/O loops of the bootstrap share, and what ranks of one process share.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collectives/bootstrap_state.h"
#include "runtime/collectives/types.h"

namespace ccl {

constexpr int kTickMs = 100;       // retries and warnings are checked this often
constexpr int kSlowTickMs = 1000;  // warnings, once all have met
constexpr int kFarewellMs = 2000;  // at most, for peers to take what was said before leaving
constexpr const char* kLoopback = "127.0.0.1";

inline base::Error io_error(const std::string& what) {
  return {base::Fault::kIo, kNrtFailure, "bootstrap", what};
}

// "rank 5", "ranks 1, 2, 7"; the first ones of many.
inline std::string to_text(const std::vector<uint32_t>& ranks) {
  constexpr size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

// Prints the published warning every `warn_every`, with who waits for whom; gives up only if asked
// to.
class Patience {
 public:
  Patience(BootstrapState* state, std::string what, std::function<std::string()> for_whom)
      : state_(state), what_(std::move(what)), for_whom_(std::move(for_whom)) {}

  // Of another wait.
  void begin() {
    begin_ = std::chrono::steady_clock::now();
    warnings_ = 0;
  }
  // False when the limit is reached; the state has failed then.
  bool go_on() {
    const auto& o = state_->options();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin_);
    if (waited >= (warnings_ + 1) * o.warn_every) {
      ++warnings_;
      state_->alarm("Timeout waiting for " + what_ + " (waited " +
                    std::to_string(o.warn_every.count() / 1000) + " sec) - retrying; rank " +
                    std::to_string(o.rank) + " of " + std::to_string(o.world) + " waits for " +
                    for_whom_());
    }
    if (o.give_up.count() == 0 || waited < o.give_up) return true;
    state_->fail(
        {base::Fault::kIo, kNrtTimeout, "bootstrap",
         "gave up waiting for " + what_ + " after " + std::to_string(o.give_up.count()) + " ms"});
    return false;
  }

 private:
  BootstrapState* state_;
  std::string what_;
  std::function<std::string()> for_whom_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int warnings_ = 0;
};

// Ports of rank 0 for worlds whose ranks are all threads of this process.
class LocalRoots {
 public:
  static LocalRoots& instance() {
    static LocalRoots roots;
    return roots;
  }
  bool add(uint32_t world, uint16_t port) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ports_.emplace(world, port).second;
  }
  void remove(uint32_t world) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ports_.erase(world);
  }
  std::optional<uint16_t> find(uint32_t world) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = ports_.find(world);
    if (it == ports_.end()) return std::nullopt;
    return it->second;
  }

 private:
  std::mutex mutex_;
  std::map<uint32_t, uint16_t> ports_;
};

// What the root says to all, for the ranks of its process: nobody copies it. By cluster and number
// of the message (wire::Type::kHere).
class Shared {
 public:
  struct Item {
    std::shared_ptr<const wire::Table> table;
    Gathered gathered;
  };
  static Shared& instance() {
    static Shared shared;
    return shared;
  }
  void put(uint64_t cluster, uint32_t number, Item item, uint32_t readers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_[{cluster, number}] = {std::move(item), readers};
  }
  std::optional<Item> take(uint64_t cluster, uint32_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = items_.find({cluster, number});
    if (it == items_.end()) return std::nullopt;
    Item item = it->second.first;
    if (--it->second.second == 0) items_.erase(it);
    return item;
  }
  void drop(uint64_t cluster) {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.erase(items_.lower_bound({cluster, 0}), items_.upper_bound({cluster, ~0u}));
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, std::pair<Item, uint32_t>> items_;
};

}  // namespace ccl
