#include "tools/soma/place.h"

#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "tools/soma/runtime_dir.h"

namespace soma {
namespace {

constexpr const char* kInfo = "/info";
constexpr uint32_t kMaxNodes = 1024;

base::Result<Running> read_info(const std::string& directory) {
  Running running;
  running.directory = directory;
  std::ifstream info(directory + kInfo);
  uint32_t nodes = 0;
  std::getline(info, running.socket_path);
  std::getline(info, running.clock);
  info >> nodes;
  info.ignore();
  if (!info || nodes == 0 || nodes > kMaxNodes || !RuntimeDir::held(directory)) {
    return base::Error{base::Fault::kConfig, 0, directory, "no machine is alive there"};
  }
  running.hosts.resize(nodes);
  for (std::string& host : running.hosts) std::getline(info, host);
  return running;
}

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::string real_host_name() {
  utsname names = {};
  return ::uname(&names) == 0 ? names.nodename : "";
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

std::optional<uint32_t> Running::node_of(const std::string& host, uint32_t own) const {
  for (uint32_t node = 0; node < nodes(); ++node) {
    if (!host.empty() && hosts[node] == host) return node;
  }
  if (is_loopback(host)) return own;
  // The only node of its platform has the host's own name.
  if (nodes() == 1 && hosts[0].empty() && host == real_host_name()) return 0;
  return std::nullopt;
}

void write_info(const Running& running) {
  std::ofstream info(running.directory + kInfo);
  info << running.socket_path << "\n" << running.clock << "\n" << running.nodes() << "\n";
  for (const std::string& host : running.hosts) info << host << "\n";
}

base::Result<Running> find_named(const std::string& name) {
  const auto path = RuntimeDir::path_of(name);
  if (!path) return path.error();
  auto running = read_info(*path);
  if (running) return running;
  return base::Error{base::Fault::kConfig, 0, name,
                     "no machine of this name is up; start one with: soma up --name " + name};
}

std::optional<Running> find_enclosing() {
  // <directory>/server/socket
  std::string path = text_of("SOMA_SOCKET");
  for (int level = 0; level < 2 && !path.empty(); ++level) {
    const size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  if (path.empty()) return std::nullopt;
  auto running = read_info(path);
  return running ? std::optional<Running>(std::move(*running)) : std::nullopt;
}

uint32_t own_node() {
  return static_cast<uint32_t>(std::strtoul(text_of("SOMA_NODE").c_str(), nullptr, 10));
}

void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value) {
  const std::string start = name + "=";
  for (std::string& entry : environment) {
    if (entry.rfind(start, 0) != 0) continue;
    entry = start + value;
    return;
  }
  environment.push_back(start + value);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

std::vector<std::string> login_environment() {
  constexpr std::array kKept{"PATH=",         "HOME=",
                             "USER=",         "LOGNAME=",
                             "SHELL=",        "TERM=",
                             "LANG=",         "LC_",
                             "TZ=",           "LD_LIBRARY_PATH=",
                             "LD_PRELOAD=",   "SOMA_",
                             "ASAN_OPTIONS=", "XDG_RUNTIME_DIR="};
  std::vector<std::string> kept;
  for (const std::string& entry : own_environment()) {
    for (const char* start : kKept) {
      if (entry.rfind(start, 0) == 0) {
        kept.push_back(entry);
        break;
      }
    }
  }
  return kept;
}

}  // namespace soma
