// Which processors and cores of this machine the process may use. Only reads the system; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace billow::cpu {

// Returns the processors that affinity allows, in ascending order; none if the system refuses.
std::vector<int> allowed_cpus();

// Returns the physical cores of these processors. A processor of unknown topology counts as a core.
size_t physical_cores(const std::vector<int>& cpus, const std::string& root = "");

// Returns the physical cores among the processors that affinity allows, at least 1. The quotas of
// the process's control groups, of both versions, limit the result. `root` is the folder that
// contains /proc and /sys.
int usable_cores(const std::string& root = "");

// Returns the cores that a quota and its period allow, rounded up; 0: no limit. `cpu_max` has the
// format of cgroup v2's "cpu.max": "200000 100000", or "max 100000" for no limit. Version 1 has
// two files, for quota and period, and the quota -1 for no limit. Any other text means no limit.
int cores_of_quota(const std::string& cpu_max);

}  // namespace billow::cpu
