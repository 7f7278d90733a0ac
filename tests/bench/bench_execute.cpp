// Executes a NEFF again and again on data that are not zero: bench_execute FILE.neff TIMES. What
// one execution costs is the difference between runs with more and with fewer.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

bool fine(NRT_STATUS status, const char* what) {
  if (status != NRT_SUCCESS) {
    std::fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  }
  return status == NRT_SUCCESS;
}

bool place(const nrt_tensor_info_t& info, nrt_tensor_set_t* set) {
  // Ones of bfloat16, two of which are a float32 a little above one.
  const std::vector<uint16_t> ones(info.size / sizeof(uint16_t), 0x3F80);
  nrt_tensor_t* tensor = nullptr;
  return fine(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info.size, info.name, &tensor),
              info.name) &&
         fine(nrt_tensor_write(tensor, ones.data(), 0, ones.size() * sizeof(uint16_t)),
              info.name) &&
         fine(nrt_add_tensor_to_tensor_set(set, info.name, tensor), info.name);
}

bool execute(const std::vector<char>& file, int times) {
  nrt_model_t* model = nullptr;
  nrt_tensor_info_array_t* info = nullptr;
  nrt_tensor_set_t* in = nullptr;
  nrt_tensor_set_t* out = nullptr;
  if (!fine(nrt_load(file.data(), file.size(), 0, 1, &model), "nrt_load") ||
      !fine(nrt_get_model_tensor_info(model, &info), "nrt_get_model_tensor_info") ||
      !fine(nrt_allocate_tensor_set(&in), "set") || !fine(nrt_allocate_tensor_set(&out), "set")) {
    return false;
  }
  for (uint64_t i = 0; i < info->tensor_count; ++i) {
    const nrt_tensor_info_t& tensor = info->tensor_array[i];
    if (!place(tensor, tensor.usage == NRT_TENSOR_USAGE_INPUT ? in : out)) return false;
  }
  for (int i = 0; i < times; ++i) {
    if (!fine(nrt_execute(model, in, out), "nrt_execute")) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream stream(argc == 3 ? argv[1] : "", std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  if (file.empty()) {
    std::fprintf(stderr, "usage: %s FILE.neff TIMES\n", argv[0]);
    return 2;
  }
  if (!fine(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init")) return 1;
  const bool ok = execute(file, std::atoi(argv[2]));
  nrt_close();
  return ok ? 0 : 1;
}
