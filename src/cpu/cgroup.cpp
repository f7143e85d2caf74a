#include "cpu/cgroup.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace billow::cpu {
namespace {

std::string whole_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns whether a list such as "cpu,cpuacct" contains `controller`.
bool names(std::string list, const std::string& controller) {
  std::istringstream words(std::move(list));
  for (std::string word; std::getline(words, word, ',');)
    if (word == controller) return true;
  return false;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string group_path(const std::string& text, const std::string& controller) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : names(controllers, controller))
      return line.substr(second + 1);
  }
  return "";
}

std::vector<std::string> group_lines(const std::string& root, const std::string& controller,
                                     const std::string& name) {
  // If version 1 is mounted, too, version 2 may have a separate mount point.
  const std::vector<std::string> mounts =
      controller.empty() ? std::vector<std::string>{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
                         : std::vector<std::string>{"/sys/fs/cgroup/" + controller};
  std::vector<std::string> lines;
  // In a container, its group is at the root of the mount. Other processes need the path.
  for (std::string path = group_path(whole_text(root + "/proc/self/cgroup"), controller);;
       path.resize(path.find_last_of('/'))) {
    for (const std::string& mount : mounts) {
      const std::string line =
          first_line(std::string(root).append(mount).append(path).append("/").append(name));
      if (!line.empty()) lines.push_back(line);
    }
    if (path.find('/') == std::string::npos) return lines;
  }
}

}  // namespace billow::cpu
