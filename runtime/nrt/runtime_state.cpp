#include "runtime/nrt/runtime_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include "driver/ndl/ndl.h"
#include "runtime/exec/host.h"
#include "runtime/load/program_listing.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/send_receive.h"
#include "runtime/nrt/sys_trace.h"

namespace nrt {
namespace {

// Interface numbers that the driver compares with (spec/ndl-api.md 8).
constexpr uint32_t kCompatibilityV2 = 7;
constexpr uint32_t kCompatibilityV3 = 11;
constexpr uint32_t kDriverCores = 512;  // spec/ndl-api.md 3.9
// An asynchronous request that takes longer when the runtime is closed must not wait for anything.
constexpr std::chrono::seconds kPatienceAtClose{5};

base::Status check_driver() {
  ndl_version_info_t version{};
  if (ndl_get_version(&version) != 0) {
    return error(NRT_FAILURE,
                 "Unable to determine Neuron Driver version. Please check aws-neuron-dkms package "
                 "is installed.");
  }
  if (version.driver_major_version < 2) {
    return error(NRT_FAILURE,
                 "This runtime requires Neuron Driver version 2.0 or greater. Please upgrade "
                 "aws-neuron-dkms package.");
  }
  auto map = instance_map();
  if (!map) return map.error();
  const uint32_t own = map->v2() ? kCompatibilityV2 : kCompatibilityV3;
  uint32_t min = 0;
  uint32_t max = 0;
  if (ndl_get_compatible_version(&min, &max) != 0 || own < min || own > max) {
    return error(NRT_FAILURE, "This Neuron Runtime (compatibility id: " + std::to_string(own) +
                                  ") is not compatible with the installed aws-neuron-dkms package");
  }
  return {};
}

base::Result<uint32_t> logical_core_size(const contract::AddressMap& map) {
  return read_logical_core_size(map.v2() ? 1 : 2);
}

}  // namespace

Process& process() {
  static auto* instance = new Process;
  return *instance;
}

NRT_STATUS gate(const Process& p) {
  if (p.state == Process::State::kRunning && p.owner_pid == getpid()) return NRT_SUCCESS;
  return p.state == Process::State::kClosed ? NRT_CLOSED : NRT_UNINITIALIZED;
}

NRT_STATUS report(const char* function, const base::Error& e) {
  const NRT_STATUS status = status_of(e);
  const char* kind = e.fault == base::Fault::kUnsupported ? "Unsupported: " : "";
  // A full queue is how callers are held back, again and again: no failure to tell people.
  const LogLevel level = status == NRT_QUEUE_FULL ? LogLevel::kDebug : LogLevel::kError;
  log(level, Component::kNrt, function, "%s%s (status %d %s)", kind, e.message().c_str(),
      static_cast<int>(status), status_text(status));
  return status;
}

base::Result<std::shared_ptr<Tensor>> find_tensor(const nrt_tensor_t* tensor) {
  if (tensor == nullptr) return null_argument();
  if (!process().tensors.contains(tensor)) {
    return error(NRT_INVALID, "The tensor handle is not alive");
  }
  return tensor->object;
}

base::Result<std::shared_ptr<Model>> find_model(const nrt_model_t* model) {
  if (model == nullptr || !process().models.contains(model)) {
    return error(NRT_INVALID_HANDLE, "The model handle is NULL or not alive");
  }
  return model->object;
}

TensorSet* find_set(const nrt_tensor_set_t* set) {
  if (set == nullptr || !process().sets.contains(set)) return nullptr;
  return static_cast<TensorSet*>(const_cast<nrt_tensor_set_t*>(set));
}

base::Error bad_set() {
  return error(NRT_INVALID, "A tensor set is NULL or not alive");
}

base::Result<contract::AddressMap> instance_map() {
  uint32_t architecture = 0;
  uint32_t revision = 0;
  if (ndl_get_board_info(&architecture, &revision) != 0 || architecture < 2 || architecture > 4) {
    return error(NRT_FAILURE, "The device architecture is unknown");
  }
  contract::AddressMap map;
  map.gen = static_cast<contract::Gen>(architecture);
  return map;
}

base::Result<uint32_t> total_cores() {
  ndl_version_info_t version{};
  const int devices = ndl_available_devices(nullptr, 0);
  if (devices <= 0) {
    if (ndl_get_version(&version) != 0) return error(NRT_FAILURE, "The driver is not loaded");
    return 0u;
  }
  auto map = instance_map();
  if (!map) return map.error();
  auto lnc = logical_core_size(*map);
  if (!lnc) return lnc.error();
  return static_cast<uint32_t>(devices) * map->ncs() / *lnc;
}

base::Result<std::unique_ptr<Runtime>> Runtime::start() {
  if (base::Status s = check_driver(); !s.ok()) return s.error();
  auto map = instance_map();
  if (!map) return map.error();
  auto lnc = logical_core_size(*map);
  if (!lnc) return lnc.error();
  std::unique_ptr<Runtime> runtime(new Runtime);
  runtime->lnc_ = *lnc;
  runtime->host_ = read_host(map->gen);
  runtime->per_device_ = map->ncs() / *lnc;
  for (auto step : {&Runtime::reserve, &Runtime::find_places, &Runtime::open_devices,
                    &Runtime::reset_cores, &Runtime::bring_up_cores}) {
    if (base::Status s = (runtime.get()->*step)(); !s.ok()) return s.error();
  }
  runtime->async_ = std::make_unique<AsyncUnits>(runtime->core_count());
  PeerLimits peers;
  peers.port = static_cast<uint16_t>(
      environment_number("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", peers.port, UINT16_MAX));
  runtime->send_receive_ =
      std::make_unique<SendReceive>(runtime->first_core_, runtime->core_count(), peers);
  return runtime;
}

Runtime::~Runtime() {
  if (async_) async_->close(kPatienceAtClose, [this] { stop_waiting(); });
  for (const std::weak_ptr<Model>& entry : models_) {
    if (const std::shared_ptr<Model> model = entry.lock()) model->unload();
  }
  send_receive_.reset();
  communicators_.clear();
  cores_.clear();
  for (const std::shared_ptr<Device>& device : devices_) device->close();
  if (marked_) ndl_crwl_nc_range_unmark(marks_.data(), marks_.size() * sizeof marks_[0]);
  ndl_device_cached_fd_close_all();
}

// The driver counts physical cores; a run of them that starts in the middle of a logical core is of
// no use (another process may use another size), so the next one is tried.
int Runtime::mark(CoreRange range, uint32_t count, uint32_t* available) {
  const uint32_t end = (range.first + range.count) * lnc_;
  int result = -1;
  for (uint32_t from = range.first * lnc_; from + count * lnc_ <= end;) {
    errno = 0;
    result = ndl_crwl_nc_range_mark(count * lnc_, from, end - 1, available, marks_.data(),
                                    marks_.size() * sizeof marks_[0]);
    if (result != 0) break;
    const auto first = static_cast<uint32_t>(nbitmap_ffs1(kDriverCores, marks_.data()) - 1);
    if (first % lnc_ == 0) {
      first_core_ = first / lnc_;
      return 0;
    }
    ndl_crwl_nc_range_unmark(marks_.data(), marks_.size() * sizeof marks_[0]);
    std::fill(marks_.begin(), marks_.end(), 0);
    result = -1;
    *available = 0;
    from = first + lnc_ - first % lnc_;
  }
  *available /= lnc_;
  return result;
}

base::Status Runtime::reserve() {
  auto total = total_cores();
  if (!total) return total.error();
  auto selection = read_core_selection(*total);
  if (!selection) return selection.error();
  const CoreRange range = selection->fixed.value_or(CoreRange{0, *total});
  const uint32_t count = selection->count != 0 ? selection->count : range.count;
  if (count == 0) return error(NRT_FAILURE, "There is no NeuronCore");
  marks_.assign(kDriverCores / 64, 0);
  uint32_t available = 0;
  if (mark(range, count, &available) != 0) {
    const std::string wanted = selection->fixed ? "nc" + std::to_string(range.first) + "-nc" +
                                                      std::to_string(range.first + range.count - 1)
                                                : std::to_string(count);
    log(LogLevel::kError, Component::kNrt, "nrt_allocate_neuron_cores",
        "NeuronCore(s) not available - Requested:%s Available:%u", wanted.c_str(), available);
    return error(NRT_FAILURE, "The requested NeuronCores are in use");
  }
  marked_ = true;
  cores_.resize(count);
  return {};
}

// The driver numbers the cores of a chip by where they sit (spec/hw-registers.md 1.6): which of
// them owns which link depends on that, and on the flip of some nodes' chips, which is in its map,
// too.
base::Status Runtime::find_places() {
  std::vector<uint64_t> room(1 + NEURON_NC_MAP_MAX_ENTRIES);  // entries are of 8 bytes
  auto* table = reinterpret_cast<neuron_ioctl_nc_map*>(room.data());
  const uint32_t per_chip = per_device_ * lnc_;
  const bool mapped = ndl_get_logical_to_physical_nc_map(table, NEURON_NC_MAP_MAX_ENTRIES,
                                                         NEURON_IOCTL_NC_MAPPING_TYPE_V0) == 0;
  for (uint32_t vnc = 0; vnc < core_count(); ++vnc) {
    const uint32_t global = first_core_ + vnc;
    CorePlace place{global % per_device_, global % per_device_ * lnc_, lnc_};
    const uint32_t first = global * lnc_;
    if (mapped && first + lnc_ <= table->num_entries) {
      place.nc = table->mappings[first].device_nc_idx;
      for (uint32_t i = 0; i < lnc_; ++i) {
        const neuron_ioctl_nc_map_entry& entry = table->mappings[first + i];
        if (entry.device_id != first / per_chip || entry.device_nc_idx != place.nc + i ||
            place.nc % lnc_ != 0 || entry.device_nc_idx >= per_chip) {
          return error(NRT_FAILURE, "The driver's map of cores does not fit the devices");
        }
      }
    }
    places_.push_back(place);
  }
  return {};
}

base::Status Runtime::open_devices() {
  const uint32_t last = first_core_ + core_count() - 1;
  for (uint32_t d = first_core_ / per_device_; d <= last / per_device_; ++d) {
    auto device = Device::open(static_cast<int>(d));
    if (!device) return device.error();
    devices_.push_back(std::move(*device));
  }
  return {};
}

base::Status Runtime::reset_cores() {
  if (!environment_flag("NEURON_RT_RESET_CORES", true)) return {};
  std::vector<uint32_t> requests;
  for (const std::shared_ptr<Device>& device : devices_) {
    int map = 0;
    for (uint32_t c = first_core_; c < first_core_ + core_count(); ++c) {
      if (static_cast<int>(c / per_device_) != device->index()) continue;
      map |= ((1 << lnc_) - 1) << places_[c - first_core_].nc;
    }
    uint32_t request = 0;
    errno = 0;
    if (ndl_reset_ncs(device->index(), map, &request) != 0) {
      return driver_error("core reset", errno);
    }
    requests.push_back(request);
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    uint8_t ready = 0;
    if (ndl_ready_ncs(devices_[i]->index(), requests[i], &ready) != 0 || ready != 1) {
      return error(NRT_HW_ERROR, "The cores of ND " + std::to_string(devices_[i]->index()) +
                                     " did not come out of reset");
    }
  }
  return {};
}

base::Status Runtime::bring_up_cores() {
  for (uint32_t vnc = 0; vnc < core_count(); ++vnc) {
    const uint32_t global = first_core_ + vnc;
    const std::shared_ptr<Device>& device =
        devices_[global / per_device_ - first_core_ / per_device_];
    const uint32_t nc = places_[vnc].nc;
    if (base::Status s = set_state(*device, nc, NEURON_CINIT_STATE_STARTED); !s.ok()) return s;
    auto core = Core::bring_up(device, places_[vnc], vnc);
    if (!core) return core.error();
    cores_[vnc] = std::move(*core);
    if (base::Status s = set_state(*device, nc, NEURON_CINIT_STATE_COMPLETED); !s.ok()) return s;
  }
  return {};
}

base::Status Runtime::set_state(const Device& device, uint32_t nc, uint32_t state) const {
  for (uint32_t i = 0; i < lnc_; ++i) {
    uint32_t now = 0;
    errno = 0;
    if (ndl_nc_init_set_state(device.handle(), nc + i, state, &now) != 0) {
      return driver_error("core set-up", errno);
    }
  }
  return {};
}

base::Result<Core*> Runtime::core(int64_t vnc) {
  if (vnc < 0 || vnc >= core_count()) {
    log(LogLevel::kError, Component::kTdrv, "db_vtpb_get_mla_and_tpb", "Could not find VNC id %lld",
        static_cast<long long>(vnc));
    return error(NRT_INVALID, "Core " + std::to_string(vnc) + " is not one of the " +
                                  std::to_string(core_count()) + " cores of this process");
  }
  return cores_[static_cast<size_t>(vnc)].get();
}

Device* Runtime::device(int index) {
  for (const std::shared_ptr<Device>& device : devices_) {
    if (device->index() == index) return device.get();
  }
  return nullptr;
}

Core& Runtime::least_loaded() {
  return **std::min_element(cores_.begin(), cores_.end(), [](const auto& a, const auto& b) {
    return a->loaded_models < b->loaded_models;
  });
}

RankPosition Runtime::position_of(const Core& core) const {
  const Device& device = core.device();
  RankPosition p;
  p.gen = host_.gen;
  p.fabric = fabric_of(host_, static_cast<uint32_t>(device.index()), device.neighbours());
  p.lnc = core.lnc();
  p.chip = device.chip();
  p.device = static_cast<uint32_t>(device.index());
  p.devices = host_.devices;
  p.nc = core.nc();
  p.core = core.index_on_chip();
  p.host = host_.identity;
  if (p.fabric == ccl::Fabric::kSwitched) {
    p.sleds_per_rack = sleds_per_rack(host_);
    return p;
  }
  // Chips of a host have consecutive numbers.
  const uint32_t first = p.chip - p.device;
  for (const uint32_t n : device.neighbours()) {
    if (p.neighbour_count < kMaxNeighbours) {
      p.neighbours[p.neighbour_count++] = static_cast<uint16_t>(first + n);
    }
  }
  return p;
}

base::Result<std::shared_ptr<Communicator>> Runtime::communicator(Core& core, uint32_t rank,
                                                                  uint32_t world) {
  if (world == 0 || rank >= world) {
    return error(NRT_INVALID, "Rank " + std::to_string(rank) + " is outside a world of " +
                                  std::to_string(world));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Communicator>& held = communicators_[core.vnc()];
  if (held && held->rank() == rank && held->world() == world) return held;
  if (held) {
    return error(NRT_INVALID,
                 "The core is rank " + std::to_string(held->rank()) + " of " +
                     std::to_string(held->world()) +
                     "; another world on the same core is not supported",
                 base::Fault::kUnsupported);
  }
  auto made = Communicator::create(position_of(core), rank, world, core_count());
  if (!made) return made.error();
  held = *made;
  return held;
}

void Runtime::stop_waiting() {
  for (const std::unique_ptr<Core>& core : cores_) core->closing = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [vnc, communicator] : communicators_) {
    communicator->abandon("the runtime is being closed");
  }
}

base::Result<std::shared_ptr<Model>> Runtime::load(base::ConstByteSpan file, int32_t vnc,
                                                   const neff::CollectiveContext& context) {
  const std::lock_guard<std::mutex> load_lock(load_mutex_);
  auto chosen = vnc < 0 ? base::Result<Core*>(&least_loaded()) : core(vnc);
  if (!chosen) return chosen.error();
  neff::LoadOptions options;
  options.verify_hash = environment_flag("NEURON_RT_VALIDATE_HASH", false);
  options.allow_legacy = environment_flag("NEURON_RT_ALLOW_LEGACY_NEFF", false);
  options.target_core_version = static_cast<unsigned>(map().gen);
  options.target_lnc = lnc_;
  options.available_cores = core_count() * lnc_;
  auto neff = neff::load(file, options);
  if (!neff) {
    (*chosen)->device().count_status((*chosen)->nc(), status_of(neff.error()));
    return neff.error();
  }
  for (const std::string& warning : neff->warnings) {
    log(LogLevel::kWarn, Component::kNmgr, "kmgr_load_nn", "%s", warning.c_str());
  }
  if (base::Status s = neff::check_context(*neff, context); !s.ok()) return s.error();
  LoadContext where;
  where.model_id = next_model_++;
  where.name = neff->header.name;
  if (context.present && neff->has_collectives()) {
    auto made = communicator(**chosen, context.rank, context.world_size);
    if (!made) return made.error();
    where.communicator = *made;
  }
  auto program = LoadedProgram::load(**chosen, std::move(*neff), where);
  if (!program) {
    (*chosen)->device().count_status((*chosen)->nc(), status_of(program.error()));
    return program.error();
  }
  if (const auto directory = read_inspect_directory()) {
    if (base::Status s = write_listing(**program, *directory); !s.ok()) {
      log(LogLevel::kWarn, Component::kNmgr, "inspect", "%s", s.error().message().c_str());
    }
  }
  ++(*chosen)->loaded_models;
  auto model = std::make_shared<Model>(where.model_id, where.name, read_execution_timeout(),
                                       **chosen, std::move(*program));
  models_.erase(std::remove_if(models_.begin(), models_.end(),
                               [](const auto& entry) { return entry.expired(); }),
                models_.end());
  models_.push_back(model);
  return model;
}

}  // namespace nrt
