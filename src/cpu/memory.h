// How much of this machine's memory the process may use. Pure reads of the system; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::cpu {

// Bytes: the least of the machine's memory, the limits of the process's control groups, of both
// versions, and, where the system promises no more than it has (vm.overcommit_memory=2), all that
// it promises; SIZE_MAX where the system says nothing. `root` is where /proc and /sys lie.
size_t usable_memory(const std::string& root = "");

// Bytes of the line `name` ("MemTotal") in the text of /proc/meminfo; SIZE_MAX where it is not
// there.
size_t memory_of_meminfo(const std::string& meminfo, std::string_view name);

// Bytes that a line of "memory.max" or "memory.limit_in_bytes" allows; SIZE_MAX for "max" and for
// what is no number.
size_t memory_of_limit(const std::string& line);

}  // namespace billow::cpu
