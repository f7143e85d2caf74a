// Starts a program that inherits only the given files.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace billow::process {

// File descriptors; -1 is /dev/null.
struct SpawnFiles {
  int output = -1;
  int error = -1;
};

// Starts `command`, a path and its arguments. The program gets the standard file descriptors only,
// default signal handling and a new process group. The caller reaps the process. Throws Error.
// Thread-safe.
pid_t spawn(std::vector<std::string> command, const SpawnFiles& files);

}  // namespace billow::process
