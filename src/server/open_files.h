// The limit of open files.
#pragma once

#include <cstddef>

namespace billow::server {

// The most files that raise_open_file_limit() allows. Some programs look at every possible file
// descriptor when they start, and the limit of a container can be a billion.
inline constexpr size_t kMaxOpenFiles = size_t{1} << 20;

// Raises the soft limit of open files of this process to its hard limit, or to kMaxOpenFiles. Never
// lowers it. Programs that this process starts inherit the limit. Writes a line to the log if the
// system refuses. Thread-safe.
void raise_open_file_limit();

}  // namespace billow::server
