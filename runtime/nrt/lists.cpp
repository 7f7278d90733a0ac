#include "runtime/nrt/lists.h"

#include <cstdlib>
#include <cstring>

#include "runtime/nrt/status.h"

namespace nrt {

base::Status copy_list(const std::vector<std::string>& names, const char*** list, size_t* count) {
  if (list == nullptr || count == nullptr) return error(NRT_INVALID, "A required pointer is NULL");
  // One extra element: an empty list is not NULL.
  auto** array = static_cast<const char**>(std::calloc(names.size() + 1, sizeof(char*)));
  if (array == nullptr) return error(NRT_RESOURCE, "Out of host memory");
  for (size_t i = 0; i < names.size(); ++i) {
    array[i] = strdup(names[i].c_str());
    if (array[i] == nullptr) {
      free_list(array, i);
      return error(NRT_RESOURCE, "Out of host memory");
    }
  }
  *list = array;
  *count = names.size();
  return {};
}

void free_list(const char** list, size_t count) {
  if (list == nullptr) return;
  for (size_t i = 0; i < count; ++i) std::free(const_cast<char*>(list[i]));
  std::free(list);
}

}  // namespace nrt
