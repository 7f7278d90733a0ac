#include "base/error.h"

namespace base {

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kConfig:
      return "config";
    case Fault::kUsage:
      return "usage";
    case Fault::kProgram:
      return "program";
    case Fault::kUndefined:
      return "undefined";
    case Fault::kUnsupported:
      return "unsupported";
    case Fault::kResource:
      return "resource";
    case Fault::kIo:
      return "io";
    case Fault::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace base
