// Reads the limits of this process's control groups, from the files of both cgroup versions. Only
// reads the system; any thread.
#pragma once

#include <string>
#include <vector>

namespace billow::cpu {

// Returns the first line of a file; "" if the file is empty or cannot be read.
std::string first_line(const std::string& path);

// Returns the group in the text of /proc/self/cgroup. If `controller` is empty, this is the group
// of version 2 ("0::/path"), otherwise that of version 1 ("4:memory:/path"). Returns "" if there is
// none, which means the root.
std::string group_path(const std::string& text, const std::string& controller);

// Returns the first line of file `name` in this process's group and in every group above it,
// because each of them may set a limit. `root` is the folder that contains /proc and /sys.
std::vector<std::string> group_lines(const std::string& root, const std::string& controller,
                                     const std::string& name);

}  // namespace billow::cpu
