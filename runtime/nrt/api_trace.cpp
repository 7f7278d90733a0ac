// Exported functions: system trace and the plain trace built on it (spec/nrt-api.md 15, 16).
#include "runtime/nrt/exports.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "runtime/nrt/lists.h"
#include "runtime/nrt/runtime_state.h"
#include "runtime/nrt/sys_trace.h"

struct nrt_sys_trace_config {
  nrt::TraceConfig config;
};
struct nrt_sys_trace_fetch_options {
  nrt::FetchOptions options;
};

namespace {

using nrt::error;
using nrt::null_argument;

base::Status copy_text(const std::string& text, char** buffer, size_t* size) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (out == nullptr) return error(NRT_RESOURCE, "Out of host memory");
  std::memcpy(out, text.c_str(), text.size() + 1);
  *buffer = out;
  *size = text.size();
  return {};
}

}  // namespace

extern "C" {

NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t** options) {
  return nrt::call_always(__func__, [&]() -> base::Status {
    if (options == nullptr) return null_argument();
    *options = new nrt_sys_trace_config;
    return {};
  });
}

void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t* options) {
  if (options != nullptr) options->config = {};
}

void nrt_sys_trace_config_free(nrt_sys_trace_config_t* options) {
  delete options;
}

void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t* options,
                                                uint64_t max_events_per_nc) {
  if (options != nullptr) options->config.max_events_per_nc = max_events_per_nc;
}

void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t* options,
                                                     uint32_t nc_idx, bool enabled) {
  (void)nrt::call_always(__func__, [&]() -> base::Status {
    if (options != nullptr) options->config.cores[nc_idx] = enabled;
    return {};
  });
}

NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t* options,
                                                                   const char* event_type,
                                                                   bool enabled) {
  return nrt::call_always(__func__, [&]() -> base::Status {
    if (options == nullptr || event_type == nullptr) return null_argument();
    if (!nrt::known_event_type(event_type)) {
      return error(NRT_INVALID, std::string("Unknown event type ") + event_type);
    }
    if (enabled) {
      options->config.disabled.erase(event_type);
    } else {
      options->config.disabled.insert(event_type);
    }
    return {};
  });
}

NRT_STATUS nrt_sys_trace_get_event_types(const char*** event_types, size_t* count) {
  return nrt::call_always(__func__,
                          [&] { return nrt::copy_list(nrt::event_types(), event_types, count); });
}

void nrt_sys_trace_free_event_types(const char** event_types, size_t count) {
  nrt::free_list(event_types, count);
}

NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t* options,
                                                        const char*** event_types, size_t* count) {
  return nrt::call_always(__func__, [&]() -> base::Status {
    if (options == nullptr) return null_argument();
    std::vector<std::string> enabled;
    for (const std::string& type : nrt::event_types()) {
      if (options->config.disabled.count(type) == 0) enabled.push_back(type);
    }
    return nrt::copy_list(enabled, event_types, count);
  });
}

NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t* options) {
  return nrt::call(__func__, [&](nrt::Runtime&) {
    return nrt::sys_trace().start(options == nullptr ? nrt::TraceConfig{} : options->config);
  });
}

NRT_STATUS nrt_sys_trace_stop() {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    nrt::sys_trace().stop();
    return {};
  });
}

NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t** options) {
  return nrt::call_always(__func__, [&]() -> base::Status {
    if (options == nullptr) return null_argument();
    *options = new nrt_sys_trace_fetch_options;
    return {};
  });
}

void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t* options) {
  if (options != nullptr) options->options = {};
}

void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t* options) {
  delete options;
}

void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t* options,
                                                       uint64_t max_events_per_nc) {
  if (options != nullptr) options->options.max_events_per_nc = max_events_per_nc;
}

void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t* options,
                                            uint64_t nc_idx) {
  if (options == nullptr) return;
  options->options.one_core = true;
  options->options.nc_idx = nc_idx;
}

NRT_STATUS nrt_sys_trace_fetch_events(char** buffer, size_t* written_size,
                                      const nrt_sys_trace_fetch_options_t* options) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (buffer == nullptr || written_size == nullptr) return null_argument();
    *buffer = nullptr;
    *written_size = 0;
    auto text = nrt::sys_trace().fetch(options == nullptr ? nrt::FetchOptions{} : options->options);
    return text ? copy_text(*text, buffer, written_size) : base::Status(text.error());
  });
}

void nrt_sys_trace_buffer_free(char* buffer) {
  std::free(buffer);
}

NRT_STATUS nrt_trace_start(bool trace_mem) {
  return nrt::call(__func__, [&](nrt::Runtime&) {
    if (trace_mem) {
      nrt::log(nrt::LogLevel::kWarn, nrt::Component::kNrt, "nrt_trace_start",
               "Allocation records are not supported and are left out");
    }
    return nrt::sys_trace().start({});
  });
}

NRT_STATUS nrt_trace_stop(const char* filename) {
  return nrt::call(__func__, [&](nrt::Runtime&) -> base::Status {
    if (filename == nullptr) return null_argument();
    auto text = nrt::sys_trace().fetch({});
    if (!text) return text.error();
    nrt::sys_trace().stop();
    std::ofstream file(filename, std::ios::trunc);
    file << *text << '\n';
    file.close();
    if (!file) return error(NRT_FAILURE, std::string("Cannot write ") + filename);
    return {};
  });
}

}  // extern "C"
