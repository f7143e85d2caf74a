// Loops that only execute one kind of instruction on registers, or only read memory. They measure
// the peak rates of the machine. Thread-safe. REQUIRES: supported() returns true for a loop before
// its call.
#pragma once

#include <cstddef>
#include <span>

namespace billow::bench {

struct RegisterLoop {
  const char* what;  // multiply-adds: f32; i8 and i16 into 32 bits; bf16 into f32
  const char* instructions;
  double macs;  // per round
  bool (*supported)();
  void (*run)(size_t n_rounds);
};

// Returns all loops. Loops with the same `what` are adjacent, the widest first.
std::span<const RegisterLoop> register_loops();

// Reads n_bytes (a multiple of 256) from an address that is a multiple of 64, with prefetching.
void read_memory(const std::byte* data, size_t n_bytes);

}  // namespace billow::bench
