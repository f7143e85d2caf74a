// The vocabulary of half precision in plain C++.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/vocabulary.inl.h"

namespace billow::kernels {
namespace {

// Multiply-add in half precision, rounded once as the instruction does.
struct Half {
  // Returns p + c, rounded to odd. Rounding this once more to fewer bits gives the value nearest to
  // the exact sum.
  static double add_to_odd(double p, double c) noexcept {
    const double sum = p + c;
    const double part = sum - p;
    const double error = (p - (sum - part)) + (c - part);
    auto bits = __builtin_bit_cast(uint64_t, sum);
    if (error == 0.0 || (bits & 1) != 0) return sum;
    bits += (error > 0.0) == (sum > 0.0) ? 1 : ~uint64_t{0};
    return __builtin_bit_cast(double, bits);
  }
  static uint16_t to_half(double x) noexcept {
    const double magnitude = __builtin_fabs(x);
    if (!(magnitude < 65520.0)) return Isa::f32_to_f16(static_cast<float>(x));
    int exponent = 0;
    (void)__builtin_frexp(magnitude, &exponent);
    const int quantum = (exponent < -13 ? -13 : exponent) - 11;
    const double steps = __builtin_rint(__builtin_ldexp(x, -quantum));
    return Isa::f32_to_f16(static_cast<float>(__builtin_ldexp(steps, quantum)));
  }
  static uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) noexcept {
    const double product =
        static_cast<double>(Isa::f16_to_f32(a)) * static_cast<double>(Isa::f16_to_f32(b));
    return to_half(add_to_odd(product, static_cast<double>(Isa::f16_to_f32(c))));
  }
  static Isa::Bytes fma(Isa::Bytes w, Isa::Bytes x, Isa::Bytes sum) noexcept {
    using Halves = uint16_t __attribute__((vector_size(4)));
    const auto a = reinterpret_cast<Halves>(w);
    const auto b = reinterpret_cast<Halves>(x);
    auto c = reinterpret_cast<Halves>(sum);
    for (size_t i = 0; i < 2; ++i) c[i] = fma_half(a[i], b[i], c[i]);
    return reinterpret_cast<Isa::Bytes>(c);
  }
};

}  // namespace
}  // namespace billow::kernels
