// How much of this machine the process may use. Pure reads of the system; any thread.
#pragma once

#include <string>

namespace billow::cpu {

// Physical cores among the processors that affinity allows, at most what the cgroup's quota pays
// for; at least 1.
int usable_cores();

// Cores that a cgroup v2 "cpu.max" line ("200000 100000", "max 100000") allows, rounded up; 0 means
// no limit. Anything else is taken as no limit.
int cores_of_quota(const std::string& cpu_max);

}  // namespace billow::cpu
