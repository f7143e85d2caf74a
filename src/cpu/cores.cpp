#include "cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace billow::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Two hardware threads of one core name the same siblings.
int physical_cores_of_affinity() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  int n_unknown = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string siblings = first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                            "/topology/thread_siblings_list");
    if (siblings.empty()) ++n_unknown;
    if (!siblings.empty()) cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()) + n_unknown);
}

// The cgroup v2 path of this process ("0::/path"), or "" when there is none.
std::string cgroup_path() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "";
}

}  // namespace

int cores_of_quota(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  long quota = 0;
  long period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min(1L << 16, (quota - 1) / period + 1));
}

int usable_cores() {
  int n = physical_cores_of_affinity();
  // A container sees its own group at the root; a plain process needs its path, and every parent
  // counts.
  for (std::string path = cgroup_path();; path.resize(path.find_last_of('/'))) {
    const int quota = cores_of_quota(first_line("/sys/fs/cgroup" + path + "/cpu.max"));
    if (quota > 0) n = std::min(n, quota);
    if (path.find('/') == std::string::npos) break;
  }
  return std::max(1, n);
}

}  // namespace billow::cpu
