// Executes a NEFF, COUNT times, on each of the first CORES cores at the same time; its tensors hold
// what memory holds:   execute_neff FILE.neff CORES COUNT
// Exit status: 0 executed, 1 a call failed, 2 wrong usage.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace {

bool fine(NRT_STATUS status, const char* what) {
  if (status != NRT_SUCCESS) std::fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
  return status == NRT_SUCCESS;
}

struct Loaded {
  nrt_model_t* model = nullptr;
  nrt_tensor_set_t* sets[2] = {};
  std::vector<nrt_tensor_t*> tensors;
};

bool load(const std::vector<char>& file, int core, Loaded* out) {
  nrt_tensor_info_array_t* info = nullptr;
  if (!fine(nrt_load(file.data(), file.size(), core, 1, &out->model), "nrt_load") ||
      !fine(nrt_allocate_tensor_set(&out->sets[0]), "nrt_allocate_tensor_set") ||
      !fine(nrt_allocate_tensor_set(&out->sets[1]), "nrt_allocate_tensor_set") ||
      !fine(nrt_get_model_tensor_info(out->model, &info), "nrt_get_model_tensor_info")) {
    return false;
  }
  bool ok = true;
  for (uint64_t i = 0; i < info->tensor_count && ok; ++i) {
    const nrt_tensor_info_t& t = info->tensor_array[i];
    nrt_tensor_t* tensor = nullptr;
    ok = fine(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, t.size, t.name, &tensor),
              t.name) &&
         fine(nrt_add_tensor_to_tensor_set(out->sets[t.usage == NRT_TENSOR_USAGE_OUTPUT], t.name,
                                           tensor),
              t.name);
    out->tensors.push_back(tensor);
  }
  nrt_free_model_tensor_info(info);
  return ok;
}

void release(Loaded* l) {
  for (nrt_tensor_t*& t : l->tensors) nrt_tensor_free(&t);
  for (nrt_tensor_set_t*& set : l->sets) nrt_destroy_tensor_set(&set);
  if (l->model != nullptr) nrt_unload(l->model);
}

bool execute(const std::vector<char>& file, int cores, int count) {
  std::vector<Loaded> loaded(static_cast<size_t>(cores));
  bool ok = true;
  for (int core = 0; core < cores && ok; ++core) {
    ok = load(file, core, &loaded[static_cast<size_t>(core)]);
  }
  for (int i = 0; i < count && ok; ++i) {
    std::vector<std::thread> threads;
    std::vector<char> done(loaded.size());
    for (size_t core = 0; core < loaded.size(); ++core) {
      threads.emplace_back([&, core] {
        const Loaded& l = loaded[core];
        done[core] = fine(nrt_execute(l.model, l.sets[0], l.sets[1]), "nrt_execute") ? 1 : 0;
      });
    }
    for (std::thread& t : threads) t.join();
    for (const char d : done) ok = ok && d != 0;
  }
  for (Loaded& l : loaded) release(&l);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FILE.neff CORES COUNT\n", argv[0]);
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  if (!fine(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init")) return 1;
  const bool ok = execute(file, std::atoi(argv[2]), std::atoi(argv[3]));
  nrt_close();
  return ok ? 0 : 1;
}
