#include "driver/qemu/vfio_user_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "driver/qemu/vfio_user.h"

namespace driver::qemu {
namespace {

constexpr int kArrivalsPerCall = 16;
constexpr int kBacklog = 4;

base::Status watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return base::errno_error("vfio-user", "cannot wait for clients");
}

base::Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  const auto refuse = [&](const char* why) {
    return base::Error{base::Fault::kConfig, EADDRINUSE, path, why};
  };
  if (!S_ISSOCK(info.st_mode)) return refuse("exists and is no socket");
  const base::UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return base::errno_error(path.c_str(), "cannot make a socket");
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  // Only a refused connection says that nobody listens; a full queue does not.
  if (::connect(probe.get(), generic, sizeof address) == 0 || errno != ECONNREFUSED) {
    return refuse("the socket is in use");
  }
  if (::unlink(path.c_str()) != 0) return base::errno_error(path.c_str(), "cannot remove");
  return {};
}

}  // namespace

VfioUserServer::VfioUserServer(Params params)
    : params_(std::move(params)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

VfioUserServer::~VfioUserServer() {
  session_.reset();
  if (bound_) ::unlink(params_.path.c_str());
}

base::Result<std::unique_ptr<VfioUserServer>> VfioUserServer::listen(Params params) {
  std::unique_ptr<VfioUserServer> server(new VfioUserServer(std::move(params)));
  base::Status opened = server->open();
  if (!opened) return opened.error();
  return server;
}

base::Status VfioUserServer::open() {
  const std::string& path = params_.path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return base::Error{
        base::Fault::kConfig, ENAMETOOLONG, path,
        "the path of a socket has 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (base::Status free = remove_stale(path, address); !free) return free;
  listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid() || !epoll_.valid()) {
    return base::errno_error(path.c_str(), "cannot make a socket");
  }
  // Who may connect may drive the device and is given access to device memory: the owner only.
  const mode_t mask = ::umask(S_IRWXG | S_IRWXO);
  const int bound =
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(mask);
  if (bound != 0) {
    base::Error error = base::errno_error(path.c_str(), "cannot make the socket");
    error.fault = base::Fault::kConfig;
    return error;
  }
  bound_ = true;
  if (::listen(listener_.get(), kBacklog) != 0) {
    return base::errno_error(path.c_str(), "cannot listen");
  }
  return watch(epoll_.get(), listener_.get());
}

void VfioUserServer::trouble(const base::Error& error) const {
  if (params_.on_trouble) params_.on_trouble(error);
}

base::Result<bool> VfioUserServer::serve() {
  accept();
  if (session_) {
    const auto served = session_->serve();
    if (!served) trouble(served.error());
    if (!served || !*served) end_session();
  }
  return true;
}

void VfioUserServer::end_session() {
  session_.reset();  // closes the connection and drops the mappings
  params_.device.reset();
}

void VfioUserServer::accept() {
  for (int i = 0; i < kArrivalsPerCall; ++i) {
    base::UniqueFd client(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) {
      if (errno != EMFILE && errno != ENFILE) return;
      spare_.reset();
      client.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      client.reset();
      spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      trouble({base::Fault::kResource, EMFILE, "vfio-user", "no descriptors left for a client"});
      return;
    }
    if (session_) {
      // It may have left a moment ago; then the next one is welcome. One that has not said a word
      // does not keep others away.
      const auto served = session_->serve();
      if (served && *served && session_->negotiated()) {
        trouble({base::Fault::kUsage, EBUSY, "vfio-user",
                 "another client is attached; one was turned away"});
        continue;
      }
      if (!served) trouble(served.error());
      if (served && *served) {
        trouble({base::Fault::kUsage, EBUSY, "vfio-user",
                 "a silent client had to go, for another one has come"});
      }
      end_session();
    }
    session_ = std::make_unique<VfioUser>(params_.device, params_.memory, std::move(client));
    if (base::Status watched = watch(epoll_.get(), session_->poll_fd()); !watched) {
      trouble(watched.error());
      session_.reset();
    }
  }
}

}  // namespace driver::qemu
