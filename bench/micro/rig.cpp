#include "rig.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "peak_loops.h"

namespace billow::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Memory on huge pages if the system supports them, so that the rate is that of memory.
class Block {
 public:
  explicit Block(size_t n_bytes) : n_bytes_(n_bytes) {
    void* mapped =
        ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw Error(ErrorCode::kOutOfMemory, "no memory to read from");
    data_ = static_cast<std::byte*>(mapped);
    ::madvise(data_, n_bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, n_bytes);
  }
  ~Block() { ::munmap(data_, n_bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t n_bytes_;
};

// Returns the best rate of several bursts, in work per second. Runs at least three bursts, for a
// fifth of a second.
template <class Burst>
double best_rate(double work, Burst burst) {
  double best = 0;
  const Clock::time_point start = Clock::now();
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  for (int i = 0; i < 3 || seconds(Clock::now() - start) < 0.2; ++i) {
    const Clock::time_point begin = Clock::now();
    burst();
    best = std::max(best, work / seconds(Clock::now() - begin));
  }
  return best;
}

}  // namespace

double Rig::register_macs(const char* what) {
  constexpr size_t kRounds = size_t{1} << 18;
  for (const RegisterLoop& loop : register_loops()) {
    if (std::string_view(loop.what) != what || !loop.supported()) continue;
    return best_rate(loop.macs * static_cast<double>(kRounds) * team_.size(),
                     [&] { team_.run([&](int) { loop.run(kRounds); }); });
  }
  return 0;
}

double Rig::read_bytes(size_t set_bytes) {
  const Block block(set_bytes);
  constexpr size_t kLeast = size_t{8} << 20;  // min bytes per burst, so that threads are warm
  const auto n_threads = static_cast<size_t>(team_.size());
  const size_t share = set_bytes / n_threads / 256 * 256;
  const size_t n_times = std::max<size_t>(1, kLeast / share);
  return best_rate(static_cast<double>(share * n_threads * n_times), [&] {
    team_.run([&](int member) {
      for (size_t i = 0; i < n_times; ++i)
        read_memory(block.data() + static_cast<size_t>(member) * share, share);
    });
  });
}

const Peaks& Rig::peaks() {
  if (!peaks_) {
    peaks_ = {.f32_macs = register_macs("f32"),
              .i8_macs = register_macs("i8"),
              .i16_macs = register_macs("i16"),
              .bf16_macs = register_macs("bf16"),
              .memory_bytes = read_bytes(size_t{512} << 20)};
  }
  return *peaks_;
}

}  // namespace billow::bench
