#include "base/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"

namespace billow {
namespace {

namespace fs = std::filesystem;

// Suffixes of two files next to a file NAME. NAME.checked records that the content was checked; its
// modification time is the last use. NAME.writing is an unfinished file.
constexpr std::string_view kChecked = ".checked";
constexpr std::string_view kWriting = ".writing";

// Free space to leave on a disk: a tenth, but at most 8 GiB.
constexpr uint64_t kFreePart = 10;
constexpr uint64_t kMaxFree = uint64_t{8} << 30;

std::string number_of_boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(file, line);
  return line;
}

int64_t nanoseconds_of(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Returns a record with a value that changes whenever the content or the name of the file changes.
std::string record_of(const struct stat& status) {
  std::string text = number_of_boot();
  for (const int64_t n : {static_cast<int64_t>(status.st_dev), static_cast<int64_t>(status.st_ino),
                          static_cast<int64_t>(status.st_size), nanoseconds_of(status.st_mtim),
                          nanoseconds_of(status.st_ctim)})
    text += " " + std::to_string(n);
  return text + "\n";
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void remove_file(const std::string& path) {
  ::unlink(path.c_str());
  ::unlink((path + std::string(kChecked)).c_str());
}

// Removes a file unless a process has it open or mapped.
bool remove_unused(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT;
  const bool is_unused = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (is_unused) remove_file(path);
  ::close(fd);
  return is_unused;
}

// Locks an unfinished file. Returns true if this process now has the lock and `fd` is still the
// file at `path`. The system releases the lock when the writer exits.
bool lock(int fd, const std::string& path) {
  struct stat own{};
  struct stat named{};
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &own) == 0 &&
         ::stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino;
}

// Returns the bytes that the unfinished files of running writers reserve, except for `own`. Removes
// those of ended writers.
uint64_t bytes_of_writers(const std::string& folder, const std::string& own) {
  uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (!path.ends_with(kWriting) || path == own) continue;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct stat status{};
    if (lock(fd, path)) {
      ::unlink(path.c_str());
    } else if (::fstat(fd, &status) == 0) {
      sum += static_cast<uint64_t>(status.st_size);
    }
    ::close(fd);
  }
  return sum;
}

}  // namespace

std::vector<FolderFile> files_by_use(const std::string& folder) {
  std::vector<FolderFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (path.ends_with(kChecked) || path.ends_with(kWriting)) continue;
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    FolderFile file = {path, static_cast<uint64_t>(status.st_size), nanoseconds_of(status.st_mtim)};
    struct stat used{};
    if (::stat((path + std::string(kChecked)).c_str(), &used) == 0)
      file.last_use = std::max(file.last_use, nanoseconds_of(used.st_mtim));
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {},
                    [](const FolderFile& file) { return std::pair(file.last_use, file.path); });
  return files;
}

