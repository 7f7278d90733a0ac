// A kernel that is written, loaded with libnrt and executed twice, and what comes out compared byte
// by byte.
#pragma once

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <soma/kernel.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kernel_case {

using kernel::Kernel;
using Bytes = std::vector<uint8_t>;
using Tensors = std::map<std::string, Bytes>;

template <typename T>
Bytes bytes_of(const std::vector<T>& data) {
  Bytes out(data.size() * sizeof(T));
  std::memcpy(out.data(), data.data(), out.size());
  return out;
}

struct Case {
  std::function<void(Kernel&)> write;
  Tensors inputs;
  Tensors expected;  // outputs, which hold 0xEE before
  NRT_STATUS status = NRT_SUCCESS;
};

inline bool fine(NRT_STATUS status, NRT_STATUS expected, const char* what) {
  if (status != expected) std::fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  return status == expected;
}

inline bool execute(nrt_model_t* model, const Case& test) {
  nrt_tensor_set_t* sets[2] = {};
  std::map<std::string, nrt_tensor_t*> tensors;
  bool ok = fine(nrt_allocate_tensor_set(&sets[0]), NRT_SUCCESS, "set") &&
            fine(nrt_allocate_tensor_set(&sets[1]), NRT_SUCCESS, "set");
  for (const Tensors* side : {&test.inputs, &test.expected}) {
    for (const auto& [name, bytes] : *side) {
      const Bytes before = side == &test.inputs ? bytes : Bytes(bytes.size(), 0xEE);
      nrt_tensor_t*& t = tensors[name];
      ok = ok &&
           fine(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes.size(), name.c_str(), &t),
                NRT_SUCCESS, name.c_str()) &&
           fine(nrt_add_tensor_to_tensor_set(sets[side == &test.expected], name.c_str(), t),
                NRT_SUCCESS, name.c_str()) &&
           fine(nrt_tensor_write(t, before.data(), 0, before.size()), NRT_SUCCESS, name.c_str());
    }
  }
  ok = ok && fine(nrt_execute(model, sets[0], sets[1]), test.status, "nrt_execute");
  for (const auto& [name, bytes] : test.expected) {
    Bytes got(bytes.size());
    if (!ok || test.status != NRT_SUCCESS) break;
    ok = fine(nrt_tensor_read(tensors[name], got.data(), 0, got.size()), NRT_SUCCESS, "read");
    for (size_t i = 0; i < got.size() && ok; ++i) {
      if (got[i] == bytes[i]) continue;
      std::fprintf(stderr, "%s: byte %zu is %u, not %u\n", name.c_str(), i, got[i], bytes[i]);
      ok = false;
    }
  }
  for (auto& [name, t] : tensors) nrt_tensor_free(&t);
  for (nrt_tensor_set_t*& set : sets) nrt_destroy_tensor_set(&set);
  return ok;
}

inline bool run(const Case& test, kernel::Generation generation) {
  Kernel k({"case", generation});
  test.write(k);
  const base::Result<std::vector<uint8_t>> file = k.finish();
  if (!file) {
    std::fprintf(stderr, "%s\n", file.error().message().c_str());
    return false;
  }
  nrt_model_t* model = nullptr;
  bool ok = fine(nrt_load(file->data(), file->size(), -1, -1, &model), NRT_SUCCESS, "nrt_load");
  // Twice: rings go on where they were, and tensors are bound anew.
  for (int i = 0; i < 2 && ok; ++i) ok = execute(model, test);
  return model == nullptr || fine(nrt_unload(model), NRT_SUCCESS, "nrt_unload") ? ok : false;
}

// Runs all cases, or the one that is named. The exit status of the program: 0 right, 1 wrong data
// or a failed call, 2 wrong usage.
inline int run_all(const std::map<std::string, Case>& cases, const std::string& name,
                   kernel::Generation generation) {
  if (!name.empty() && cases.count(name) == 0) {
    std::fprintf(stderr, "there is no case %s\n", name.c_str());
    return 2;
  }
  if (!fine(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS, "nrt_init")) return 1;
  int failed = 0;
  for (const auto& [each, test] : cases) {
    if (!name.empty() && name != each) continue;
    const bool right = run(test, generation);
    std::printf("%s: %s\n", each.c_str(), right ? "right" : "wrong");
    failed += right ? 0 : 1;
  }
  nrt_close();
  return failed == 0 ? 0 : 1;
}

}  // namespace kernel_case
