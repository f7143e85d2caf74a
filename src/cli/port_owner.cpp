#include "cli/port_owner.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListens = "0A";  // the state of a listening socket in /proc/net/tcp

// Adds the inodes of the sockets that listen on the port. `path` is a table like /proc/net/tcp:
// "0: 0100007F:2CAA 00000000:0000 0A ... inode ...".
void add_inodes(const std::string& path, uint16_t port, std::vector<std::string>& inodes) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // skips the names of the columns
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    columns >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || state != kListens) continue;
    unsigned found = 0;
    const char* end = local.data() + local.size();
    if (std::from_chars(local.data() + colon + 1, end, found, 16).ptr == end && found == port)
      inodes.push_back(inode);
  }
}

bool has_socket(const fs::path& process, const std::vector<std::string>& inodes) {
  std::error_code failed;
  for (fs::directory_iterator file(process / "fd", failed), end; !failed && file != end;
       file.increment(failed)) {
    std::error_code unreadable;
    const std::string target = fs::read_symlink(file->path(), unreadable).string();
    for (const std::string& inode : inodes)
      if (!unreadable && target == "socket:[" + inode + "]") return true;
  }
  return false;
}

}  // namespace

std::optional<PortOwner> owner_of_port(uint16_t port, const std::string& root) {
  std::vector<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"})
    add_inodes(root + table, port, inodes);
  if (inodes.empty()) return std::nullopt;
  std::error_code failed;
  for (fs::directory_iterator process(root + "/proc", failed), end; !failed && process != end;
       process.increment(failed)) {
    const std::string name = process->path().filename().string();
    pid_t pid = 0;
    const char* last = name.data() + name.size();
    if (std::from_chars(name.data(), last, pid).ptr != last || !has_socket(process->path(), inodes))
      continue;
    std::string program;
    std::ifstream file(process->path() / "comm");
    std::getline(file, program);
    return PortOwner{pid, program};
  }
  return PortOwner{};
}

}  // namespace billow::cli
