// Measures what a team of threads costs: to begin and end a region, and to divide items.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks.h"
#include "cpu/cores.h"
#include "cpu/thread_team.h"

namespace billow::bench {
namespace {

constexpr size_t kItems = 1024;

void region(benchmark::State& state) {
  cpu::ThreadTeam team(static_cast<int>(state.range(0)));
  for (auto _ : state) team.run([](int) {});
}

// Each item is a loop of about 0.1 us. "ideal" is the time of the items alone, divided by the
// threads.
void spin(size_t n) {
  for (size_t i = 0; i < 100 * n; ++i) benchmark::DoNotOptimize(i);
}

void shares(benchmark::State& state) {
  cpu::ThreadTeam team(static_cast<int>(state.range(0)));
  const auto alone = Clock::now();
  for (int i = 0; i < 100; ++i) spin(kItems);
  const double seconds = std::chrono::duration<double>(Clock::now() - alone).count() / 100;
  const auto start = Clock::now();
  for (auto _ : state)
    team.for_shares(kItems, [](size_t begin, size_t end, int) { spin(end - begin); });
  const double ideal = seconds / static_cast<double>(team.size());
  state.counters["ideal%"] = 100 * ideal / seconds_each(state, start);
}

// The same while 4 other threads per core never sleep. The items alone are measured with them
// running, too.
void busy(benchmark::State& state) {
  std::atomic<bool> is_over{false};
  std::vector<std::jthread> others;
  for (int i = 0; i < 4 * cpu::usable_cores(); ++i)
    others.emplace_back([&] {
      while (!is_over.load(std::memory_order_relaxed)) spin(1);
    });
  shares(state);
  is_over = true;
}

}  // namespace

void add_team_benchmarks() {
  const int n_cores = cpu::usable_cores();
  using Measure = void (*)(benchmark::State&);
  for (const auto& [name, measure] : {std::pair<const char*, Measure>{"team/region", region},
                                      {"team/shares", shares},
                                      {"team/busy", busy}}) {
    auto* added = benchmark::RegisterBenchmark(name, measure);
    for (int n = 1; n < n_cores; n *= 2) added->Arg(n);
    added->Arg(n_cores)->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace billow::bench
