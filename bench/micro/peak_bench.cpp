// Measures the peak rates of the machine: arithmetic in registers, and reads from each level of
// memory.
#include <string_view>

#include "benchmarks.h"
#include "peak_loops.h"

namespace billow::bench {
namespace {

struct ReadSet {
  const char* name;
  size_t bytes_per_thread;  // 0: all_bytes counts
  size_t all_bytes;
};

constexpr ReadSet kReadSets[] = {
    {"16KiB", size_t{16} << 10, 0},
    {"256KiB", size_t{256} << 10, 0},
    {"64MiB", 0, size_t{64} << 20},
    {"512MiB", 0, size_t{512} << 20},
};

// `measure` returns a rate per second, so one iteration is enough.
template <class Measure>
void add(const std::string& name, const char* counter, Measure measure) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 double rate = 0;
                                 for (auto _ : state) rate = measure();
                                 state.counters[counter] = rate / 1e9;
                               })
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void add_peak_benchmarks(std::span<const NamedRig> rigs) {
  for (const NamedRig& named : rigs) {
    Rig* rig = named.rig;
    std::string_view last;
    for (const RegisterLoop& loop : register_loops()) {
      if (loop.what == last || !loop.supported()) continue;
      last = loop.what;
      add(std::string("peak/") + loop.what + "/" + named.name, "GMAC/s",
          [rig, what = loop.what] { return rig->register_macs(what); });
    }
    for (const ReadSet& set : kReadSets) {
      const auto n_threads = static_cast<size_t>(rig->team().size());
      const size_t bytes = set.all_bytes + set.bytes_per_thread * n_threads;
      add(std::string("peak/read_") + set.name + "/" + named.name, "GB/s",
          [=] { return rig->read_bytes(bytes); });
    }
  }
}

}  // namespace billow::bench
