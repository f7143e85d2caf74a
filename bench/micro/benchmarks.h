// The sets of micro-benchmarks. Each function adds its benchmarks to Google Benchmark's list.
// REQUIRES: the rigs outlive the benchmarks.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <span>
#include <string>

#include "rig.h"

namespace billow::bench {

struct NamedRig {
  std::string name;  // "all" threads, "1" thread
  Rig* rig;
};

void add_peak_benchmarks(std::span<const NamedRig> rigs);
void add_linear_benchmarks(std::span<const NamedRig> rigs);
void add_attention_benchmarks(std::span<const NamedRig> rigs);
void add_team_benchmarks();  // of teams with 1, 2, 4, ... threads, up to the number of cores

using Clock = std::chrono::steady_clock;

// Returns the seconds per iteration. All iterations began at `start` and have just ended.
inline double seconds_each(const benchmark::State& state, Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count() /
         static_cast<double>(state.iterations());
}

// Sets the counters GMAC/s, GB/s and roof%. roof% compares `seconds` per iteration with the min
// time of the machine. The min time is that of the arithmetic at peak_macs, or of the bytes at the
// memory's rate.
void count(benchmark::State& state, double seconds, const Peaks& peaks, double peak_macs,
           double macs, double bytes);

}  // namespace billow::bench
