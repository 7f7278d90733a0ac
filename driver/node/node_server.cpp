#include "driver/node/node_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "driver/node/io_loop.h"
#include "driver/node/sessions.h"
#include "driver/node/sysfs_tree.h"

namespace driver {
namespace {

namespace fs = std::filesystem;

// A directory that only this user can enter, removed with everything in it.
class PrivateDirectory {
 public:
  static base::Result<std::unique_ptr<PrivateDirectory>> create(const std::string& wanted) {
    auto directory = std::make_unique<PrivateDirectory>();
    if (!wanted.empty()) {
      if (mkdir(wanted.c_str(), S_IRWXU) != 0) return base::errno_error(wanted.c_str(), "mkdir");
      directory->path_ = wanted;
      return directory;
    }
    const char* runtime = getenv("XDG_RUNTIME_DIR");
    std::string pattern = runtime != nullptr && access(runtime, W_OK) == 0 ? runtime : "/tmp";
    pattern += "/neuron-nodes-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return base::errno_error(pattern.c_str(), "mkdtemp");
    directory->path_ = pattern;
    return directory;
  }
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

base::Result<base::UniqueFd> listen_on(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return base::Error{base::Fault::kConfig, ENAMETOOLONG, path,
                       "socket path is longer than 107 characters; choose a shorter directory"};
  }
  memcpy(address.sun_path, path.c_str(), path.size());
  base::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  constexpr int kBacklog = 128;
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return base::errno_error(path.c_str(), "listen");
  }
  // The directory keeps others out; who got in and then changed its user may come back.
  chmod(path.c_str(), 0666);
  return fd;
}

// A major number that no driver of the host uses, from the range that Linux assigns dynamically.
unsigned free_major() {
  constexpr unsigned kFirst = 254;
  constexpr unsigned kLast = 234;
  std::set<unsigned> taken;
  std::ifstream devices("/proc/devices");
  std::string line;
  while (std::getline(devices, line)) {
    const unsigned long number = strtoul(line.c_str(), nullptr, 10);
    if (number > 0) taken.insert(static_cast<unsigned>(number));
  }
  for (unsigned major = kFirst; major >= kLast; --major) {
    if (taken.count(major) == 0) return major;
  }
  return kFirst;
}

// Fields of an instance's DMI table (spec/clients.md 4.1). Instances are told apart by their node.
std::map<std::string, std::string> dmi_files(const std::string& product_name, size_t node) {
  if (product_name.empty()) return {};
  char id[32];
  std::snprintf(id, sizeof id, "i-%017zx", node + 1);
  const std::pair<const char*, std::string> fields[] = {{"product_name", product_name},
                                                        {"sys_vendor", "Amazon EC2"},
                                                        {"board_asset_tag", id},
                                                        {"bios_vendor", "Amazon EC2"},
                                                        {"bios_version", "1.0"}};
  std::map<std::string, std::string> files;
  for (const char* directory : {"/sys/class/dmi/id/", "/sys/devices/virtual/dmi/id/"}) {
    for (const auto& [name, text] : fields) files[std::string(directory) + name] = text + "\n";
  }
  return files;
}

}  // namespace

struct NodeServer::Impl {
  Impl(pcie::HostExecutor& executor, StatusPage page) : queue(executor), status(std::move(page)) {}

  std::unique_ptr<PrivateDirectory> directory;
  std::string socket_path;
  RequestQueue queue;
  StatusPage status;
  std::vector<std::unique_ptr<SysfsMirror>> trees;
  std::unique_ptr<Sessions> sessions;
  std::unique_ptr<IoLoop> io;  // last: its thread uses all of the above
};

NodeServer::NodeServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeServer::~NodeServer() {
  impl_->io->stop();
}

base::Result<std::unique_ptr<NodeServer>> NodeServer::start(Params params) {
  if (params.nodes.empty() || params.executor == nullptr) {
    return base::Error{base::Fault::kInternal, EINVAL, "device nodes", "no driver or executor"};
  }
  auto page = StatusPage::create(params.executor);
  if (!page) return page.error();
  auto impl = std::make_unique<Impl>(*params.executor, std::move(*page));
  auto directory = PrivateDirectory::create(params.directory);
  if (!directory) return directory.error();
  impl->directory = std::move(*directory);
  impl->socket_path = impl->directory->path() + "/socket";
  auto listener = listen_on(impl->socket_path);
  if (!listener) return listener.error();
  auto attributes = listen_on(impl->socket_path + "-rw");
  if (!attributes) return attributes.error();

  const unsigned major = free_major();
  std::vector<Sessions::Node> nodes;
  std::vector<NodeFacts> facts;
  for (size_t i = 0; i < params.nodes.size(); ++i) {
    CharDevice& device = *params.nodes[i];
    const std::string root = impl->directory->path() + "/node" + std::to_string(i);
    const Identity identity = i < params.identities.size() ? params.identities[i] : Identity{};
    impl->trees.push_back(
        std::make_unique<SysfsMirror>(device, root, major, dmi_files(identity.product_name, i)));
    nodes.push_back({&device, impl->trees.back().get()});
    NodeFacts fact;
    fact.sysfs_root = root;
    fact.host_name = identity.host_name;
    facts.push_back(std::move(fact));
  }
  impl->sessions = std::make_unique<Sessions>(std::move(nodes), impl->status);
  IoLoop::Params io;
  io.listener = std::move(*listener);
  io.attribute_listener = std::move(*attributes);
  io.nodes = std::move(facts);
  io.major = major;
  io.status_fd = impl->status.read_only_fd();
  impl->io = std::make_unique<IoLoop>(std::move(io), impl->queue, *impl->sessions);
  if (auto status = impl->io->start(); !status) return status.error();
  return std::unique_ptr<NodeServer>(new NodeServer(std::move(impl)));
}

RequestQueue& NodeServer::requests() {
  return impl_->queue;
}
StatusPage& NodeServer::status() {
  return impl_->status;
}
const std::string& NodeServer::directory() const {
  return impl_->directory->path();
}
const std::string& NodeServer::socket_path() const {
  return impl_->socket_path;
}
size_t NodeServer::open_files() const {
  return impl_->sessions->open_files();
}
std::vector<std::string> NodeServer::in_flight() const {
  return impl_->sessions->in_flight();
}
uint64_t NodeServer::protocol_errors() const {
  return impl_->io->protocol_errors();
}
size_t NodeServer::connections() const {
  return impl_->io->connections();
}

}  // namespace driver
