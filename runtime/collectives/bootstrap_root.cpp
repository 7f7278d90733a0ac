// I/O loop of rank 0: takes in the others, tells everybody what is complete.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <random>

#include "base/span.h"
#include "runtime/collectives/bootstrap_local.h"
#include "runtime/collectives/sockets.h"

namespace ccl {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Connection;
using wire::Frame;
using wire::Type;

// All-gathers that a rank may be ahead of the slowest one: bounds memory, not use.
constexpr uint32_t kMaxAhead = 4096;

// Ranks of a process that dies go one after the other, but each within this time.
constexpr std::chrono::milliseconds kTogether{20};

// Who has not said by then how many executions it has begun is stopped.
constexpr std::chrono::milliseconds kAnswerTime{500};

Blob to_blob(const std::string& text) {
  return {text.begin(), text.end()};
}

class Root {
 public:
  Root(BootstrapState* state, const std::optional<RootAddress>& address)
      : state_(state),
        address_(address),
        patience_(state, "incoming connection", [this] { return to_text(absent()); }),
        gather_patience_(state, "RX", [this] { return to_text(silent()); }),
        next_tag_(state->options().world, 0) {}
  ~Root() {
    if (table_) Shared::instance().drop(table_->cluster_id);
  }

  void run() {
    if (!listen()) return;
    // Who comes after a failure is told about it.
    while (!state_->stopping() && (!state_->failed() || listener_.valid())) {
      const Clock::time_point looks = Clock::now();  // serve() sees who has gone by now
      wait(tick());
      if (!go_on()) break;
      send_posted();
      serve();
      if (!lost_.empty() && looks - lost_at_ >= kTogether) name_lost();
      if (state_->take_question()) ask_all(0, state_->begun());
      if (!askers_.empty()) answer_askers();
    }
    if (!lost_.empty()) name_lost();
    close_listener();
    send_posted();
    if (!state_->failed()) broadcast(0, wire::make_message(Type::kBye, 0, 0));
    farewell();
  }

 private:
  struct Member {
    explicit Member(base::UniqueFd fd) : connection(std::move(fd), wire::kMaxPayload) {}
    Connection connection;
    uint32_t rank = 0;  // 0: has not said who it is
    bool here = false;  // in this process
    bool said_bye = false;
    bool ready = false;  // something has arrived
  };
  struct Gather {
    std::vector<Blob> blobs;
    uint32_t count = 0;
    uint64_t bytes = 0;
  };

  int tick() const {
    if (!lost_.empty()) return static_cast<int>(kTogether.count());
    if (listener_.valid() || !askers_.empty()) return kTickMs;
    return gathers_.empty() ? -1 : kSlowTickMs;
  }

  bool go_on() {
    if (state_->failed()) return true;
    if (listener_.valid()) return patience_.go_on();
    if (gathers_.empty()) return true;
    if (gathers_.begin()->first != watched_) {
      watched_ = gathers_.begin()->first;
      gather_patience_.begin();
    }
    return gather_patience_.go_on();
  }

