#include "cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cgroup.h"

namespace billow::cpu {
namespace {

// Returns the quotas of this process's group and of all groups above it, in the format of
// "cpu.max". A group of version 1 has both files.
std::vector<std::string> quotas(const std::string& root) {
  std::vector<std::string> lines = group_lines(root, "", "cpu.max");
  const std::vector<std::string> first = group_lines(root, "cpu", "cpu.cfs_quota_us");
  const std::vector<std::string> second = group_lines(root, "cpu", "cpu.cfs_period_us");
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i)
    lines.push_back(std::string(first[i]).append(" ").append(second[i]));
  return lines;
}

}  // namespace

std::vector<int> allowed_cpus() {
  // The system refuses a mask that is smaller than its own.
  constexpr size_t kMaxCpus = 1 << 20;
  std::vector<int> cpus;
  for (size_t n = CPU_SETSIZE; n <= kMaxCpus; n *= 2) {
    std::vector<cpu_set_t> allowed(n / CPU_SETSIZE);
    const size_t n_bytes = allowed.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, n_bytes, allowed.data()) != 0) {
      if (errno == EINVAL) continue;
      return cpus;
    }
    for (size_t cpu = 0; cpu < n; ++cpu)
      if (CPU_ISSET_S(cpu, n_bytes, allowed.data())) cpus.push_back(static_cast<int>(cpu));
    return cpus;
  }
  return cpus;
}

// Two hardware threads of one core have the same list of siblings.
size_t physical_cores(const std::vector<int>& cpus, const std::string& root) {
  std::set<std::string> cores;
  size_t n_unknown = 0;
  for (const int cpu : cpus) {
    std::string siblings = first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                      "/topology/thread_siblings_list");
    if (siblings.empty()) {
      ++n_unknown;
    } else {
      cores.insert(std::move(siblings));
    }
  }
  return cores.size() + n_unknown;
}

int cores_of_quota(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  long quota = 0;
  long period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min(1L << 16, (quota - 1) / period + 1));
}

int usable_cores(const std::string& root) {
  int n = static_cast<int>(physical_cores(allowed_cpus(), root));
  for (const std::string& line : quotas(root)) {
    const int quota = cores_of_quota(line);
    if (quota > 0) n = std::min(n, quota);
  }
  return std::max(1, n);
}

}  // namespace billow::cpu
