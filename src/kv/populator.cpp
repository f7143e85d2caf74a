#include "kv/populator.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

namespace billow::kv {
namespace {

constexpr size_t kPage = 4096;

// Without MADV_POPULATE_WRITE (older systems), pages become resident at the first write.
void make_resident(std::span<std::byte> memory) {
#ifdef MADV_POPULATE_WRITE
  // Bytes before the memory in its first page.
  const size_t before = reinterpret_cast<uintptr_t>(memory.data()) % kPage;
  const size_t n_pages = (before + memory.size() + kPage - 1) / kPage;
  ::madvise(memory.data() - before, n_pages * kPage, MADV_POPULATE_WRITE);
#else
  (void)memory;
#endif
}

}  // namespace

Populator::~Populator() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Populator::populate(std::span<std::byte> memory) {
  {
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    wanted_ = memory;
  }
  changed_.notify_all();
}

void Populator::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !wanted_ && !busy_; });
}

void Populator::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return wanted_ || ends_; });
    if (ends_) return;
    const std::span<std::byte> memory = *std::exchange(wanted_, std::nullopt);
    busy_ = true;
    lock.unlock();
    make_resident(memory);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace billow::kv
