// Exported functions: option objects of inspection and continuous profiling (spec/nrt-api.md 14).
// The objects are complete; capturing profiles is Unsupported, because their file format is not
// public.
#include "runtime/nrt/exports.h"

#include <algorithm>

#include "runtime/nrt/lists.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"

struct nrt_profile_continuous_options {
  std::string output_dir = "./output";
};

struct nrt_inspect_config {
  int session_id = 1;
  std::string output_dir = "./output";
  nrt::TraceConfig trace;
  bool enable = false;
  bool enable_on_fail = false;
  std::vector<bool> activities = std::vector<bool>(4, true);
};

namespace {

using nrt::error;
using nrt::null_argument;

const std::vector<std::string>& activity_names() {
  static const auto* names =
      new std::vector<std::string>{"system_profile", "device_profile", "host_memory", "cpu_util"};
  return *names;
}

// Runs `change` on a non-null object.
template <typename Object, typename Change>
NRT_STATUS configure(const char* function, Object* object, Change&& change) {
  return nrt::call_always(function, [&]() -> base::Status {
    return object == nullptr ? base::Status(null_argument()) : change();
  });
}

base::Status set_directory(std::string* field, const char* directory) {
  if (directory == nullptr || *directory == '\0') {
    return error(NRT_INVALID, "The output directory is NULL or empty");
  }
  *field = directory;
  return {};
}

NRT_STATUS no_profiles(const char* function) {
  return nrt::call(function, [&](nrt::Runtime&) -> base::Status {
    return nrt::unsupported(NRT_FAILURE,
                            "Device and system profile files are not supported; use "
                            "the system trace");
  });
}

}  // namespace

extern "C" {

NRT_STATUS nrt_profile_start(nrt_model_t*, const char*) {
  return no_profiles(__func__);
}
NRT_STATUS nrt_profile_stop(const char*) {
  return no_profiles(__func__);
}
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t*) {
  return no_profiles(__func__);
}
NRT_STATUS nrt_profile_continuous_save(uint32_t, nrt_profile_continuous_options_t*) {
  return no_profiles(__func__);
}
NRT_STATUS nrt_profile_continuous_stop() {
  return nrt::call(__func__, [&](nrt::Runtime&) { return base::Status(); });
}
NRT_STATUS nrt_inspect_begin() {
  return no_profiles(__func__);
}
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t*) {
  return no_profiles(__func__);
}
NRT_STATUS nrt_inspect_stop() {
  return nrt::call(__func__, [&](nrt::Runtime&) { return base::Status(); });
}

NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t** options) {
  return configure(__func__, options, [&]() -> base::Status {
    *options = new nrt_profile_continuous_options;
    return {};
  });
}

NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t* options) {
  delete options;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t* options,
                                                         const char* output_dir) {
  return configure(__func__, options,
                   [&] { return set_directory(&options->output_dir, output_dir); });
}

NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t** options) {
  return configure(__func__, options, [&]() -> base::Status {
    *options = new nrt_inspect_config;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t* options) {
  return configure(__func__, options, [&]() -> base::Status {
    const std::string directory = options->output_dir;  // kept when it was set
    *options = {};
    options->output_dir = directory;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t* options) {
  delete options;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t* options, int session_id) {
  return configure(__func__, options, [&]() -> base::Status {
    options->session_id = session_id;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t* options,
                                             const char* output_dir) {
  return configure(__func__, options,
                   [&] { return set_directory(&options->output_dir, output_dir); });
}

NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(
    nrt_inspect_config_t* options, uint64_t sys_trace_max_events_per_nc) {
  return configure(__func__, options, [&]() -> base::Status {
    if (sys_trace_max_events_per_nc == 0) return error(NRT_INVALID, "The ring size is 0");
    options->trace.max_events_per_nc = sys_trace_max_events_per_nc;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t* options,
                                                         uint32_t nc_idx, bool enabled) {
  return configure(__func__, options, [&]() -> base::Status {
    options->trace.cores[nc_idx] = enabled;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(
    nrt_inspect_config_t* options, const char* event_type, bool enabled) {
  return configure(__func__, options, [&]() -> base::Status {
    if (event_type == nullptr) return null_argument();
    if (!nrt::known_event_type(event_type)) {
      return error(NRT_INVALID, std::string("Unknown event type ") + event_type);
    }
    if (enabled) {
      options->trace.disabled.erase(event_type);
    } else {
      options->trace.disabled.insert(event_type);
    }
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t* options,
                                                 bool enable_inspect) {
  return configure(__func__, options, [&]() -> base::Status {
    options->enable = enable_inspect;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t* options,
                                                         bool enable_inspect_on_fail) {
  return configure(__func__, options, [&]() -> base::Status {
    options->enable_on_fail = enable_inspect_on_fail;
    return {};
  });
}

NRT_STATUS nrt_inspect_config_get_all_activity_types(const char*** activity_types, size_t* count) {
  return nrt::call_always(__func__,
                          [&] { return nrt::copy_list(activity_names(), activity_types, count); });
}

NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t* options,
                                                         const char*** activity_types,
                                                         size_t* count) {
  return configure(__func__, options, [&]() -> base::Status {
    std::vector<std::string> enabled;
    for (size_t i = 0; i < activity_names().size(); ++i) {
      if (options->activities[i]) enabled.push_back(activity_names()[i]);
    }
    return nrt::copy_list(enabled, activity_types, count);
  });
}

void nrt_inspect_config_free_activity_types(const char** activity_types, size_t count) {
  nrt::free_list(activity_types, count);
}

NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t* options, const char* activity_type,
                                           bool enabled) {
  return configure(__func__, options, [&]() -> base::Status {
    if (activity_type == nullptr) return null_argument();
    const std::vector<std::string>& names = activity_names();
    const auto at = std::find(names.begin(), names.end(), activity_type);
    if (std::string(activity_type) == "all") {
      std::fill(options->activities.begin(), options->activities.end(), enabled);
    } else if (at != names.end()) {
      options->activities[static_cast<size_t>(at - names.begin())] = enabled;
    } else {
      return error(NRT_INVALID, std::string("Unknown activity type ") + activity_type);
    }
    return {};
  });
}

}  // extern "C"
