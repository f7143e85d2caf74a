// The tile vocabulary (explained in tiles_emulated.inl.h) with AMX. The instructions are written as
// assembly, because GCC 12 has a bug. GCC assumes that the intrinsic that loads a configuration
// reads only 8 of its 64 bytes, and drops stores to the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/tile_shapes.inl.h"

namespace billow::kernels {
namespace {

class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { __asm__ volatile("tilerelease" ::: "memory"); }

  void configure(const TileShape (&shapes)[8]) noexcept {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (size_t i = 0; i < 8; ++i) {
      config.row_bytes[i] = shapes[i].row_bytes;
      config.rows[i] = shapes[i].rows;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  template <int T>
  void zero() noexcept {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  void load(const void* from, size_t stride) noexcept {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  void store(void* to, size_t stride) noexcept {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  void dot_codes() noexcept {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  void dot_bf16() noexcept {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace billow::kernels