  // Ranks that have not come; after that, those that have not contributed to the next all-gather.
  std::vector<uint32_t> absent() const {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 1; r < state_->options().world; ++r) {
      if (records_.count(r) == 0) ranks.push_back(r);
    }
    return ranks;
  }
  std::vector<uint32_t> silent() const {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 0; r < next_tag_.size(); ++r) {
      if (next_tag_[r] <= gathers_done_) ranks.push_back(r);
    }
    return ranks;
  }

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
      const bool in_use = listener.error().code == EADDRINUSE;
      if (!in_use || Clock::now() - begin > state_->options().port_in_use) {
        if (in_use) announce(where);
        state_->fail(
            io_error(listener.error().what + (in_use ? "; is there another rank 0?" : "")));
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

  // Lets whoever listens in the place of this rank know that there are two of it.
  void announce(const RootAddress& where) {
    base::Result<base::UniqueFd> fd = wire::start_connect(where);
    if (!fd) return;
    pollfd ready{fd->get(), POLLOUT, 0};
    const auto& o = state_->options();
    const wire::Hello hello = wire::make_hello(o.world, o.rank, o.record);
    if (::poll(&ready, 1, kSlowTickMs) == 1 && wire::connected(fd->get()) == 0) {
      [[maybe_unused]] const ssize_t sent =
          ::send(fd->get(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
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
    const size_t first = fds.size() - members_.size();
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i]->ready = (fds[first + i].revents & ~POLLOUT) != 0;
    }
  }

  void send_posted() {
    for (auto& [tag, blob] : state_->take_posted()) contribute(0, tag, std::move(blob));
  }

  // False if it breaks the order of contributions.
  bool contribute(uint32_t rank, uint32_t tag, Blob blob) {
    if (tag != next_tag_[rank] || tag - gathers_done_ > kMaxAhead) return false;
    ++next_tag_[rank];
    Gather& g = gathers_[tag];
    g.blobs.resize(state_->options().world);
    g.bytes += blob.size() + sizeof(uint32_t);
    g.blobs[rank] = std::move(blob);
    if (g.bytes > wire::kMaxGathered) {
      fail(0, "contributions of more than " + std::to_string(wire::kMaxGathered) + " bytes");
      return true;
    }
    if (++g.count == state_->options().world) finish(tag);
    return true;
  }

  void finish(uint32_t tag) {
    const Gathered all(std::move(gathers_[tag].blobs));
    gathers_.erase(tag);
    ++gathers_done_;
    Shared::Item item;
    item.gathered = all;
    tell(tag + 1, item,
         [&] { return wire::make_message(Type::kGathered, 0, tag, wire::encode(all)); });
    // The own contribution is in it, so the caller has posted: this cannot be out of order.
    state_->deliver(tag, all);
  }

  // To all: by reference within the process, else as the message of `make`.
  template <typename Make>
  void tell(uint32_t number, const Shared::Item& item, Make&& make) {
    const auto here =
        static_cast<uint32_t>(std::count_if(members_.begin(), members_.end(), [](const auto& m) {
          return m->here && m->rank != 0 && !m->said_bye;
        }));
    Blob cluster(sizeof table_->cluster_id);
    base::store(cluster.data(), table_->cluster_id);
    if (here > 0) Shared::instance().put(table_->cluster_id, number, item, here);
    const wire::Message reference = wire::make_message(Type::kHere, 0, number, cluster);
    wire::Message copy;
    for (const auto& m : members_) {
      if (m->rank == 0 || m->said_bye) continue;
      if (!m->here && !copy) copy = make();
      m->connection.send(m->here ? reference : copy);
    }
  }

  void broadcast(uint32_t except, const wire::Message& message) {
    for (const auto& m : members_) {
      if (m->rank != 0 && m->rank != except && !m->said_bye) m->connection.send(message);
    }
  }

  void serve() {
    accept_all();
    for (size_t i = 0; i < members_.size(); ++i) {
      Member* m = members_[i].get();
      // What arrived before a peer closed still counts.
      const bool alive = !m->ready || m->connection.fill();
      if (m->ready) parse(m);
      if (m->connection.open() && !alive) lose(m);
    }
    for (const auto& m : members_) {
      if (m->connection.open() && m->connection.wants_write() && !m->connection.flush()) {
        lose(m.get());
      }
    }
    members_.erase(std::remove_if(members_.begin(), members_.end(),
                                  [](const auto& m) { return !m->connection.open(); }),
                   members_.end());
    const bool all_here = joined_ + 1 == state_->options().world;
    if (listener_.valid() && all_here && lost_.empty() && !state_->failed()) complete();
  }

  void ask_all(uint32_t asker, uint32_t begun) {
    askers_.emplace_back(asker, begun);
    if (askers_.size() > 1) return;  // the answers are on their way
    asked_since_ = Clock::now();
    begun_.assign(state_->options().world, std::nullopt);
    begun_[0] = state_->begun();
    broadcast(0, wire::make_message(Type::kAsk, 0, 0));
  }

  void answer_askers() {
    const bool all = std::all_of(begun_.begin(), begun_.end(), [](const auto& n) { return !!n; });
    if (!all && Clock::now() - asked_since_ < kAnswerTime) return;
    for (const auto& [asker, begun] : std::exchange(askers_, {})) {
      const std::string text = missing(begun);
      if (asker == 0) state_->answer(text);
      for (const auto& m : members_) {
        if (m->rank != 0 && m->rank == asker) {
          m->connection.send(Type::kMissing, 0, 0, to_blob(text));
        }
      }
    }
  }

  std::string missing(uint32_t begun) const {
    std::vector<uint32_t> behind;
    std::vector<uint32_t> mute;
    for (uint32_t r = 0; r < begun_.size(); ++r) {
      if (!begun_[r]) {
        mute.push_back(r);
      } else if (*begun_[r] < begun) {
        behind.push_back(r);
      }
    }
    std::string text;
    if (!behind.empty()) {
      text = to_text(behind) + (behind.size() == 1 ? " has" : " have") + " not begun it";
    }
    if (mute.empty()) return text;
    if (!text.empty()) text += ", ";
    return text + to_text(mute) + (mute.size() == 1 ? " does" : " do") + " not answer";
  }

  void accept_all() {
    if (!listener_.valid()) return;
    // Strangers may not use up descriptors: at most this many connections without a HELLO.
    constexpr size_t kStrangers = 256;
    while (members_.size() < state_->options().world + kStrangers) {
      base::UniqueFd fd = wire::accept_from(listener_.get());
      if (!fd.valid()) return;
      members_.push_back(std::make_unique<Member>(std::move(fd)));
      members_.back()->ready = true;  // the HELLO may be here
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
    if (!lost_.empty()) name_lost();
    if (const std::string problem = problem_of(hello); !problem.empty()) {
      m->connection.send(Type::kReject, 0, 0, to_blob(problem));
      m->connection.flush();
      m->connection.close();
      fail(0, "rank " + std::to_string(hello.rank) + " was refused: " + problem);
      return false;
    }
    m->rank = hello.rank;
    const wire::ProcessId own = wire::process_id();
    m->here = std::equal(own.begin(), own.end(), hello.address);
    records_[hello.rank] = hello;
    ++joined_;
    m->connection.send(Type::kWelcome, 0, 0);
    return true;
  }

  std::string problem_of(const wire::Hello& hello) {
    if (state_->failed()) return why_.empty() ? "rank 0 has given up" : why_;
    std::string problem = wire::check_hello(hello, state_->options().world);
    const bool taken = hello.rank == 0 ||
                       std::any_of(members_.begin(), members_.end(),
                                   [&](const auto& other) { return other->rank == hello.rank; });
    if (problem.empty() && taken) {
      problem = "rank " + std::to_string(hello.rank) + " is already here";
    }
    return problem;
  }

  bool handle(Member* m, Frame& frame) {
    const wire::Header& h = frame.header;
    if (h.rank != m->rank) return break_with(m, "speaks for another rank");
    if (h.type == static_cast<uint32_t>(Type::kBye)) {
      m->said_bye = true;
      const uint32_t number = next_tag_[m->rank];
      state_->leave(m->rank, number);
      // Only the first all-gather that somebody misses matters.
      if (number < first_missed_)
        broadcast(m->rank, wire::make_message(Type::kBye, m->rank, number));
      first_missed_ = std::min(first_missed_, number);
      return true;
    }
    if (h.type == static_cast<uint32_t>(Type::kAsk) && !listener_.valid()) {
      ask_all(m->rank, h.tag);
      return true;
    }
    if (h.type == static_cast<uint32_t>(Type::kBegun) && !begun_.empty()) {  // may be late
      begun_[m->rank] = h.tag;
      return true;
    }
    if (h.type != static_cast<uint32_t>(Type::kBlob) || listener_.valid() ||
        !contribute(m->rank, h.tag, std::move(frame.payload))) {
      return break_with(m, "sent a message out of order");
    }
    return true;
  }

  bool break_with(Member* m, const std::string& why) {
    fail(m->rank, "rank " + std::to_string(m->rank) + " " + why);
    m->connection.close();
    return false;
  }

  void lose(Member* m) {
    if (m->rank != 0 && !m->said_bye && !state_->failed()) {
      lost_at_ = Clock::now();
      lost_.push_back(m->rank);
    }
    m->connection.close();
  }

  void name_lost() {
    std::sort(lost_.begin(), lost_.end());
    fail(0, "RX, connection closed by remote peer (" + to_text(std::exchange(lost_, {})) + ")");
  }

  void fail(uint32_t rank, const std::string& why) {
    if (state_->failed()) return;
    why_ = why;
    state_->fail(io_error(why));
    broadcast(rank, wire::make_message(Type::kFail, rank, 0, to_blob(why)));
  }

  void complete() {
    auto made = std::make_shared<wire::Table>();
    wire::Table& table = *made;
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
    table_ = made;
    Shared::Item item;
    item.table = table_;
    tell(0, item, [&] { return wire::make_message(Type::kTable, 0, 0, wire::encode(table)); });
    members_.erase(std::remove_if(members_.begin(), members_.end(),
                                  [](const auto& m) { return m->rank == 0; }),
                   members_.end());
    close_listener();
    state_->set_ready(table_);
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
  Patience gather_patience_;
  std::optional<uint32_t> watched_;  // all-gather that gather_patience_ is about
  std::string why_;                  // the job has failed
  base::UniqueFd listener_;
  bool published_ = false;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<uint32_t, wire::Hello> records_;
  uint32_t joined_ = 0;
  std::vector<uint32_t> lost_;  // vanished, and nobody has been told
  Clock::time_point lost_at_;   // the last of them
  std::shared_ptr<const wire::Table> table_;
  std::vector<uint32_t> next_tag_;  // contributions so far, by rank
  std::map<uint32_t, Gather> gathers_;
  uint32_t gathers_done_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> askers_;  // rank, executions that it has begun
  Clock::time_point asked_since_;
  std::vector<std::optional<uint32_t>> begun_;  // by rank: what has been answered
  uint32_t first_missed_ = ~0u;                 // of the all-gathers, by a rank that has left
};

}  // namespace

void run_root(BootstrapState* state, const std::optional<RootAddress>& root) {
  Root(state, root).run();
}

}  // namespace ccl
