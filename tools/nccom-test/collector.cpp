#include "collector.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <sstream>

#include "base/json.h"

namespace nccom {
namespace {

constexpr const char* kWhere = "data collector";
constexpr uint16_t kDefaultPort = 60006;  // spec/tools.md 2.3
constexpr int kPollMs = 100;
constexpr int kHelloMs = 5000;           // for the first word of a connection
constexpr size_t kMaxLine = 256u << 20;  // durations of one step

base::Error collector_error(const std::string& what) {
  return {base::Fault::kIo, 1, kWhere, what};
}

base::Result<base::UniqueFd> listen_at(bool ipv6, uint16_t port) {
  base::UniqueFd fd(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return base::errno_error(kWhere, "socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const auto* address =
      ipv6 ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const socklen_t size = ipv6 ? sizeof six : sizeof four;
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return base::errno_error("data collector port", std::to_string(port).c_str());
  }
  return fd;
}

base::Result<uint16_t> port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return base::errno_error(kWhere, "getsockname");
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

bool resolves(const std::string& host) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

std::string this_host(bool ipv6) {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0 && resolves(name)) return name;
  return ipv6 ? "::1" : "127.0.0.1";
}

std::string random_token() {
  std::random_device device;
  std::ostringstream text;
  text << std::hex << device() << device();
  return text.str();
}

bool has_ended(pid_t process) {
  siginfo_t info{};
  return process != 0 &&
         ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process;
}

base::Status send_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::errno_error(kWhere, "send");
    done += static_cast<size_t>(n);
  }
  return {};
}

// One stream of one instance's step.
base::Status append(const nlohmann::json& stream, Measurement* to) {
  const auto durations = stream.find("durations");
  if (durations == stream.end() || !durations->is_array())
    return collector_error("a step without durations");
  for (const nlohmann::json& duration : *durations) {
    if (!duration.is_number_unsigned()) return collector_error("a duration that is no number");
    to->durations_ps.push_back(duration.get<uint64_t>());
  }
  to->algorithm = stream.value("algorithm", "");
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Collector>> Collector::open(const Options& job, size_t streams) {
  std::unique_ptr<Collector> collector(new Collector(job, streams));
  auto listener = listen_at(job.collector_ipv6, job.collector_port.value_or(kDefaultPort));
  if (!listener && !job.collector_port) listener = listen_at(job.collector_ipv6, 0);
  if (!listener) return listener.error();
  const auto port = port_of(listener->get());
  if (!port) return port.error();
  collector->listener_ = std::move(*listener);
  collector->port_ = *port;
  collector->token_ = random_token();
  return collector;
}

std::string Collector::address() const {
  const std::string host =
      job_.collector_host.empty() ? this_host(job_.collector_ipv6) : job_.collector_host;
  return host + " " + std::to_string(port_) + " " + token_;
}

base::Status Collector::meet(pid_t launcher) {
  while (instances_.size() < job_.nodes) {
    const bool ended = has_ended(launcher);
    pollfd wait{listener_.get(), POLLIN, 0};
    if (::poll(&wait, 1, kPollMs) > 0) {
      base::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.valid()) welcome(std::move(socket));
    } else if (ended) {
      return collector_error(std::to_string(instances_.size()) + " of " +
                             std::to_string(job_.nodes) +
                             " instances have reported; the launcher has ended");
    }
  }
  listener_.reset();
  std::sort(instances_.begin(), instances_.end(),
            [](const Instance& a, const Instance& b) { return a.rank_start < b.rank_start; });
  return {};
}

void Collector::welcome(base::UniqueFd socket) {
  Instance instance;
  instance.socket = std::move(socket);
  pollfd wait{instance.socket.get(), POLLIN, 0};
  if (::poll(&wait, 1, kHelloMs) <= 0) return;
  const auto line = next_line(&instance);
  if (!line) return;
  const nlohmann::json hello = base::parse_json(*line);
  if (!hello.is_object() || hello.value("token", "") != token_) return;
  instance.rank_start = hello.value("rank_start", 0u);
  instances_.push_back(std::move(instance));
}

base::Result<std::string> Collector::next_line(Instance* instance) const {
  std::string& text = instance->received;
  for (size_t searched = 0;;) {
    const size_t end = text.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      return line;
    }
    searched = text.size();
    char block[65536];
    const ssize_t n = ::recv(instance->socket.get(), block, sizeof block, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || text.size() > kMaxLine) {
      return collector_error("the instance of rank " + std::to_string(instance->rank_start) +
                             " has ended");
    }
    text.append(block, static_cast<size_t>(n));
  }
}

base::Result<std::vector<Measurement>> Collector::measure(const std::vector<uint64_t>& sizes) {
  std::vector<Measurement> all(streams_);
  for (size_t s = 0; s < streams_; ++s) all[s].size = sizes[s];
  base::Status status;
  for (Instance& instance : instances_) {
    const auto line = next_line(&instance);
    const nlohmann::json step = line ? base::parse_json(*line) : nlohmann::json();
    if (!line) {
      status = line.error();
    } else if (step.is_object() && step.contains("error")) {
      status = base::Error{base::Fault::kProgram, 1, "", step.value("error", "")};
    } else if (!step.is_object() || !step.contains("streams") ||
               step["streams"].size() != streams_) {
      status = collector_error("a step that is none");
    } else {
      for (size_t s = 0; s < streams_ && status; ++s) status = append(step["streams"][s], &all[s]);
    }
  }
  if (!status) return status.error();
  return all;
}

base::Result<Reporter> Reporter::connect(const std::string& address, uint32_t rank_start) {
  std::istringstream words(address);
  std::string host;
  std::string port;
  std::string token;
  words >> host >> port >> token;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); rc != 0) {
    return collector_error(host + ": " + ::gai_strerror(rc));
  }
  Reporter reporter;
  for (const addrinfo* at = found; at != nullptr && !reporter.socket_.valid(); at = at->ai_next) {
    base::UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.valid() && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) {
      reporter.socket_ = std::move(fd);
    }
  }
  ::freeaddrinfo(found);
  if (!reporter.socket_.valid()) return base::errno_error(kWhere, (host + " " + port).c_str());
  const nlohmann::json hello{{"token", token}, {"rank_start", rank_start}};
  if (base::Status s = send_all(reporter.socket_.get(), base::json_text(hello) + "\n"); !s)
    return s.error();
  return reporter;
}

base::Status Reporter::send(const base::Result<std::vector<Measurement>>& measured) {
  nlohmann::json step;
  if (!measured) {
    step["error"] = measured.error().message();
  } else {
    step["streams"] = nlohmann::json::array();
    for (const Measurement& m : *measured) {
      step["streams"].push_back({{"algorithm", m.algorithm}, {"durations", m.durations_ps}});
    }
  }
  return send_all(socket_.get(), base::json_text(step) + "\n");
}

}  // namespace nccom
