#include "driver/node/client_launch.h"

#include <unistd.h>

namespace driver {
namespace {

class Environment {
 public:
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  std::string* find(const std::string& name) {
    for (std::string& entry : entries_) {
      if (entry.compare(0, name.size() + 1, name + "=") == 0) return &entry;
    }
    return nullptr;
  }
  void set(const std::string& name, const std::string& value) {
    if (std::string* entry = find(name)) {
      *entry = name + "=" + value;
    } else {
      entries_.push_back(name + "=" + value);
    }
  }
  void prepend(const std::string& name, const std::string& value) {
    const std::string* entry = find(name);
    const std::string old = entry == nullptr ? "" : entry->substr(name.size() + 1);
    set(name, old.empty() ? value : value + ":" + old);
  }
  std::vector<std::string> take() { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
};

}  // namespace

std::vector<std::string> client_environment(const ClientLaunch& launch,
                                            const std::vector<std::string>& base) {
  Environment environment(base);
  for (auto dir = launch.library_dirs.rbegin(); dir != launch.library_dirs.rend(); ++dir) {
    environment.prepend("LD_LIBRARY_PATH", *dir);
  }
  environment.prepend("LD_PRELOAD", launch.shim_path);
  environment.set("SOMA_SOCKET", launch.socket_path);
  environment.set("SOMA_CLOCK", launch.clock == ClientClock::kVirtual ? "virtual" : "host");
  environment.set("SOMA_NODE", std::to_string(launch.node));
  environment.set("SOMA_SDK", launch.sdk);
  return environment.take();
}

std::vector<std::string> client_environment(const ClientLaunch& launch) {
  std::vector<std::string> base;
  for (char** entry = environ; *entry != nullptr; ++entry) base.emplace_back(*entry);
  return client_environment(launch, base);
}

}  // namespace driver
