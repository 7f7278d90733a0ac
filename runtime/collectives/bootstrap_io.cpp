// I/O loops of the bootstrap: the root relays everything between its connections.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <random>

#include "runtime/collectives/bootstrap_state.h"
#include "runtime/collectives/sockets.h"
#include "runtime/collectives/types.h"

namespace ccl {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Connection;
using wire::Frame;
using wire::Type;

constexpr int kTickMs = 100;       // retries and warnings are checked this often
constexpr int kFarewellMs = 2000;  // at most, for peers to take what was said before leaving
constexpr auto kPortInUseLimit = std::chrono::seconds(30);

base::Error io_error(const std::string& what) {
  return {base::Fault::kIo, kNrtFailure, "bootstrap", what};
}

Blob to_blob(const std::string& text) {
  return {text.begin(), text.end()};
}

// Text from a peer, made printable.
std::string to_text(const Blob& blob) {
  std::string out(blob.begin(),
                  blob.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(blob.size(), 200)));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

// Prints the published warning every `warn_every`; gives up only if asked to.
class Patience {
 public:
  Patience(BootstrapState* state, std::string what) : state_(state), what_(std::move(what)) {}

  // False when the limit is reached; the state has failed then.
  bool go_on() {
    const auto& o = state_->options();
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
    if (waited >= (warnings_ + 1) * o.warn_every) {
      ++warnings_;
      state_->log("Timeout waiting for " + what_ + " (waited " +
                  std::to_string(o.warn_every.count() / 1000) + " sec) - retrying");
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
  Clock::time_point begin_ = Clock::now();
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

constexpr const char* kLoopback = "127.0.0.1";

class Root {
 public:
  Root(BootstrapState* state, const std::optional<RootAddress>& address)
      : state_(state), address_(address), patience_(state, "incoming connection") {}

  void run() {
    if (!listen()) return;
    while (!state_->stopping() && !state_->failed()) {
      wait(kTickMs);
      if (listener_.valid() && !patience_.go_on()) break;
      send_posted();
      serve();
    }
    close_listener();
    send_posted();
    if (!state_->failed()) broadcast(0, Type::kBye, 0, 0, {});
    farewell();
  }

 private:
  struct Member {
    explicit Member(base::UniqueFd fd) : connection(std::move(fd)) {}
    Connection connection;
    uint32_t rank = 0;  // 0: has not said who it is
    bool said_bye = false;
  };

  bool listen() {
    const uint32_t world = state_->options().world;
    RootAddress where = address_.value_or(RootAddress{kLoopback, 0});
    const auto begin = Clock::now();
    for (bool first = true;; first = false) {
      base::Result<base::UniqueFd> listener = wire::listen_on(where);
      if (listener) {
        listener_ = std::move(*listener);
        break;
      }
      // Another world of this job may hold the port until it is complete.
      if (listener.error().code != EADDRINUSE || Clock::now() - begin > kPortInUseLimit) {
        state_->fail(io_error(listener.error().what));
        return false;
      }
      if (first) state_->log(listener.error().what + " - retrying");
      wait(kTickMs);
      if (state_->stopping()) return false;
    }
    if (address_) return true;
    const base::Result<uint16_t> port = wire::port_of(listener_.get());
    if (!port || !LocalRoots::instance().add(world, *port)) {
      state_->fail(io_error("a world of " + std::to_string(world) +
                            " ranks is already gathering in this process"));
      listener_.reset();
      return false;
    }
    published_ = true;
    return true;
  }

  void close_listener() {
    listener_.reset();
    if (published_) LocalRoots::instance().remove(state_->options().world);
    published_ = false;
  }

  void wait(int timeout_ms) {
    std::vector<pollfd> fds{{state_->wake_fd(), POLLIN, 0}};
    if (listener_.valid()) fds.push_back({listener_.get(), POLLIN, 0});
    for (const auto& m : members_) {
      const short events = m->connection.wants_write() ? POLLIN | POLLOUT : POLLIN;
      fds.push_back({m->connection.fd(), events, 0});
    }
    ::poll(fds.data(), fds.size(), timeout_ms);
    state_->drain_wake();
  }

  void send_posted() {
    for (auto& [tag, blob] : state_->take_posted()) broadcast(0, Type::kBlob, 0, tag, blob);
  }

  void broadcast(uint32_t except, Type type, uint32_t rank, uint32_t tag, const Blob& payload) {
    for (const auto& m : members_) {
      if (m->rank != 0 && m->rank != except && !m->said_bye) {
        m->connection.send(type, rank, tag, payload);
      }
    }
  }

  void serve() {
    accept_all();
    for (const auto& m : members_) {
      // What arrived before a peer closed still counts.
      const bool alive = m->connection.fill();
      parse(m.get());
      if (m->connection.open() && (!alive || !m->connection.flush())) lose(m.get());
    }
    members_.erase(std::remove_if(members_.begin(), members_.end(),
                                  [](const auto& m) { return !m->connection.open(); }),
                   members_.end());
    if (listener_.valid() && joined_ + 1 == state_->options().world) complete();
  }

  void accept_all() {
    if (!listener_.valid()) return;
    // Strangers may not use up descriptors: at most this many connections without a HELLO.
    constexpr size_t kStrangers = 256;
    while (members_.size() < state_->options().world + kStrangers) {
      base::UniqueFd fd = wire::accept_from(listener_.get());
      if (!fd.valid()) return;
      members_.push_back(std::make_unique<Member>(std::move(fd)));
    }
  }

  void parse(Member* m) {
    if (m->rank == 0 && !greet(m)) return;
    Frame frame;
    int got = 0;
    while (m->connection.open() &&
           (got = m->connection.take_frame(&frame, state_->options().world)) == 1) {
      if (!handle(m, frame)) return;
    }
    if (got < 0) break_with(m, "sent a malformed message");
  }

  bool greet(Member* m) {
    wire::Hello hello;
    const int got = m->connection.take_hello(&hello);
    if (got == 0) return false;
    if (got < 0) {
      state_->log("a connection that is no rank was dropped");
      m->connection.close();
      return false;
    }
    std::string problem = wire::check_hello(hello, state_->options().world);
    for (const auto& other : members_) {
      if (problem.empty() && other->rank == hello.rank) {
        problem = "rank " + std::to_string(hello.rank) + " is already here";
      }
    }
    if (!problem.empty()) {
      state_->log("a rank was refused: " + problem);
      m->connection.send(Type::kReject, 0, 0, to_blob(problem));
      m->connection.flush();
      m->connection.close();
      return false;
    }
    m->rank = hello.rank;
    records_[hello.rank] = hello;
    ++joined_;
    m->connection.send(Type::kWelcome, 0, 0);
    return true;
  }

  bool handle(Member* m, const Frame& frame) {
    const wire::Header& h = frame.header;
    if (h.rank != m->rank) return break_with(m, "speaks for another rank");
    if (h.type == static_cast<uint32_t>(Type::kBye)) {
      m->said_bye = true;
      state_->leave(m->rank);
      broadcast(m->rank, Type::kBye, m->rank, 0, {});
      return true;
    }
    if (h.type != static_cast<uint32_t>(Type::kBlob) || listener_.valid() ||
        !state_->deliver(m->rank, h.tag, frame.payload)) {
      return break_with(m, "sent a message out of order");
    }
    broadcast(m->rank, Type::kBlob, m->rank, h.tag, frame.payload);
    return true;
  }

  bool break_with(Member* m, const std::string& why) {
    fail(m->rank, "rank " + std::to_string(m->rank) + " " + why);
    m->connection.close();
    return false;
  }

  void lose(Member* m) {
    if (m->rank != 0 && !m->said_bye) {
      fail(m->rank, "RX, connection closed by remote peer (rank " + std::to_string(m->rank) + ")");
    }
    m->connection.close();
  }

  void fail(uint32_t rank, const std::string& why) {
    if (state_->failed()) return;
    state_->fail(io_error(why));
    broadcast(rank, Type::kFail, rank, 0, to_blob(why));
  }

  void complete() {
    wire::Table table;
    const auto& options = state_->options();
    for (uint32_t r = 0; r < options.world; ++r) {
      PeerInfo peer;
      peer.rank = r;
      if (r == 0) {
        peer.record = options.record;
      } else {
        std::copy_n(records_[r].record, sizeof records_[r].record, peer.record.begin());
      }
      table.peers.push_back(peer);
    }
    std::random_device random;
    table.cluster_id = static_cast<uint64_t>(random()) << 32 | random();
    table.epoch = static_cast<int64_t>(std::time(nullptr));
    broadcast(0, Type::kTable, 0, 0, wire::encode(table));
    members_.erase(std::remove_if(members_.begin(), members_.end(),
                                  [](const auto& m) { return m->rank == 0; }),
                   members_.end());
    close_listener();
    state_->set_ready(std::move(table));
    for (const auto& m : members_) m->connection.flush();
  }

  // Lets the peers read everything before the sockets close.
  void farewell() {
    const auto end = Clock::now() + std::chrono::milliseconds(kFarewellMs);
    std::vector<bool> finished(members_.size(), false);
    while (Clock::now() < end) {
      bool busy = false;
      for (size_t i = 0; i < members_.size(); ++i) {
        Connection& c = members_[i]->connection;
        if (!c.open() || members_[i]->rank == 0) continue;
        if (!c.flush() || !c.fill()) {
          c.close();
          continue;
        }
        if (!c.wants_write() && !finished[i]) {
          ::shutdown(c.fd(), SHUT_WR);
          finished[i] = true;
        }
        busy = true;
      }
      if (!busy) return;
      wait(1);
    }
  }

  BootstrapState* state_;
  std::optional<RootAddress> address_;
  Patience patience_;
  base::UniqueFd listener_;
  bool published_ = false;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<uint32_t, wire::Hello> records_;
  uint32_t joined_ = 0;
};

class Peer {
 public:
  Peer(BootstrapState* state, const std::optional<RootAddress>& address)
      : state_(state), address_(address), patience_(state, "RX") {}

  void run() {
    while (!state_->stopping() && !state_->failed() && !ended_) {
      if (!connection_ && !connect()) {
        idle(retry_ms_);
        retry_ms_ = std::min(kTickMs, 2 * retry_ms_);
        if (!ready_ && !patience_.go_on()) break;
        continue;
      }
      send_posted();
      if (!connection_->flush()) {
        lose();
        continue;
      }
      pollfd fds[2] = {{state_->wake_fd(), POLLIN, 0}, {connection_->fd(), POLLIN, 0}};
      if (connection_->wants_write()) fds[1].events |= POLLOUT;
      ::poll(fds, 2, kTickMs);
      state_->drain_wake();
      if (!ready_ && !patience_.go_on()) break;
      const bool alive = connection_->fill();
      parse();
      if (connection_ && !alive) lose();
    }
    farewell();
  }

 private:
  void idle(int timeout_ms) {
    pollfd fd{state_->wake_fd(), POLLIN, 0};
    ::poll(&fd, 1, timeout_ms);
    state_->drain_wake();
  }

  bool connect() {
    RootAddress where;
    if (address_) {
      where = *address_;
    } else {
      const std::optional<uint16_t> port = LocalRoots::instance().find(state_->options().world);
      if (!port) return false;
      where = {kLoopback, *port};
    }
    base::Result<base::UniqueFd> fd = wire::start_connect(where);
    if (!fd) return retry_later(where, fd.error().what);
    pollfd fds[2] = {{fd->get(), POLLOUT, 0}, {state_->wake_fd(), POLLIN, 0}};
    constexpr int kConnectMs = 5000;
    ::poll(fds, 2, kConnectMs);
    if ((fds[0].revents & (POLLOUT | POLLERR | POLLHUP)) == 0) return false;
    if (wire::connected(fd->get()) != 0) return retry_later(where, "refused");
    connection_ = std::make_unique<Connection>(std::move(*fd));
    const auto& o = state_->options();
    const wire::Hello hello = wire::make_hello(o.world, o.rank, o.record);
    connection_->send(&hello, sizeof hello);
    return true;
  }

  bool retry_later(const RootAddress& where, const std::string& why) {
    if (!complained_) {
      state_->log("Connect to " + where.host + ":" + std::to_string(where.port) +
                  " failed - retrying (" + why + ")");
    }
    complained_ = true;
    return false;
  }

  void send_posted() {
    for (auto& [tag, blob] : state_->take_posted()) {
      connection_->send(Type::kBlob, state_->options().rank, tag, blob);
    }
  }

  void parse() {
    Frame frame;
    int got = 0;
    while (connection_ && !state_->failed() &&
           (got = connection_->take_frame(&frame, state_->options().world)) == 1) {
      handle(frame);
    }
    if (got < 0) state_->fail(io_error("the root sent a malformed message"));
  }

  void handle(const Frame& frame) {
    const wire::Header& h = frame.header;
    switch (static_cast<Type>(h.type)) {
      case Type::kWelcome:
        welcomed_ = true;
        return;
      case Type::kTable: {
        base::Result<wire::Table> table =
            wire::decode_table(frame.payload, state_->options().world);
        if (!table) return state_->fail(table.error());
        ready_ = true;
        return state_->set_ready(std::move(*table));
      }
      case Type::kBlob:
        if (!ready_ || !state_->deliver(h.rank, h.tag, frame.payload)) {
          state_->fail(io_error("the root sent a message out of order"));
        }
        return;
      case Type::kReject:
        return state_->fail(io_error("the root refused this rank: " + to_text(frame.payload)));
      case Type::kBye:
        return state_->leave(h.rank);
      case Type::kFail:
        return state_->fail(io_error(to_text(frame.payload)));
    }
  }

  // End of the connection: fatal, unless the root said good-bye or had not yet taken this rank in.
  void lose() {
    connection_.reset();
    if (state_->has_left(0)) {
      ended_ = true;
    } else if (welcomed_) {
      state_->fail(io_error("RX, connection closed by remote peer (rank 0)"));
    } else {
      idle(kTickMs);
    }
  }

  void farewell() {
    if (!connection_) return;
    send_posted();
    if (welcomed_ && !state_->failed()) {
      connection_->send(Type::kBye, state_->options().rank, 0);
    }
    const auto end = Clock::now() + std::chrono::milliseconds(kFarewellMs);
    bool finished = false;
    while (Clock::now() < end && connection_->flush() && connection_->fill()) {
      if (!connection_->wants_write() && !finished) {
        ::shutdown(connection_->fd(), SHUT_WR);
        finished = true;
      }
      pollfd fd{connection_->fd(), POLLIN, 0};
      ::poll(&fd, 1, 10);
    }
    connection_.reset();
  }

  BootstrapState* state_;
  std::optional<RootAddress> address_;
  Patience patience_;
  std::unique_ptr<Connection> connection_;
  int retry_ms_ = 2;  // grows: threads of one process meet at once, others wait for long
  bool welcomed_ = false;
  bool ready_ = false;
  bool ended_ = false;
  bool complained_ = false;
};

}  // namespace

void run_root(BootstrapState* state, const std::optional<RootAddress>& root) {
  Root(state, root).run();
}

void run_peer(BootstrapState* state, const std::optional<RootAddress>& root) {
  Peer(state, root).run();
}

}  // namespace ccl
