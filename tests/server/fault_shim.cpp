// A library for LD_PRELOAD that injects faults into the file system and the clock of one process.
// Tests can change the fault at run time. $BILLOW_FAULT is the path of a file with one rule, which
// the library reads at each intercepted call:
//
//   hang CALLS PART    calls of these kinds ("open,read" or "all") wait until the rule changes, if
//                      the path contains PART
//   kill N PART        kills the process before its Nth changing call on a path that contains PART
//   clock SECONDS      the wall clock is ahead by SECONDS; the steady clock is correct
//
// Thread-safe.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

struct Rule {
  char mode[16] = "";
  char argument[128] = "";
  char part[512] = "";
};

// Reads the rule. Uses system calls directly, because this library intercepts the C functions.
Rule read_rule() {
  Rule rule;
  static const char* const path = std::getenv("BILLOW_FAULT");
  if (path == nullptr) return rule;
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return rule;
  std::array<char, 1024> text{};
  const long n = ::syscall(SYS_read, fd, text.data(), text.size() - 1);
  ::syscall(SYS_close, fd);
  if (n > 0) std::sscanf(text.data(), "%15s %127s %511s", rule.mode, rule.argument, rule.part);
  return rule;
}

bool is_in_list(const char* list, const char* word) {
  if (std::strcmp(list, "all") == 0) return true;
  const size_t length = std::strlen(word);
  for (const char* at = list; (at = std::strstr(at, word)) != nullptr; at += length) {
    const bool begins = at == list || at[-1] == ',';
    if (begins && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

bool hangs(const Rule& rule, const char* call, const char* path) {
  return std::strcmp(rule.mode, "hang") == 0 && is_in_list(rule.argument, call) &&
         std::strstr(path, rule.part) != nullptr;
}

// Applies the rule before a call. `changes` is true if the call changes the disk.
void before(const char* call, const char* path, bool changes) {
  if (path == nullptr) return;
  const int saved = errno;
  Rule rule = read_rule();
  while (hangs(rule, call, path)) {
    timespec pause{0, 5'000'000};
    ::syscall(SYS_nanosleep, &pause, nullptr);
    rule = read_rule();
  }
  if (changes && std::strcmp(rule.mode, "kill") == 0 && std::strstr(path, rule.part) != nullptr) {
    static std::atomic<int> n_calls{0};
    if (++n_calls == std::atoi(rule.argument)) ::syscall(SYS_kill, ::getpid(), SIGKILL);
  }
  errno = saved;
}

void before(const char* call, int fd, bool changes) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  if (::syscall(SYS_readlink, link.data(), path.data(), path.size() - 1) > 0)
    before(call, path.data(), changes);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool opens_to_make(int flags) { return (flags & O_CREAT) != 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = opens_to_make(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  before("open", path, opens_to_make(flags));
  static const auto next = real<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = opens_to_make(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  before("open", path, opens_to_make(flags));
  static const auto next = real<int(int, const char*, int, ...)>("openat");
  return next(folder, path, flags, mode);
}

DIR* opendir(const char* path) {
  before("open", path, false);
  static const auto next = real<DIR*(const char*)>("opendir");
  return next(path);
}

ssize_t read(int fd, void* bytes, size_t n) {
  before("read", fd, false);
  static const auto next = real<ssize_t(int, void*, size_t)>("read");
  return next(fd, bytes, n);
}

ssize_t pread(int fd, void* bytes, size_t n, off_t offset) {
  before("read", fd, false);
  static const auto next = real<ssize_t(int, void*, size_t, off_t)>("pread");
  return next(fd, bytes, n, offset);
}

ssize_t write(int fd, const void* bytes, size_t n) {
  before("write", fd, true);
  static const auto next = real<ssize_t(int, const void*, size_t)>("write");
  return next(fd, bytes, n);
}

int fsync(int fd) {
  before("fsync", fd, true);
  static const auto next = real<int(int)>("fsync");
  return next(fd);
}

int stat(const char* path, struct stat* status) {
  before("stat", path, false);
  static const auto next = real<int(const char*, struct stat*)>("stat");
  return next(path, status);
}

int lstat(const char* path, struct stat* status) {
  before("stat", path, false);
  static const auto next = real<int(const char*, struct stat*)>("lstat");
  return next(path, status);
}

int fstat(int fd, struct stat* status) {
  before("stat", fd, false);
  static const auto next = real<int(int, struct stat*)>("fstat");
  return next(fd, status);
}

int rename(const char* from, const char* to) {
  before("rename", to, true);
  static const auto next = real<int(const char*, const char*)>("rename");
  return next(from, to);
}

int unlink(const char* path) {
  before("unlink", path, true);
  static const auto next = real<int(const char*)>("unlink");
  return next(path);
}

int mkdir(const char* path, mode_t mode) {
  before("mkdir", path, true);
  static const auto next = real<int(const char*, mode_t)>("mkdir");
  return next(path, mode);
}

int rmdir(const char* path) {
  before("rmdir", path, true);
  static const auto next = real<int(const char*)>("rmdir");
  return next(path);
}

int clock_gettime(clockid_t clock, timespec* time) {
  const long failed = ::syscall(SYS_clock_gettime, clock, time);
  if (failed != 0 || clock != CLOCK_REALTIME) return static_cast<int>(failed);
  const Rule rule = read_rule();
  if (std::strcmp(rule.mode, "clock") == 0) time->tv_sec += std::atol(rule.argument);
  return 0;
}

}  // extern "C"
