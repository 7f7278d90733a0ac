#include "runtime/collectives/bootstrap.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "runtime/collectives/bootstrap_state.h"
#include "runtime/collectives/types.h"

namespace ccl {
namespace {

// A world of threads needs three descriptors per rank; the usual soft limit is far below the hard
// one, and raising it is what libraries for collectives do.
void raise_file_limit(uint32_t world) {
  constexpr rlim_t kOthers = 256;  // what the process needs besides
  const rlim_t wanted = 3 * static_cast<rlim_t>(world) + kOthers;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class Bootstrap::Impl {
 public:
  Impl(const BootstrapOptions& options, base::UniqueFd wake) : state_(options, std::move(wake)) {}
  ~Impl() {
    state_.stop();
    if (thread_.joinable()) thread_.join();
  }

  BootstrapState& state() { return state_; }

  void start(std::optional<RootAddress> root) {
    if (state_.options().world == 1) {
      auto table = std::make_shared<wire::Table>();
      table->peers = {{0, state_.options().record}};
      state_.set_ready(std::move(table));
      return;
    }
    thread_ = std::thread([this, root = std::move(root)] {
      (state_.options().rank == 0 ? run_root : run_peer)(&state_, root);
    });
  }

 private:
  BootstrapState state_;
  std::thread thread_;
};

Bootstrap::Bootstrap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Bootstrap::~Bootstrap() = default;

base::Result<std::unique_ptr<Bootstrap>> Bootstrap::open(const BootstrapOptions& options) {
  if (options.world == 0 || options.world > wire::kMaxWorld || options.rank >= options.world) {
    return base::Error{
        base::Fault::kUsage, kNrtInvalid, "bootstrap",
        "rank " + std::to_string(options.rank) + " in a world of " + std::to_string(options.world)};
  }
  std::optional<RootAddress> root;
  if (!options.root_id.empty() && options.world > 1) {
    base::Result<RootAddress> parsed = parse_root_id(options.root_id);
    if (!parsed) return parsed.error();
    root = std::move(*parsed);
  }
  raise_file_limit(options.world);
  base::UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return base::errno_error("bootstrap", "eventfd");
  auto impl = std::make_unique<Impl>(options, std::move(wake));
  impl->start(std::move(root));
  return std::unique_ptr<Bootstrap>(new Bootstrap(std::move(impl)));
}

uint32_t Bootstrap::rank() const {
  return impl_->state().options().rank;
}
uint32_t Bootstrap::world() const {
  return impl_->state().options().world;
}
base::Status Bootstrap::wait_all() {
  return impl_->state().wait_ready();
}
const std::vector<PeerInfo>& Bootstrap::table() const {
  return impl_->state().table().peers;
}
uint64_t Bootstrap::cluster_id() const {
  return impl_->state().table().cluster_id;
}
int64_t Bootstrap::epoch() const {
  return impl_->state().table().epoch;
}
base::Result<uint32_t> Bootstrap::post(Blob blob) {
  return impl_->state().post(std::move(blob));
}
base::Result<Gathered> Bootstrap::collect(uint32_t ticket) {
  return impl_->state().collect(ticket);
}

base::Status Bootstrap::health() const {
  return impl_->state().health();
}

bool Bootstrap::failed() const {
  return impl_->state().failed();
}

bool Bootstrap::deserted() const {
  return impl_->state().deserted();
}

void Bootstrap::begin_execution() {
  impl_->state().begin_execution();
}

std::string Bootstrap::missing() {
  return impl_->state().missing();
}

void Bootstrap::abandon(const std::string& why) {
  if (!impl_->state().waited_for()) return;
  impl_->state().fail({base::Fault::kUsage, kNrtFailure, "bootstrap", why});
}

base::Result<Gathered> Bootstrap::all_gather(Blob blob) {
  const base::Result<uint32_t> ticket = post(std::move(blob));
  if (!ticket) return ticket.error();
  return collect(*ticket);
}

base::Status Bootstrap::barrier() {
  const base::Result<Gathered> done = all_gather({});
  if (!done) return done.error();
  return {};
}

}  // namespace ccl
