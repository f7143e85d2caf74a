// Where the kernel says what the control groups of this process may use, in both versions of their
// files. Pure reads of the system; any thread.
#pragma once

#include <string>
#include <vector>

namespace billow::cpu {

// "" where the file is empty or cannot be read.
std::string first_line(const std::string& path);

// The group that the text of /proc/self/cgroup names: of version 2 ("0::/path") where `controller`
// is empty, else of version 1 ("4:memory:/path"). "" where there is none, which stands for the
// root.
std::string group_path(const std::string& text, const std::string& controller);

// The first line of file `name` in this process's group and in every group above it, as each of
// them may set a limit. `root` is where /proc and /sys lie.
std::vector<std::string> group_lines(const std::string& root, const std::string& controller,
                                     const std::string& name);

}  // namespace billow::cpu
