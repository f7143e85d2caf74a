// The environment variables of this process.
#pragma once

#include <unistd.h>

namespace billow::process {

// Returns the "NAME=VALUE" entries, ended by nullptr. They are valid until a variable is set or
// removed. Meanwhile, no thread may change a variable.
//
// `__environ` is the name that glibc itself uses. Use it instead of `environ`: in the portable
// program the linker does not know that the two names are one variable, so `environ` stays nullptr.
inline char** environment() { return ::__environ; }

}  // namespace billow::process
