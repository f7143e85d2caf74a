// Returns how much of this machine's memory the process may use. Only reads the system; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::cpu {

// Returns the min, in bytes, of the machine's memory and the limits of the process's control groups
// of both versions. If the system does not overcommit memory (vm.overcommit_memory=2), its commit
// limit counts, too. Returns SIZE_MAX if the system reports nothing. `root` is the folder that
// contains /proc and /sys.
size_t usable_memory(const std::string& root = "");

// Returns the bytes in the line `name` ("MemTotal") of the text of /proc/meminfo; SIZE_MAX if there
// is no such line.
size_t memory_of_meminfo(const std::string& meminfo, std::string_view name);

// Returns the bytes that a line of "memory.max" or "memory.limit_in_bytes" allows; SIZE_MAX for
// "max" and for a text that is not a number.
size_t memory_of_limit(const std::string& line);

}  // namespace billow::cpu
