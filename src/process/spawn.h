// Starting a program, with nothing of ours but what it is given.
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

// Starts `command`, a path and its arguments, with no other files than the standard ones, with
// signals as they are by default, and in a process group of its own. The caller reaps it. Throws
// Error. Any thread.
pid_t spawn(std::vector<std::string> command, const SpawnFiles& files);

}  // namespace billow::process