FolderLock::FolderLock(const std::string& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  constexpr int kTries = 100;
  for (int i = 0; fd_ >= 0 && !is_locked_ && i < kTries; ++i) {
    is_locked_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (!is_locked_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string cache_name(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  const uint64_t number = XXH3_64bits(text.data(), text.size());
  std::string name(16, '0');
  for (size_t i = 0; i < name.size(); ++i) name[i] = kDigits[number >> (60 - 4 * i) & 15];
  return name;
}

bool disk_has_room(const std::string& folder, uint64_t n_bytes) {
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) return false;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t to_leave = std::min(uint64_t{disk.f_blocks} * disk.f_frsize / kFreePart, kMaxFree);
  return free >= to_leave && free - to_leave >= n_bytes;
}

std::string CacheFolder::path_of(std::string_view name, std::string_view suffix) const {
  return options_.path + "/" + std::string(name) + std::string(suffix);
}

std::optional<RegularFile> CacheFolder::open(std::string_view name) const {
  if (!is_enabled()) return std::nullopt;
  try {
    RegularFile file(path_of(name));
    (void)::flock(file.fd(), LOCK_SH | LOCK_NB);  // see remove_unused()
    ::utimensat(AT_FDCWD, path_of(name, kChecked).c_str(), nullptr, 0);
    return file;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void CacheFolder::remove(std::string_view name) const {
  if (is_enabled()) remove_file(path_of(name));
}

bool CacheFolder::is_checked(std::string_view name, const RegularFile& file) const {
  return content_of(path_of(name, kChecked)) == record_of(file.status());
}

void CacheFolder::set_checked(std::string_view name, const RegularFile& file) const {
  std::ofstream(path_of(name, kChecked), std::ios::binary) << record_of(file.status());
}

// Removes files until n_bytes more fit. `own` is the path of the caller's unfinished file. Returns
// false if files in use leave no room.
bool CacheFolder::make_room(uint64_t n_bytes, const std::string& own) const {
  // Unfinished files come first: a file that gets its name meanwhile counts twice, but is not
  // missed.
  uint64_t sum = bytes_of_writers(options_.path, own);
  const std::vector<FolderFile> files = files_by_use(options_.path);
  for (const FolderFile& file : files) sum += file.n_bytes;
  const auto fits = [&] {
    return sum <= options_.max_bytes && n_bytes <= options_.max_bytes - sum;
  };
  for (const FolderFile& file : files) {
    if (fits()) return true;
    if (remove_unused(file.path)) sum -= file.n_bytes;
  }
  return fits();
}

std::unique_ptr<CacheFolder::Writer> CacheFolder::write(std::string_view name, uint64_t n_bytes,
                                                        std::string* why) const {
  if (!is_enabled() || n_bytes > options_.max_bytes) {
    *why = format_byte_size(n_bytes) + " is more than the limit of " +
           format_byte_size(options_.max_bytes);
    return nullptr;
  }
  std::error_code error;
  fs::create_directories(options_.path, error);
  if (error) throw system_error("cannot create folder", options_.path, error.value());
  const std::string path = path_of(name, kWriting);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) throw system_error("cannot write", path, errno);
  if (!lock(fd, path)) {
    ::close(fd);
    *why = "another process is writing " + path;
    return nullptr;
  }
  std::unique_ptr<Writer> writer(new Writer(*this, std::string(name), fd));
  if (::ftruncate(fd, 0) != 0) throw system_error("cannot write", path, errno);
  const FolderLock locked(options_.path);
  if (!locked || !make_room(n_bytes, path)) {
    *why = "files in use leave no room in " + options_.path;
    return nullptr;
  }
  if (!disk_has_room(options_.path, n_bytes)) {
    *why = "the disk of " + options_.path + " would be nearly full";
    return nullptr;
  }
  // Reserves the room.
  if (::ftruncate(fd, static_cast<off_t>(n_bytes)) != 0)
    throw system_error("cannot write", path, errno);
  return writer;
}

void CacheFolder::clean(const std::function<bool(const std::string& path)>& is_useless) const {
  if (!is_enabled()) return;
  for (const FolderFile& file : files_by_use(options_.path))
    if (is_useless(file.path)) remove_file(file.path);
  (void)bytes_of_writers(options_.path, {});
}

CacheFolder::Writer::Writer(const CacheFolder& folder, std::string name, int fd)
    : folder_(folder), name_(std::move(name)), path_(folder.path_of(name_, kWriting)), fd_(fd) {}

CacheFolder::Writer::~Writer() {
  if (!is_done_) ::unlink(path_.c_str());
  ::close(fd_);
}

void CacheFolder::Writer::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    n_bytes_ += static_cast<uint64_t>(n);
  }
}

// Does not flush to disk: after a reboot, no file counts as checked. The lock keeps make_room() of
// other writers away from the new file. If a stopped process has the lock, the file gets its name
// without it: the folder is only a cache.
void CacheFolder::Writer::commit() {
  const std::string path = folder_.path_of(name_);
  const FolderLock locked(folder_.options_.path);
  if (::ftruncate(fd_, static_cast<off_t>(n_bytes_)) != 0)
    throw system_error("cannot write", path_, errno);
  if (::rename(path_.c_str(), path.c_str()) != 0) throw system_error("cannot write", path, errno);
  is_done_ = true;
  folder_.set_checked(name_, RegularFile(path));
}

}  // namespace billow
