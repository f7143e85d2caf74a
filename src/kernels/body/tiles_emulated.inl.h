// The tile vocabulary in plain C++. A tile has up to 16 rows of up to 64 bytes. A Tiles object is
// the eight tiles of a thread. Its constructor leaves them without shapes; its destructor releases
// them. Vocabulary:
//   configure(shapes)     gives all eight tiles a shape; their contents are lost
//   zero, load, store<T>  tile T; rows of memory are `stride` bytes apart
//   dot_codes<C, A, B>    C[m][n] += the dot product of A's row m and B's column n; int32. A's row
//                         has signed bytes of k. B has 4 signed bytes of k in each row.
//   dot_bf16<C, A, B>     the same for pairs of BF16. Even and odd k have separate float sums that
//                         begin at 0; their total is added to C. The instruction treats denormal
//                         numbers as 0; this code does not.
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

  void configure(const TileShape (&shapes)[8]) noexcept {
    for (size_t i = 0; i < 8; ++i) {
      if (shapes[i].rows > 16 || shapes[i].row_bytes > 64) __builtin_trap();
      shapes_[i] = shapes[i];
      __builtin_memset(tiles_[i], 0, sizeof tiles_[i]);
    }
  }
  template <int T>
  void zero() noexcept {
    __builtin_memset(tiles_[T], 0, sizeof tiles_[T]);
  }
  template <int T>
  void load(const void* from, size_t stride) noexcept {
    const auto* bytes = static_cast<const uint8_t*>(from);
    for (size_t r = 0; r < shape<T>().rows; ++r)
      __builtin_memcpy(tiles_[T][r], bytes + r * stride, shapes_[T].row_bytes);
  }
  template <int T>
  void store(void* to, size_t stride) noexcept {
    auto* bytes = static_cast<uint8_t*>(to);
    for (size_t r = 0; r < shape<T>().rows; ++r)
      __builtin_memcpy(bytes + r * stride, tiles_[T][r], shapes_[T].row_bytes);
  }
  template <int C, int A, int B>
  void dot_codes() noexcept {
    check<C, A, B>();
    for (size_t m = 0; m < shapes_[C].rows; ++m) {
      for (size_t n = 0; n < shapes_[C].row_bytes / 4u; ++n) {
        int32_t sum = at<int32_t>(C, m, n);
        for (size_t k = 0; k < shapes_[A].row_bytes; ++k)
          sum += at<int8_t>(A, m, k) * at<int8_t>(B, k / 4, 4 * n + k % 4);
        __builtin_memcpy(&tiles_[C][m][4 * n], &sum, 4);
      }
    }
  }
  template <int C, int A, int B>
  void dot_bf16() noexcept {
    check<C, A, B>();
    for (size_t m = 0; m < shapes_[C].rows; ++m) {
      for (size_t n = 0; n < shapes_[C].row_bytes / 4u; ++n) {
        float sums[2] = {};
        for (size_t k = 0; k < shapes_[A].row_bytes / 2u; ++k) {
          const double product = double{bf16(A, m, k)} * double{bf16(B, k / 2, 2 * n + k % 2)};
          sums[k % 2] = static_cast<float>(product + double{sums[k % 2]});
        }
        const float sum = at<float>(C, m, n) + (sums[0] + sums[1]);
        __builtin_memcpy(&tiles_[C][m][4 * n], &sum, 4);
      }
    }
  }

 private:
  // A tile without a shape must not be used.
  template <int T>
  const TileShape& shape() const noexcept {
    if (shapes_[T].rows == 0 || shapes_[T].row_bytes == 0) __builtin_trap();
    return shapes_[T];
  }
  template <int C, int A, int B>
  void check() const noexcept {
    if (shape<A>().rows != shape<C>().rows || shape<A>().row_bytes != 4 * shape<B>().rows ||
        shape<B>().row_bytes != shape<C>().row_bytes) {
      __builtin_trap();
    }
  }
  template <class T>
  T at(int tile, size_t row, size_t i) const noexcept {
    T value;
    __builtin_memcpy(&value, &tiles_[tile][row][i * sizeof(T)], sizeof(T));
    return value;
  }
  float bf16(int tile, size_t row, size_t i) const noexcept {
    return __builtin_bit_cast(float, uint32_t{at<uint16_t>(tile, row, i)} << 16);
  }

  TileShape shapes_[8] = {};
  uint8_t tiles_[8][16][64];
};

}  // namespace
}  // namespace billow::kernels
