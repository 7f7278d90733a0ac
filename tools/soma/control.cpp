#include "tools/soma/control.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "sim/machine.h"

namespace soma {
namespace {

constexpr size_t kMaxWord = 128;
constexpr int kBacklog = 16;
constexpr const char* kAfter = " after ";
constexpr timeval kSilence{1, 0};  // with a client that connects and says nothing

base::Result<base::UniqueFd> unix_socket(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return base::Error{base::Fault::kIo, ENAMETOOLONG, path, "socket path is too long"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return base::errno_error(path.c_str(), "socket");
  return fd;
}

bool send_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += static_cast<size_t>(n);
  }
  return true;
}

bool same_user(int fd) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

std::string read_to_end(int fd, size_t limit) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() <= limit) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

struct ControlServer::Mailbox {
  std::mutex lock;
  std::deque<std::shared_ptr<Request>> requests;
};

ControlServer::ControlServer(bool signals, Handlers handlers)
    : handlers_(std::move(handlers)),
      quit_(::eventfd(0, EFD_CLOEXEC)),
      mailbox_(std::make_unique<Mailbox>()) {
  if (!signals) return;
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  signals_ = base::UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
}

base::Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& directory,
                                                                  bool signals, Handlers handlers) {
  const std::string path = directory + kControlSocket;
  sockaddr_un address;
  auto listener = unix_socket(path, address);
  if (!listener) return listener.error();
  if (::bind(listener->get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener->get(), kBacklog) != 0) {
    return base::errno_error(path.c_str(), "cannot listen");
  }
  std::unique_ptr<ControlServer> server(new ControlServer(signals, std::move(handlers)));
  server->listener_ = std::move(*listener);
  server->thread_ = std::thread([raw = server.get()] { raw->loop(); });
  return server;
}

ControlServer::~ControlServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(quit_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void ControlServer::put(Request request) {
  auto shared = std::make_shared<Request>(std::move(request));
  if (handlers_.direct && handlers_.direct(shared)) return;
  const std::string word = shared->word;
  {
    const std::lock_guard<std::mutex> guard(mailbox_->lock);
    mailbox_->requests.push_back(std::move(shared));
  }
  handlers_.queued(word);
}

void ControlServer::loop() {
  std::array<pollfd, 3> watched{pollfd{quit_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0},
                                pollfd{listener_.get(), POLLIN, 0}};
  while (::poll(watched.data(), watched.size(), -1) >= 0 || errno == EINTR) {
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) {
      signalfd_siginfo info = {};
      if (::read(signals_.get(), &info, sizeof info) > 0) put({"down", {}});
    }
    if (watched[2].revents != 0) {
      base::UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid() || !same_user(connection.get())) continue;
      ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &kSilence, sizeof kSilence);
      std::string word = read_to_end(connection.get(), kMaxWord);
      put({std::move(word), std::move(connection)});
    }
  }
}

std::shared_ptr<ControlServer::Request> ControlServer::take() {
  const std::lock_guard<std::mutex> guard(mailbox_->lock);
  if (mailbox_->requests.empty()) return nullptr;
  auto request = std::move(mailbox_->requests.front());
  mailbox_->requests.pop_front();
  return request;
}

void ControlServer::answer(const Request& request, const std::string& text) {
  if (request.connection.valid()) send_all(request.connection.get(), text);
}

bool serve_link(sim::Machine& machine, const std::shared_ptr<ControlServer::Request>& request) {
  for (const bool up : {true, false}) {
    const std::string start = up ? "link up " : "link down ";
    if (request->word.rfind(start, 0) != 0) continue;
    std::string name = request->word.substr(start.size());
    std::optional<base::Ps> after;
    if (const size_t at = name.find(kAfter); at != std::string::npos) {
      after = base::us(std::strtoull(name.c_str() + at + std::strlen(kAfter), nullptr, 10));
      name.resize(at);
    }
    machine.set_link(name, up, after, [request](const base::Status& status) {
      ControlServer::answer(*request, status ? "ok" : status.error().message());
    });
    return true;
  }
  return false;
}

base::Result<std::string> ask(const std::string& directory, const std::string& word) {
  const std::string path = directory + kControlSocket;
  sockaddr_un address;
  auto connection = unix_socket(path, address);
  if (!connection) return connection.error();
  const int fd = connection->get();
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return base::errno_error(path.c_str(), "cannot reach the machine");
  }
  if (!send_all(fd, word) || ::shutdown(fd, SHUT_WR) != 0) {
    return base::errno_error(path.c_str(), "cannot ask the machine");
  }
  constexpr size_t kMaxAnswer = size_t{1} << 30;
  std::string answer = read_to_end(fd, kMaxAnswer);
  if (answer.empty()) {
    return base::Error{base::Fault::kIo, 0, path, "the machine ended without an answer"};
  }
  return answer;
}

}  // namespace soma
