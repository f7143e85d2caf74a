// How much of this machine the process may use. Pure reads of the system; any thread.
#pragma once

#include <string>

namespace billow::cpu {

// Physical cores among the processors that affinity allows, at most what the quotas of the
// process's control groups, of both versions, pay for; at least 1. `root` is where /proc and /sys
// lie.
int usable_cores(const std::string& root = "");

// Cores that a quota and its period allow, rounded up: "200000 100000", or "max 100000" for no
// limit, as cgroup v2 has it in "cpu.max"; version 1 has the two in files of their own, and -1 for
// no limit. 0 means no limit. Anything else is taken as no limit.
int cores_of_quota(const std::string& cpu_max);

}  // namespace billow::cpu
