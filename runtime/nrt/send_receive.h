// Send and receive between cores of any processes: which cores have been enabled, their listeners,
// communicators and requests (spec/nrt-api.md 12). Cores have the numbers of the host here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/exec/peer_channel.h"
#include "runtime/nrt/tensor.h"

namespace nrt {

class SendReceive {
 public:
  static constexpr int kMaxChannels = 64;  // of a core

  SendReceive(uint32_t first_core, uint32_t cores, const PeerLimits& limits)
      : first_(first_core), limits_(limits), ends_(cores) {}

  base::Status enable(int lnc);
  // Gives up everything that the core has, also with an error: something is unfinished.
  base::Status disable(int lnc);
  base::Status flush(int lnc);

  // Handles stand for channels and requests; they are of this object and end with disable().
  base::Result<const void*> open(bool sender, const char* ip, int peer, int lnc);
  base::Result<bool> connected(const void* channel);
  base::Result<const void*> start(const void* channel, bool send, const TensorView& view,
                                  uint64_t offset, uint64_t length);
  // The number of bytes of a request that is done; its handle is gone then. One that has failed
  // stays.
  base::Result<std::optional<uint64_t>> finished(const void* request);

 private:
  struct Wanted {  // a receiving end without a connection
    std::string ip;
    uint32_t peer = 0;
    std::shared_ptr<PeerChannel> channel;
  };
  struct End {
    bool enabled = false;
    bool broken = false;  // a disable() has failed
    base::UniqueFd listener;
    std::vector<base::UniqueFd> arrivals;  // connections whose sender is not wanted or known yet
    std::vector<Wanted> wanted;
    int channels = 0;
    std::map<std::pair<std::string, uint32_t>, std::weak_ptr<PeerChannel>> last_sender;
  };
  struct Channel {
    uint32_t end = 0;
    std::shared_ptr<PeerChannel> object;
  };
  struct Request {
    uint32_t end = 0;
    std::shared_ptr<PeerChannel> channel;
    std::shared_ptr<Transfer> transfer;
  };
  base::Result<End*> enabled_end(int lnc);
  void meet(End* end);

  const uint32_t first_;
  const PeerLimits limits_;
  std::mutex mutex_;
  std::vector<End> ends_;
  std::unordered_map<const void*, Channel> channels_;
  std::unordered_map<const void*, Request> requests_;
};

}  // namespace nrt
