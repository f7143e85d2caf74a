#include "scheduler/runner_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace billow::scheduler {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "billow-runners-";
// Max length of a socket's path, minus the part after the parent.
constexpr size_t kMaxParentBytes = 107 - 40;

bool is_usable(const std::string& parent) {
  return !parent.empty() && parent.size() <= kMaxParentBytes &&
         ::access(parent.c_str(), W_OK | X_OK) == 0;
}

std::string usual_parent() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && is_usable(runtime)) return runtime;
  std::error_code ignored;
  const std::string temporary = fs::temp_directory_path(ignored).string();
  return is_usable(temporary) ? temporary : "/tmp";
}

int open_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// Servers of version 0.1 locked this file instead of the folder.
bool has_locked_file(const fs::path& folder) {
  const int file = ::open((folder / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const bool is_locked = ::flock(file, LOCK_EX | LOCK_NB) != 0;
  ::close(file);
  return is_locked;
}

// Removes the folder if no server uses it. Keeps links and folders of other users. Holds the lock
// meanwhile, so that a server that has just made the folder sees that it is removed.
void remove_if_stale(const fs::path& folder) {
  const int lock = open_folder(folder);
  if (lock < 0) return;
  struct stat status{};
  const bool is_stale = ::fstat(lock, &status) == 0 && status.st_uid == ::geteuid() &&
                        ::flock(lock, LOCK_EX | LOCK_NB) == 0 && !has_locked_file(folder);
  std::error_code ignored;
  if (is_stale) fs::remove_all(folder, ignored);
  ::close(lock);
}

void remove_stale(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with(kPrefix)) remove_if_stale(path);
  }
}

// Returns whether the open folder is still at its path.
bool is_at(int folder, const std::string& path) {
  struct stat ours{};
  struct stat there{};
  return ::fstat(folder, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

// Returns the lock of a new folder, or -1 if another server removed the folder as stale.
int take_lock(const std::string& folder) {
  const int lock = open_folder(folder);
  if (lock < 0) {
    if (errno == ENOENT) return -1;
    throw system_error("cannot open", folder, errno);
  }
  while (::flock(lock, LOCK_EX) != 0 && errno == EINTR) {
  }
  if (is_at(lock, folder)) return lock;
  ::close(lock);
  return -1;
}

}  // namespace

RunnerFolder::RunnerFolder(const std::string& parent) {
  const std::string chosen = parent.empty() ? usual_parent() : parent;
  remove_stale(chosen);
  while (lock_ < 0) {
    path_ = chosen + "/" + kPrefix + "XXXXXX";
    // mkdtemp() creates a folder that only this user can read.
    if (::mkdtemp(path_.data()) == nullptr)
      throw system_error("cannot create a folder for runners in", chosen, errno);
    lock_ = take_lock(path_);
  }
}

bool RunnerFolder::exists() const { return is_at(lock_, path_); }

RunnerFolder::~RunnerFolder() {
  std::error_code ignored;
  if (exists()) fs::remove_all(path_, ignored);
  ::close(lock_);
}

}  // namespace billow::scheduler
