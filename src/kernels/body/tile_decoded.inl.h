// Products of integer formats with tiles of BF16. A slab of the weights is decoded into tiles,
// which all rows use. Weights and activations lose only the rounding to 8 bits of mantissa, which
// is less than the rounding to 8-bit codes. A few rows cost as much as sixteen, so these products
// are for encoders and for rows that are read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/integer_product.inl.h"
#include "kernels/body/tile_bf16.inl.h"
#include "kernels/body/tile_codes.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

template <quant::Packing P>
struct Decoded {
  template <size_t S>
  struct Strips {
    static constexpr size_t kVectors = S * kHalves;
    static constexpr quant::Packing kPacking = P;
    using Source = SignedStrips<P, kVectors>;

    const GemmArgs& args;
    size_t vector;
    alignas(64) uint8_t panel[kTileSlabBlocks * kTilesOfBlock * S * kTileBytes];

    Strips(const GemmArgs& gemm_args, size_t first_vector) noexcept
        : args(gemm_args), vector(first_vector) {}

    TileSlabWeights slab(size_t first_block, size_t n_blocks) noexcept {
      F factors[kVectors];
      for (size_t v = 0; v < kVectors; ++v)
        factors[v] = IntegerProduct<P>::factor(args, vector + v);
      Source source(args, vector, first_block);
      uint8_t* out = panel;
      for (size_t b = 0; b < n_blocks; ++b, source.next()) {
        for (size_t v = 0; v < kVectors; ++v) {
          decode_block(source, v, factors[v],
                       out + v / kHalves * kTileBytes + v % kHalves * kLaneBytes);
        }
        out += kTilesOfBlock * S * kTileBytes;
      }
      return {panel, kTileBytes, S * kTileBytes};
    }

   private:
    // Decodes 64 of k of a vector of outputs. Its rows of tiles are S tiles apart.
    static void decode_block(const Source& source, size_t v, F factor, uint8_t* out) noexcept {
      constexpr size_t kPartQuads = kInputQuads / P.scales_per_32;
      for (size_t part = 0; part < parts_of_block(P); ++part) {
        const F scale = source.scale(part, v) * factor;
        F offset = Isa::zero();
        if constexpr (P.offsets) offset = source.offset(part, v) * factor;
        for (size_t q = part * kPartQuads; q < (part + 1) * kPartQuads; ++q) {
          const Isa::Bytes codes = source.codes(q, v);
          F values[4];
          for (unsigned j = 0; j < 4; ++j) {
            const F code = Isa::to_float(Isa::signed_byte(codes, j));
            if constexpr (P.offsets) {
              values[j] = Isa::fma(code, scale, offset);
            } else {
              values[j] = code * scale;
            }
          }
          uint8_t* to = out + q / kInputQuads * S * kTileBytes + q % kInputQuads * 2 * 64;
          Isa::store_bytes(to, Bf16::pairs(values[0], values[1]));
          Isa::store_bytes(to + 64, Bf16::pairs(values[2], values[3]));
        }
      }
    }
  };
};

}  // namespace
}  // namespace billow::kernels
