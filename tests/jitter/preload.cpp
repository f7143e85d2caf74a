// A library for LD_PRELOAD that lets threads pause for random times where they meet: at locks,
// condition variables, reads, writes, and the start of threads. A race that needs a pause of
// microseconds at the right place then happens after a few runs. tools/jitter builds and uses it.
//
//   JITTER_SEED   where the random numbers begin (1)
//   JITTER_ONE_IN one of this many calls pauses (40), most of them below 1.5 ms, some up to 45 ms
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  const uint64_t value = text ? std::strtoull(text, nullptr, 10) : 0;
  return value > 0 ? value : otherwise;
}

// xorshift64 (Marsaglia, 2003). Each thread has its own sequence.
uint64_t random_number() {
  static const uint64_t seed = setting("JITTER_SEED", 1);
  thread_local uint64_t state =
      (seed * 0x9E3779B97F4A7C15u) ^
          (static_cast<uint64_t>(::syscall(SYS_gettid)) * 0xD1B54A32D192ED03u) |
      1u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state >> 8;
}

// Keeps errno.
void pause_for(uint64_t microseconds) {
  const int error = errno;
  const timespec time = {static_cast<time_t>(microseconds / 1'000'000),
                         static_cast<long>(microseconds % 1'000'000 * 1000)};
  ::syscall(SYS_nanosleep, &time, nullptr);
  errno = error;
}

void pause_sometimes() {
  static const uint64_t one_in = setting("JITTER_ONE_IN", 40);
  if (random_number() % one_in != 0) return;
  const bool is_long = random_number() % 20 == 0;
  pause_for(is_long ? 15'000 + random_number() % 30'000 : random_number() % 1500);
}

void pause_at_start_of_thread() {
  if (random_number() % 3 == 0) pause_for(random_number() % 20'000);
}

// The function that this library hides.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct Start {
  void* (*function)(void*);
  void* argument;
};

void* run_thread(void* pointer) {
  const Start start = *static_cast<Start*>(pointer);
  delete static_cast<Start*>(pointer);
  pause_at_start_of_thread();
  return start.function(start.argument);
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const real = next<decltype(pthread_mutex_lock)>("pthread_mutex_lock");
  pause_sometimes();
  return real(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static auto* const real = next<decltype(pthread_mutex_unlock)>("pthread_mutex_unlock");
  const int result = real(mutex);
  pause_sometimes();
  return result;
}

int pthread_cond_signal(pthread_cond_t* condition) {
  static auto* const real = next<decltype(pthread_cond_signal)>("pthread_cond_signal");
  const int result = real(condition);
  pause_sometimes();
  return result;
}

int pthread_cond_broadcast(pthread_cond_t* condition) {
  static auto* const real = next<decltype(pthread_cond_broadcast)>("pthread_cond_broadcast");
  const int result = real(condition);
  pause_sometimes();
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  static auto* const real = next<decltype(pthread_create)>("pthread_create");
  auto* const start = new Start{function, argument};
  const int result = real(thread, attributes, run_thread, start);
  if (result != 0) delete start;
  pause_at_start_of_thread();
  return result;
}

ssize_t send(int socket, const void* data, size_t size, int flags) {
  static auto* const real = next<decltype(send)>("send");
  pause_sometimes();
  return real(socket, data, size, flags);
}

ssize_t recv(int socket, void* data, size_t size, int flags) {
  static auto* const real = next<decltype(recv)>("recv");
  const ssize_t result = real(socket, data, size, flags);
  pause_sometimes();
  return result;
}

ssize_t write(int file, const void* data, size_t size) {
  static auto* const real = next<decltype(write)>("write");
  pause_sometimes();
  return real(file, data, size);
}

ssize_t read(int file, void* data, size_t size) {
  static auto* const real = next<decltype(read)>("read");
  const ssize_t result = real(file, data, size);
  pause_sometimes();
  return result;
}

}  // extern "C"
