// A host's place in its pod: the election of an ultraserver, the configuration of PDS and MAX
// platforms, and the operating mode. Source: spec/hw-registers.md 9, 10.2 step 17, 10.8;
// spec/driver-ioctl.md 3.16.
//
// Exact: register accesses and their order, retries, deadlines, fallback from both links to the
// right one to the left one, what user space sees. Decided here: a secondary device stops at a
// mis-wire (releases differ); an attempt that falls back waits until neighbours must have seen the
// failure; a primary also checks that each neighbour names it as the neighbour
// on the same side, so a rotated ring fails instead of giving every node another idea of the pod;
// words left by an election that never ended are not adopted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "driver/kernel/context.h"
#include "driver/kernel/pod.h"
#include "driver/kernel/remote_reader.h"

namespace driver {

class FirmwareIo;
class KernelDriver;
class NeuronDevice;

class Election {
 public:
  static constexpr uint32_t kDevices = 16;  // of a node of an ultraserver or PDS
  static constexpr uint32_t kDevicesMax = 4;

  // NEURON_POD_E_STATE of spec/driver-ioctl.md 3.16.
  enum State : uint32_t {
    kNotStarted = 0,
    kInProgress = 1,
    kUltraServer = 2,
    kFailed = 3,
    kSingleNode = 4,
  };

  explicit Election(KernelDriver& driver);
  ~Election();

  bool settled() const { return outcome_ != Outcome::kNone && !running_; }
  // As user space sees it; 0 or -EBUSY.
  int status(uint32_t& state) const;
  const Pod& pod() const { return pod_; }
  uint32_t mode() const { return mode_; }
  uint32_t modes() const { return pod_.modes(); }
  // Nodes 1 and 3 of an ultraserver number their cores differently (spec/hw-registers.md 1.6).
  bool die_flipped() const;

  // In the reset task of a device, after each device reset.
  void device_reset(NeuronDevice& device, bool ok);

  // Requests of user space (POD_CTRL); 0 or -errno.
  int start(uint32_t timeout_s, bool cores_marked);
  int kill();
  int set_mode(uint32_t mode);
  void no_core_marked() { mode_ = kModeUnset; }

  // From a driver task: ends a running election and waits until its task is gone.
  void stop();

 private:
  enum class Outcome { kNone, kSuccess, kFailed };
  // Of a device in step 2 and 4: by side, left first.
  struct Seen {
    uint64_t serial[2] = {0, 0};
    RemoteReader::Words data[2] = {};
  };

  void spawn(uint32_t timeout_s);
  void run();
  bool attempt(uint32_t links);
  bool secondary(uint32_t index, uint32_t links);
  bool primary(uint32_t links);
  bool primary_steps(RemoteReader& from, FirmwareIo& firmware, uint32_t links, uint64_t own,
                     Pod& pod);
  bool read_serials(RemoteReader& reader, uint32_t links, Seen& seen);
  bool exchange(RemoteReader& reader, uint32_t links, Seen& seen);
  bool await_status(RemoteReader& reader, uint32_t links);
  void clear_data(NeuronDevice& device);
  void fail_primary(NeuronDevice& device);
  bool pause(bool with_deadline);
  bool fail(const std::string& why);
  void finish(Outcome outcome, const Pod& pod);
  void adopt(NeuronDevice& device);
  void configure(NeuronDevice& device);
  RemoteReader* reader(uint32_t index);
  uint32_t devices_needed() const;

  KernelDriver& driver_;
  const Context& context_;
  Outcome outcome_ = Outcome::kNone;
  Pod pod_;
  uint32_t mode_ = kModeUnset;
  uint32_t reset_devices_ = 0;  // bit by device index
  bool running_ = false;
  bool abort_ = false;
  bool primary_failed_ = false;  // and is marked so for the neighbours
  bool removed_ = false;
  base::Ps deadline_ = 0;
  uint32_t device_ = 0;  // being processed, for the log
  std::map<uint32_t, std::unique_ptr<RemoteReader>> readers_;
};

}  // namespace driver
