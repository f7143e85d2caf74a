#include "gguf/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "base/error.h"

namespace billow::gguf {
namespace {

// Flushes the folder, so that a rename in it is on the disk. Ignores errors: some file systems
// cannot flush a folder.
void flush_folder_of(const std::string& path) noexcept {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::string temporary_path(const std::string& path, const std::string& staging_folder) {
  const std::string suffix = ".partial-" + std::to_string(std::random_device{}());
  if (staging_folder.empty()) return path + suffix;
  return staging_folder + "/" + std::filesystem::path(path).filename().string() + suffix;
}

// Locks the file, so that cleaners of unfinished files see that it has a writer. On file systems
// without locks, the store's cleaner checks the age. Waits while a cleaner inspects the file.
void lock(int fd) noexcept {
  while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
}

// Returns whether a cleaner removed the file before it was locked.
bool is_removed(int fd) noexcept {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

void check_replaceable(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kInvalidInput,
              path + (S_ISDIR(status.st_mode) ? " is a directory" : " is not a regular file") +
                  "; give the path of a file");
}

AtomicFile::AtomicFile(const std::string& path, AtomicFileOptions options)
    : path_(path),
      options_(std::move(options)),
      temporary_(temporary_path(path, options_.staging_folder)) {
  check_replaceable(path);
  begin("create");
  do {
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) throw system_error("cannot create", temporary_, errno);
    lock(fd_);
  } while (is_removed(fd_));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::begin(std::string_view step) const {
  if (options_.before_step) options_.before_step(step);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  begin("write");
  // On Linux, one call writes at most 2 GiB.
  constexpr size_t kPieceBytes = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kPieceBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", temporary_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void AtomicFile::commit() {
  begin("flush");
  if (::fsync(fd_) != 0) throw system_error("cannot write", temporary_, errno);
  begin("rename");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw system_error("cannot rename " + temporary_ + " to", path_, errno);
  }
  // Closes the file only after the rename, because the lock keeps cleaners away. fsync() has
  // already reported any error.
  ::close(fd_);
  fd_ = -1;
  temporary_.clear();
  begin("flush folder");
  flush_folder_of(path_);
}

}  // namespace billow::gguf
