#include "store/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace billow::store {
namespace {

namespace fs = std::filesystem;

bool says_absent(int error_number) noexcept {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG;
}

FileStatus status_of(const struct stat& status) {
  const auto time = [](const timespec& since) {
    return Time(std::chrono::seconds(since.tv_sec) + std::chrono::nanoseconds(since.tv_nsec));
  };
  return {.size_bytes = status.st_size > 0 ? static_cast<uint64_t>(status.st_size) : 0,
          .disk_bytes = static_cast<uint64_t>(status.st_blocks) * 512,
          .modified = time(status.st_mtim),
          .changed = time(status.st_ctim)};
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
  std::optional<RegularFile> file;
  try {
    file.emplace(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return std::nullopt;
    throw;
  }
  std::string bytes;
  char part[16384];
  while (const size_t n = file->read_at(bytes.size(), std::as_writable_bytes(std::span(part)))) {
    bytes.append(part, n);
    if (bytes.size() > max_bytes) {
      throw Error(ErrorCode::kTooLarge,
                  path + ": has more than " + std::to_string(max_bytes) + " bytes");
    }
  }
  return FileContent{std::move(bytes), status_of(file->status())};
}

std::vector<Child> typed_children(const std::string& folder, std::vector<std::string>* unreadable) {
  std::vector<Child> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code unknown;
    found.push_back({at->path().filename().string(), at->is_directory(unknown)});
  }
  if (failed && !says_absent(failed.value()) && unreadable) unreadable->push_back(folder);
  std::ranges::sort(found, {}, &Child::name);
  return found;
}

std::vector<std::string> children(const std::string& folder) {
  std::vector<std::string> names;
  for (Child& child : typed_children(folder)) names.push_back(std::move(child.name));
  return names;
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

int why_not_listed(const std::string& folder) {
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  return failed.value();
}

int why_not_writable(const std::string& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

UnwrittenFile::UnwrittenFile(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)) {
  if (fd_ >= 0) is_written_ = ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

UnwrittenFile::~UnwrittenFile() {
  if (fd_ >= 0) ::close(fd_);
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
