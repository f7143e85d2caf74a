// Functions that glibc got after version 2.28, for the portable program. Billow, libstdc++ and
// libgcc call them. If the machine's glibc has such a function, that one runs; otherwise the code
// here does the same with older functions. All symbols are hidden: no loaded library sees them.
// Thread-safe.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace {

// Returns glibc's function of this name, or nullptr. The test of this file finds none.
template <typename Function>
Function* of_machine([[maybe_unused]] const char* name) {
#ifdef BILLOW_IGNORE_GLIBC
  return nullptr;
#else
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
#endif
}

constexpr long kNanosPerSecond = 1'000'000'000;

timespec now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time;
}

// Returns the time of CLOCK_REALTIME at which `clock` shows `deadline`, if neither is set
// meanwhile.
timespec to_realtime(clockid_t clock, const timespec& deadline) {
  const timespec from = now(clock);
  timespec time = now(CLOCK_REALTIME);
  time.tv_sec += deadline.tv_sec - from.tv_sec;
  time.tv_nsec += deadline.tv_nsec - from.tv_nsec;
  if (time.tv_nsec < 0) {
    time.tv_nsec += kNanosPerSecond;
    --time.tv_sec;
  } else if (time.tv_nsec >= kNanosPerSecond) {
    time.tv_nsec -= kNanosPerSecond;
    ++time.tv_sec;
  }
  return time;
}

// The part of a loaded object that has an address.
struct Search {
  uintptr_t address;
  dl_find_object* found;
};

int look_into(dl_phdr_info* object, size_t /*size*/, void* data) {
  const auto& search = *static_cast<Search*>(data);
  const ElfW(Phdr)* unwind_table = nullptr;
  const ElfW(Phdr)* part = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type == PT_GNU_EH_FRAME) unwind_table = &header;
    const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.address >= begin &&
        search.address < begin + header.p_memsz)
      part = &header;
  }
  if (part == nullptr) return 0;
  if (unwind_table == nullptr) return -1;
  const uintptr_t begin = object->dlpi_addr + part->p_vaddr;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void*>(begin + part->p_memsz);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + unwind_table->p_vaddr);
  return 1;
}

decltype(&::_dl_find_object) machine_find_object = nullptr;

// Looked up at startup: the unwinder must not allocate, and dlsym() can.
__attribute__((constructor(101))) void find_functions() {
  machine_find_object = of_machine<decltype(::_dl_find_object)>("_dl_find_object");
}

}  // namespace

#pragma GCC visibility push(hidden)
extern "C" {

// Glibc 2.32. libstdc++ counts references without atomic instructions if it is true.
char __libc_single_threaded = 0;

// Glibc 2.35. Finds the unwind table of the object that has the address.
int _dl_find_object(void* address, dl_find_object* found) noexcept {
  if (machine_find_object != nullptr) return machine_find_object(address, found);
  Search search{.address = reinterpret_cast<uintptr_t>(address), .found = found};
  return ::dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}

// Glibc 2.36.
uint32_t arc4random() noexcept {
  uint32_t number = 0;
  ssize_t n = 0;
  do {
    n = ::getrandom(&number, sizeof number, 0);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof number) std::abort();
  return number;
}

// Glibc 2.30.
pid_t gettid() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// Glibc 2.30. Without it the wait can end early or late if the time of day is set meanwhile;
// callers compare the clock after each wait.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  static const auto machine =
      of_machine<decltype(::pthread_cond_clockwait)>("pthread_cond_clockwait");
  if (machine != nullptr) return machine(condition, mutex, clock, deadline);
  const timespec time = to_realtime(clock, *deadline);
  return ::pthread_cond_timedwait(condition, mutex, &time);
}

// Glibc 2.32. Returns the name of a signal, "Killed", or nullptr.
const char* sigdescr_np(int signal) noexcept {
  static const auto machine = of_machine<decltype(::sigdescr_np)>("sigdescr_np");
  if (machine != nullptr) return machine(signal);
  return signal > 0 && signal < NSIG ? ::strsignal(signal) : nullptr;
}

// Glibc 2.34. Without it the files that are open now are closed in the child. Files that other
// threads open later have O_CLOEXEC.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions,
                                             int from) noexcept {
  static const auto machine = of_machine<decltype(::posix_spawn_file_actions_addclosefrom_np)>(
      "posix_spawn_file_actions_addclosefrom_np");
  if (machine != nullptr) return machine(actions, from);
  const std::unique_ptr<DIR, int (*)(DIR*)> open_files(::opendir("/proc/self/fd"), ::closedir);
  if (open_files == nullptr) return errno;
  while (const dirent* entry = ::readdir(open_files.get())) {
    const char* const name = entry->d_name;
    int file = -1;
    if (std::from_chars(name, name + ::strlen(name), file).ec != std::errc() || file < from)
      continue;
    if (const int error = ::posix_spawn_file_actions_addclose(actions, file); error != 0)
      return error;
  }
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
