// billow_micro: measures the peaks of the machine, then every kernel of the selected table relative
// to the peaks. Accepts the options of Google Benchmark, such as --benchmark_filter=REGEX.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "benchmarks.h"
#include "cpu/cores.h"

namespace billow::bench {

void count(benchmark::State& state, double seconds, const Peaks& peaks, double peak_macs,
           double macs, double bytes) {
  const double min_seconds = std::max(macs / peak_macs, bytes / peaks.memory_bytes);
  state.counters["GMAC/s"] = macs / seconds / 1e9;
  state.counters["GB/s"] = bytes / seconds / 1e9;
  state.counters["roof%"] = 100 * min_seconds / seconds;
}

namespace {

void run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    throw Error(ErrorCode::kInvalidInput, "unknown option");
  const kernels::KernelTable& table = kernels::select_table();
  const int n_threads = cpu::usable_cores();
  Rig all(table, n_threads);
  Rig one(table, 1);
  std::vector<NamedRig> rigs = {{"all", &all}};
  if (n_threads > 1) rigs.push_back({"1", &one});
  add_peak_benchmarks(rigs);
  add_linear_benchmarks(rigs);
  add_attention_benchmarks(rigs);
  add_team_benchmarks();
  benchmark::AddCustomContext("kernels", std::string(table.name));
  benchmark::AddCustomContext("threads", std::to_string(n_threads));
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace billow::bench

int main(int argc, char** argv) {
  try {
    billow::bench::run(argc, argv);
  } catch (const billow::Error& error) {
    std::fprintf(stderr, "billow_micro: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
