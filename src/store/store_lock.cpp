#include "store/store_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace billow::store {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{60};
constexpr std::chrono::milliseconds kRetryAfter{5};
// The bytes of the file that are locked.
constexpr int kChangeByte = 0;
constexpr int kMakeByte = 1;

[[noreturn]] void give_up(const char* whom) {
  throw Error(ErrorCode::kIo, std::string("the model store is busy: ") + whom + " for " +
                                  std::to_string(kTimeout.count()) + " s; try again later");
}
constexpr const char* kOtherChange = "another change has been running";
constexpr const char* kOtherRemoval = "a removal of blobs has been running";

}  // namespace

StoreLock::~StoreLock() {
  if (fd_ >= 0) ::close(fd_);
}

void StoreLock::open_file() {
  struct stat status{};
  // If the store was removed, the file was removed, too.
  if (fd_ >= 0 && n_makers_ == 0 && ::fstat(fd_, &status) == 0 && status.st_nlink == 0) {
    ::close(fd_);
    fd_ = -1;
  }
  if (fd_ >= 0) return;
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ >= 0 || warned_) return;
  warned_ = true;
  log::warn("cannot open " + path_ + ": " + std::strerror(errno) +
            "; this server's changes are not locked against other servers on this store");
}

bool StoreLock::set(int byte, short kind) noexcept {
  if (fd_ < 0) return true;
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  while (::fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR) continue;
    return errno != EAGAIN && errno != EACCES;  // file systems without locks always succeed
  }
  return true;
}

void StoreLock::set_in_time(int byte, short kind, const char* whom) {
  for (const auto until = Clock::now() + kTimeout; !set(byte, kind);) {
    if (Clock::now() >= until) give_up(whom);
    std::this_thread::sleep_for(kRetryAfter);
  }
}

void StoreLock::begin_change() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kTimeout, [&] { return !changing_; })) give_up(kOtherChange);
  changing_ = true;
  open_file();
  lock.unlock();
  try {
    set_in_time(kChangeByte, F_WRLCK, kOtherChange);
  } catch (...) {
    end_change();
    throw;
  }
}

void StoreLock::end_change() noexcept {
  const std::scoped_lock lock(mutex_);
  set(kChangeByte, F_UNLCK);
  changing_ = false;
  changed_.notify_all();
}

void StoreLock::begin_making() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kTimeout, [&] { return !removing_; })) give_up(kOtherRemoval);
  if (n_makers_ == 0) {
    open_file();
    set_in_time(kMakeByte, F_RDLCK, kOtherRemoval);
  }
  ++n_makers_;
}

void StoreLock::end_making() noexcept {
  const std::scoped_lock lock(mutex_);
  if (--n_makers_ == 0 && !removing_) set(kMakeByte, F_UNLCK);
}

bool StoreLock::begin_removal() {
  const std::scoped_lock lock(mutex_);
  open_file();
  removing_ = true;
  return set(kMakeByte, F_WRLCK);
}

void StoreLock::end_removal() noexcept {
  const std::scoped_lock lock(mutex_);
  removing_ = false;
  set(kMakeByte, n_makers_ > 0 ? F_RDLCK : F_UNLCK);
  changed_.notify_all();
}

}  // namespace billow::store
