#include "store/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace billow::store {
namespace {

namespace fs = std::filesystem;

bool says_absent(int error_number) noexcept {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG;
}

FileStatus status_of(const struct stat& status) {
  const std::chrono::nanoseconds since = std::chrono::seconds(status.st_mtim.tv_sec) +
                                         std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return {status.st_size > 0 ? static_cast<uint64_t>(status.st_size) : 0, Time(since)};
}

// Reads until the end or until one byte more than allowed.
std::string read_all(int fd, const std::string& path, uint64_t max_bytes) {
  std::string bytes;
  char part[16384];
  for (;;) {
    const ssize_t n = ::read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot read", path, errno);
    if (n == 0) return bytes;
    bytes.append(part, static_cast<size_t>(n));
    if (bytes.size() > max_bytes) {
      throw Error(ErrorCode::kTooLarge, path + ": more than the " + std::to_string(max_bytes) +
                                            " bytes that such a file may have");
    }
  }
}

}  // namespace

std::optional<FileStatus> file_status(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status_of(status);
}

std::optional<FileStatus> entry_status(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return std::nullopt;
  return status_of(status);
}

std::optional<FileContent> read_file(const std::string& path, uint64_t max_bytes) {
  // A pipe in the place of a file must not stop us.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    if (says_absent(errno)) return std::nullopt;
    throw system_error("cannot open", path, errno);
  }
  try {
    struct stat status{};
    if (::fstat(fd, &status) != 0) throw system_error("cannot read", path, errno);
    if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kIo, path + ": not a regular file");
    FileContent content{read_all(fd, path, max_bytes), status_of(status)};
    ::close(fd);
    return content;
  } catch (...) {
    ::close(fd);
    throw;
  }
}

std::vector<std::string> children(const std::string& folder, bool* complete) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  if (failed && !says_absent(failed.value()) && complete) *complete = false;
  std::ranges::sort(names);
  return names;
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_writable(const std::string& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

void make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST && is_folder(folder)) return;
    throw system_error("cannot make folder", folder, errno);
  }
  flush_folder(fs::path(folder).parent_path().string());
}

void flush_folder(const std::string& folder) noexcept {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace billow::store
