// How ranks meet (spec/collectives.md 4.2, spec/nrt-api.md 10): rank 0 listens, the others connect,
// everyone gets the table of all; then all-gathers of small blobs and barriers. Ranks may be
// threads of one process or processes. One background thread per rank does the I/O: open() and
// post() never wait for peers, so one thread can register several ranks one after the other.
// Cost: one connection per rank, to the root. An all-gather is one message of each rank to the root
// and one back with all contributions; ranks in the root's process get them by reference.
// A rank that vanishes, breaks the protocol, or does not fit (another world, a number that is
// taken) ends the job: every rank gets an error that says so. One that only is late does not.
// Exact: accepted text forms and messages. Own: the wire protocol.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ccl {

using DeviceRecord = std::array<uint8_t, 64>;
using Blob = std::vector<uint8_t>;

// The contributions of all ranks to one all-gather, by rank; copies share them.
class Gathered {
 public:
  Gathered() = default;
  explicit Gathered(std::vector<Blob> blobs)
      : blobs_(std::make_shared<const std::vector<Blob>>(std::move(blobs))) {}

  size_t size() const { return blobs_ ? blobs_->size() : 0; }
  const Blob& operator[](size_t rank) const { return (*blobs_)[rank]; }

 private:
  std::shared_ptr<const std::vector<Blob>> blobs_;
};

struct RootAddress {
  std::string host;  // IPv4, IPv6 without brackets, or a name
  uint16_t port = 0;
};
// "<ipv4>:<port>", "[<ipv6>]:<port>" or "<name>:<port>"; the error shows the accepted form.
base::Result<RootAddress> parse_root_id(const std::string& text);

struct BootstrapOptions {
  std::string root_id;  // NEURON_RT_ROOT_COMM_ID; empty: all ranks are threads of this process
  uint32_t rank = 0;
  uint32_t world = 1;
  DeviceRecord record{};
  // Called from the background thread: retries; who waits for whom, every `warn_every`.
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> alarm;
  std::chrono::milliseconds warn_every{120000};
  std::chrono::milliseconds give_up{0};  // 0: wait for ever
  // How long another world may hold rank 0's port; after that there are two ranks 0.
  std::chrono::milliseconds port_in_use{30000};
};

struct PeerInfo {
  uint32_t rank = 0;
  DeviceRecord record{};
};

class Bootstrap {
 public:
  // Checks the options and starts meeting the peers; does not wait for them.
  static base::Result<std::unique_ptr<Bootstrap>> open(const BootstrapOptions& options);
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;
  ~Bootstrap();  // leaves the group; peers that still need this rank get an error

  uint32_t rank() const;
  uint32_t world() const;

  // Until all ranks are here. Idempotent.
  base::Status wait_all();
  // Valid after wait_all().
  const std::vector<PeerInfo>& table() const;
  uint64_t cluster_id() const;
  int64_t epoch() const;

  // Split all-gather: post() hands in this rank's blob and returns a ticket, collect() waits for
  // the blobs of all ranks, by rank. All ranks post in the same order; blobs may differ in size.
  base::Result<uint32_t> post(Blob blob);
  base::Result<Gathered> collect(uint32_t ticket);

  base::Result<Gathered> all_gather(Blob blob);
  base::Status barrier();

  // What has ended the job, if anything has: a rank that vanished, for one; or the first rank that
  // has left.
  base::Status health() const;
  bool failed() const;    // something has ended the job; cheap, as is the next
  bool deserted() const;  // a rank has left
  // This rank begins an execution that all ranks take part in.
  void begin_execution();
  // When the one begun last hangs: which ranks have not begun it, and which do not even answer, as
  // text; empty if all have. Waits for answers, 2 s at most.
  std::string missing();
  // Any thread: if a call waits for peers, it fails, and so do theirs.
  void abandon(const std::string& why);

 private:
  class Impl;
  explicit Bootstrap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ccl
