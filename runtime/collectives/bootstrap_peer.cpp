// I/O loop of the other ranks: one connection to the root.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "base/span.h"
#include "runtime/collectives/bootstrap_local.h"
#include "runtime/collectives/sockets.h"

namespace ccl {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Connection;
using wire::Frame;
using wire::Type;

// Text from a peer, made printable.
std::string to_text(const Blob& blob) {
  std::string out(blob.begin(),
                  blob.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(blob.size(), 200)));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

class Peer {
 public:
  Peer(BootstrapState* state, const std::optional<RootAddress>& address)
      : state_(state), address_(address), patience_(state, "RX", [this] { return for_whom(); }) {}

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
      ::poll(fds, 2, tick());
      state_->drain_wake();
      if (waits() && !patience_.go_on()) break;
      const bool alive = connection_->fill();
      parse();
      if (connection_ && !alive) lose();
    }
    farewell();
  }

 private:
  // For the others to come, or to contribute to the next all-gather.
  bool waits() {
    const std::optional<uint32_t> awaited = state_->awaited();
    if (ready_ && awaited != awaited_) patience_.begin();
    if (ready_) awaited_ = awaited;
    return !ready_ || awaited;
  }
  int tick() { return !ready_ ? kTickMs : state_->awaited() ? kSlowTickMs : -1; }
  std::string for_whom() const { return welcomed_ ? "the others, which rank 0 knows" : "rank 0"; }

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
    connection_ = std::make_unique<Connection>(std::move(*fd), wire::kMaxGathered);
    const auto& o = state_->options();
    const wire::Hello hello = wire::make_hello(o.world, o.rank, o.record);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&hello);
    connection_->send(std::make_shared<const Blob>(bytes, bytes + sizeof hello));
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
    if (ready_ && state_->take_question()) {
      connection_->send(Type::kAsk, state_->options().rank, state_->begun());
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
        return set_ready(std::make_shared<const wire::Table>(std::move(*table)));
      }
      case Type::kGathered: {
        base::Result<Gathered> all = wire::decode_gathered(frame.payload, state_->options().world);
        if (!all) return state_->fail(all.error());
        return deliver(h.tag, *all);
      }
      case Type::kHere:
        return take_here(h.tag, frame.payload);
      case Type::kBlob:
      case Type::kBegun:
        return out_of_order();
      case Type::kAsk:
        return connection_->send(Type::kBegun, state_->options().rank, state_->begun());
      case Type::kMissing:
        return state_->answer(to_text(frame.payload));
      case Type::kReject:
        return state_->fail(io_error("the root refused this rank: " + to_text(frame.payload)));
      case Type::kBye:
        return state_->leave(h.rank, h.tag);
      case Type::kFail:
        return state_->fail(io_error(to_text(frame.payload)));
    }
  }

  void out_of_order() { state_->fail(io_error("the root sent a message out of order")); }

  void set_ready(std::shared_ptr<const wire::Table> table) {
    if (ready_) return out_of_order();
    ready_ = true;
    state_->set_ready(std::move(table));
  }

  void deliver(uint32_t tag, const Gathered& gathered) {
    if (!ready_ || !state_->deliver(tag, gathered)) out_of_order();
  }

  void take_here(uint32_t number, const Blob& payload) {
    if (payload.size() != sizeof(uint64_t)) return out_of_order();
    const auto item = Shared::instance().take(base::load<uint64_t>(payload.data()), number);
    if (!item || (number == 0) != (item->table != nullptr)) return out_of_order();
    if (number == 0) return set_ready(item->table);
    deliver(number - 1, item->gathered);
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
      connection_->send(Type::kBye, state_->options().rank, state_->contributions());
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
  std::optional<uint32_t> awaited_;  // all-gather that patience_ is about
  bool welcomed_ = false;
  bool ready_ = false;
  bool ended_ = false;
  bool complained_ = false;
};

}  // namespace

void run_peer(BootstrapState* state, const std::optional<RootAddress>& root) {
  Peer(state, root).run();
}

}  // namespace ccl
