// What the benchmarks run on: threads, kernels and scratch as the engine has them, and the rates
// that this machine reaches at most with so many threads. One thread at a time.
#pragma once

#include <optional>

#include "cpu/thread_team.h"
#include "nn/compute.h"
#include "tensor/arena.h"

namespace billow::bench {

// Per second, all threads together.
struct Peaks {
  double f32_macs = 0;
  double i8_macs = 0;
  double i16_macs = 0;
  double bf16_macs = 0;     // 0 where there are no such instructions
  double memory_bytes = 0;  // read from a set that no cache holds
};

class Rig {
 public:
  Rig(const kernels::KernelTable& kernels, int n_threads) : kernels_(kernels), team_(n_threads) {}

  nn::Compute compute() { return {kernels_, team_, arena_}; }
  const kernels::KernelTable& kernels() const { return kernels_; }
  cpu::ThreadTeam& team() { return team_; }
  const Peaks& peaks();  // measured when first asked for

  // The best of some bursts: disturbances make a loop slower, never faster.
  double register_macs(const char* what);  // 0 where the processor has no such instructions
  double read_bytes(size_t set_bytes);     // set_bytes: all threads together

 private:
  const kernels::KernelTable& kernels_;
  cpu::ThreadTeam team_;
  tensor::Arena arena_;
  std::optional<Peaks> peaks_;
};

}  // namespace billow::bench
