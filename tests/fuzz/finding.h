// How a fuzz target tells of a broken invariant.
#pragma once

namespace fuzz {

// Ends the process with a message.
[[noreturn]] void found(const char* what);

}  // namespace fuzz
