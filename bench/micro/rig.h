// The environment of the benchmarks: threads, kernels and scratch as in the engine, and the peak
// rates of the machine with this number of threads. Not thread-safe.
#pragma once

#include <optional>

#include "cpu/thread_team.h"
#include "nn/compute.h"
#include "tensor/arena.h"

namespace billow::bench {

// Rates per second, all threads together.
struct Peaks {
  double f32_macs = 0;
  double i8_macs = 0;
  double i16_macs = 0;
  double bf16_macs = 0;     // 0 if the machine has no such instructions
  double memory_bytes = 0;  // for a set that no cache holds
};

class Rig {
 public:
  Rig(const kernels::KernelTable& kernels, int n_threads) : kernels_(kernels), team_(n_threads) {}

  nn::Compute compute() { return {kernels_, team_, arena_}; }
  const kernels::KernelTable& kernels() const { return kernels_; }
  cpu::ThreadTeam& team() { return team_; }
  const Peaks& peaks();  // measured by the first call

  // These return the best of several bursts, because disturbances only make a loop slower.
  double register_macs(const char* what);  // 0 if the processor has no such instructions
  double read_bytes(size_t set_bytes);     // set_bytes: all threads together

 private:
  const kernels::KernelTable& kernels_;
  cpu::ThreadTeam team_;
  tensor::Arena arena_;
  std::optional<Peaks> peaks_;
};

}  // namespace billow::bench
