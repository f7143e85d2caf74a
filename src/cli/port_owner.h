// Finds the process that listens on a TCP port of this machine. Reads /proc; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace billow::cli {

struct PortOwner {
  pid_t pid = 0;        // 0: a process of another user, whose files cannot be read
  std::string program;  // its name; empty if `pid` is 0
};

// Returns the process that listens on `port`, on any address; nullopt if none does. `root` is the
// folder that has proc/.
std::optional<PortOwner> owner_of_port(uint16_t port, const std::string& root = "");

}  // namespace billow::cli
