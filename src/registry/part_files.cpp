#include "registry/part_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file_locks.h"
#include "base/log.h"
#include "store/folder.h"
#include "store/partial_download.h"

namespace billow::registry {
namespace {

// After a crash, at most this many bytes of a part are fetched again: 1/50 of the part within these
// limits. One save takes the disk as long as a write of some hundred kilobytes.
constexpr uint64_t kMinSaveBytes = 1 << 20;
constexpr uint64_t kMaxSaveBytes = 8 << 20;
constexpr uint64_t kSaveShare = 50;
constexpr uint64_t kMaxTextBytes = 4096;
constexpr std::chrono::milliseconds kLockPause{20};

[[noreturn]] void throw_system(const std::string& path, const char* what) {
  throw Error(ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno));
}

// Returns the text of a part, padded with spaces. All records have the same size, so that one write
// can replace a record.
constexpr size_t kRecordBytes = 160;
std::string record_of(size_t index, const Part& part) {
  std::string text = to_text(index, part);
  text.resize(std::max(text.size(), kRecordBytes), ' ');
  return text;
}

bool write_in_one_call(int fd, const std::string& text) {
  return ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

// Replaces a file atomically: if the program crashes, the file has either the old or the new text.
// If the file cannot be written, the temporary file is removed.
void write_text(const std::string& path, const std::string& temporary, const std::string& text) {
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_system(temporary, "cannot be written");
  const bool is_written = write_in_one_call(fd, text);
  const bool is_closed = ::close(fd) == 0;
  if (is_written && is_closed && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  errno = error;
  throw_system(path, "cannot be written");
}

// Overwrites a file that has a text of the same size. Returns false if there is no such file.
bool overwrite_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat status{};
  const bool fits = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<size_t>(status.st_size) == text.size();
  const bool is_written = fits && write_in_one_call(fd, text);
  return ::close(fd) == 0 && is_written;
}

struct OpenFile {
  int fd = -1;
  bool is_new = false;
};

OpenFile open_or_make(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC;
  int fd = ::open(path.c_str(), kFlags | O_EXCL, 0644);
  const bool is_new = fd >= 0;
  if (fd < 0 && errno == EEXIST) fd = ::open(path.c_str(), kFlags, 0644);
  if (fd < 0) throw_system(path, "cannot be written");
  return {.fd = fd, .is_new = is_new};
}

void warn_of_no_locks(const std::string& path, int error) {
  static std::once_flag warned;
  std::call_once(warned, [&] {
    log::warn(path + ": cannot be locked: " + std::strerror(error) +
              "; downloads are not locked against other servers on this store");
  });
}

// Waits for the lock of a file. Returns 0 or an errno value; ECANCELED if `stop` is set.
int await_lock(int fd, const LockFile& lock, const std::stop_token& stop) {
  for (;;) {
    const int error = lock(fd);
    if (error != EINTR && error != EWOULDBLOCK) return error;
    if (stop.stop_requested()) return ECANCELED;
    std::this_thread::sleep_for(kLockPause);
  }
}

// Opens and locks a file. Waits while another program has the file locked. If that program has
// moved or removed the file in the meantime, creates a new file.
int open_locked(const std::string& path, const LockFile& lock, const std::stop_token& stop) {
  for (;;) {
    const OpenFile file = open_or_make(path);
    int error = await_lock(file.fd, lock, stop);
    if (means_no_locks(error)) {
      warn_of_no_locks(path, error);
      error = 0;
    }
    struct stat mine{};
    struct stat named{};
    if (error == 0 && ::fstat(file.fd, &mine) != 0) error = errno;
    const bool is_current = error == 0 && ::stat(path.c_str(), &named) == 0 &&
                            named.st_ino == mine.st_ino && named.st_dev == mine.st_dev;
    if (is_current) return file.fd;
    ::close(file.fd);
    if (error == 0) continue;
    if (error == ECANCELED)
      throw Error(ErrorCode::kIo, path + ": cancelled while another program uses it");
    if (file.is_new) ::unlink(path.c_str());
    errno = error;
    throw_system(path, "cannot be locked");
  }
}

}  // namespace

int lock_file(int fd) noexcept { return ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

PartFiles::PartFiles(const std::string& folder, const store::Digest& digest, uint64_t n_bytes,
                     PartSizes sizes, const std::stop_token& stop, const LockFile& lock)
    : folder_(folder),
      path_(folder + "/" + digest.file_name() + std::string(store::kPartialSuffix)),
      temporary_(folder + "/" + digest.file_name() + std::string(store::kWritingSuffix)),
      n_bytes_(n_bytes),
      sizes_(sizes),
      fd_(open_locked(path_, lock, stop)) {
  try {
    remove_files(temporary_);  // A program that was killed may have left some.
    auto resumed = resumed_parts(found(), n_bytes);
    const off_t size = ::lseek(fd_, 0, SEEK_END);
    if (resumed && size == static_cast<off_t>(n_bytes)) {
      parts_ = *std::move(resumed);
      for (const Part& part : parts_) saved_.push_back(part.completed);
    } else {
      restart(false);
    }
  } catch (...) {
    struct stat status{};
    if (::fstat(fd_, &status) == 0 && status.st_blocks == 0) remove();
    ::close(fd_);
    throw;
  }
}

PartFiles::~PartFiles() { ::close(fd_); }

std::vector<IndexedPart> PartFiles::found() const {
  std::vector<IndexedPart> parts;
  const std::string prefix = path_.substr(folder_.size() + 1) + "-";
  for (const std::string& name : store::children(folder_)) {
    if (!name.starts_with(prefix)) continue;
    const auto file = store::read_file(folder_ + "/" + name, kMaxTextBytes);
    const auto part = file ? parse_part(file->bytes) : std::nullopt;
    if (part && name == prefix + std::to_string(part->index)) parts.push_back(*part);
  }
  return parts;
}

void PartFiles::remove_files(const std::string& prefix) const {
  for (const std::string& name : store::children(folder_)) {
    const std::string path = folder_ + "/" + name;
    if (path.starts_with(prefix)) ::unlink(path.c_str());
  }
}

void PartFiles::restart(bool in_one_part) {
  remove_files(path_ + "-");
  // The first call frees the space of the old bytes, which the new bytes need.
  if (::ftruncate(fd_, 0) != 0 || ::ftruncate(fd_, static_cast<off_t>(n_bytes_)) != 0)
    throw_system(path_, "cannot be written");
  parts_ = in_one_part ? std::vector<Part>{{.offset = 0, .size = n_bytes_}}
                       : plan_parts(n_bytes_, sizes_);
  saved_.assign(parts_.size(), 0);
  for (size_t i = 0; i < parts_.size(); ++i) write_part(i);
}

void PartFiles::write(size_t index, std::span<const char> bytes) {
  Part& part = parts_[index];
  if (bytes.size() > part.size - part.completed)
    throw Error(ErrorCode::kInvalidInput, path_ + ": received more bytes than requested");
  while (!bytes.empty()) {
    const auto at = static_cast<off_t>(part.offset + part.completed);
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_system(path_, "cannot be written");
    part.completed += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  const uint64_t n_may_lose = std::clamp(part.size / kSaveShare, kMinSaveBytes, kMaxSaveBytes);
  if (part.completed - saved_[index] >= n_may_lose) save(index);
}

void PartFiles::save(size_t index) {
  if (saved_[index] == parts_[index].completed) return;
  write_part(index);
  saved_[index] = parts_[index].completed;
}

void PartFiles::write_part(size_t index) const {
  const std::string number = std::to_string(index);
  const std::string path = path_ + "-" + number;
  const std::string text = record_of(index, parts_[index]);
  // Creating and renaming a file takes a disk much longer than a write.
  if (!overwrite_text(path, text)) write_text(path, temporary_ + number, text);
}

void PartFiles::begin_flush(uint64_t first, uint64_t end) const noexcept {
  // The call only saves time. If the call fails, commit() does all the work.
  ::sync_file_range(fd_, static_cast<off_t>(first), static_cast<off_t>(end - first),
                    SYNC_FILE_RANGE_WRITE);
}

void PartFiles::commit(const std::string& blob_path) {
  if (::fsync(fd_) != 0) throw_system(path_, "cannot be written");
  if (::rename(path_.c_str(), blob_path.c_str()) != 0) throw_system(blob_path, "cannot be created");
  remove_files(path_ + "-");
  store::flush_folder(folder_);
}

void PartFiles::remove() {
  ::unlink(path_.c_str());
  remove_files(path_ + "-");
}

}  // namespace billow::registry
