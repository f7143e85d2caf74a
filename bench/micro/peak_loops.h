// Loops that do nothing but one kind of instruction on registers, or read memory: what this machine
// can do at most. Any thread; a loop may be called only where supported() says so.
#pragma once

#include <cstddef>
#include <span>

namespace billow::bench {

struct RegisterLoop {
  const char* what;  // multiply-adds: f32; i8 and i16 into 32 bits; bf16 into f32
  const char* instructions;
  double macs;  // of one round
  bool (*supported)();
  void (*run)(size_t n_rounds);
};

// Those of one `what` stand together, the widest first.
std::span<const RegisterLoop> register_loops();

// Reads n_bytes (a multiple of 256) from an address that is a multiple of 64, asking for what lies
// ahead.
void read_memory(const std::byte* data, size_t n_bytes);

}  // namespace billow::bench
