// What every operation of the forward pass runs on: kernels, threads and scratch. Owns nothing. One
// thread at a time.
#pragma once

#include "cpu/thread_team.h"
#include "kernels/kernel_table.h"
#include "tensor/arena.h"

namespace billow::nn {

struct Compute {
  const kernels::KernelTable& kernels;
  cpu::ThreadTeam& team;
  tensor::Arena& arena;
};

}  // namespace billow::nn
