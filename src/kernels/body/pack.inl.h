// Packs 16 rows of weights (quant/packing.h). Codes are written first, by quad of k. Scales are
// written when those of the whole row are known. If scales stay integers, codes and scales are
// written run by run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/integer_product.inl.h"
#include "kernels/body/strips.inl.h"
#include "kernels/kernel_table.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/unpack.h"

namespace billow::kernels {
namespace {

// Whether a group has one scale (and minimum) in f16, which the packed form copies bit for bit.
// Other formats' scales are products, and are computed as floats.
template <class Format>
constexpr bool kScalesAsTheyLie =
    Format::kGroupLen == 32 &&
    requires(typename Format::Group group) { requires sizeof(group.scale) == sizeof(uint16_t); };

// The values that are unpacked together: some k of 16 rows.
template <class Format>
struct PackStep {
  static constexpr size_t kLen =
      Format::kGroupLen > quant::kPackedBlock ? Format::kGroupLen : quant::kPackedBlock;
  alignas(64) uint8_t codes[quant::kStripRows][kLen];
};

// If Isa unpacks to codebook values, this unpacks to the codes themselves.
struct CodesOnly : Isa {
  static void lookup16(const int8_t*, const uint8_t* nibbles, int8_t* out, size_t n) noexcept {
    __builtin_memcpy(out, nibbles, n);
  }
};

template <class Format>
using UnpackIsa = std::conditional_t<Format::kPacking.has_codebook(), CodesOnly, Isa>;

// Writes bits kShift and kShift + 1 of a block's codes; a byte has those of four quads.
template <int kShift>
inline void write_pairs_of_bits(const uint8_t* codes, uint8_t* out) noexcept {
  for (size_t four = 0; four < kQuads / 4; ++four, out += kQuadBytes) {
    const uint8_t* from = codes + 4 * four * kQuadBytes;
    for (size_t i = 0; i < kQuadBytes; ++i) {
      out[i] = static_cast<uint8_t>(((from[i] >> kShift) & 3) |
                                    ((from[kQuadBytes + i] >> kShift) & 3) << 2 |
                                    ((from[2 * kQuadBytes + i] >> kShift) & 3) << 4 |
                                    ((from[3 * kQuadBytes + i] >> kShift) & 3) << 6);
    }
  }
}

// Writes the codes of 16 rows of 64 k as a block of the packed form. The rows are signed, and
// `stride` bytes apart.
template <quant::Packing P>
inline void write_codes(const uint8_t* rows, size_t stride, uint8_t* out) noexcept {
  if constexpr (P.bits == 8) return Isa::transpose_words(rows, stride, out);
  alignas(64) uint8_t codes[kQuads * kQuadBytes];
  Isa::transpose_words(rows, stride, codes);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code + P.zero());
  if constexpr (P.bits < 4) {
    write_pairs_of_bits<0>(codes, out);
    out += kQuads / 4 * kQuadBytes;
  } else {
    for (size_t pair = 0; pair < kQuads / 2; ++pair, out += kQuadBytes) {
      const uint8_t* low = codes + 2 * pair * kQuadBytes;
      for (size_t i = 0; i < kQuadBytes; ++i) {
        out[i] = static_cast<uint8_t>((low[i] & 15) | (low[kQuadBytes + i] << 4));
      }
    }
  }
  if constexpr (P.bits == 3 || P.bits == 5) {
    for (size_t q = 0; q < kQuads; ++q) {
      Isa::template collect_bit<P.bits - 1>(codes + q * kQuadBytes, out + 8 * q);
    }
  }
  if constexpr (P.bits == 6) write_pairs_of_bits<4>(codes, out);
}

// Copies the scales (and minima) of row r's groups to their block.
template <class Format>
inline void copy_scales(const typename Format::Group* groups, size_t n, size_t r,
                        uint8_t* out) noexcept {
  constexpr size_t kBytes = sizeof(uint16_t);
  for (size_t g = 0; g < n; ++g) {
    __builtin_memcpy(out + (g * quant::kStripRows + r) * kBytes, groups[g].scale, kBytes);
    if constexpr (Format::kPacking.offsets) {
      __builtin_memcpy(out + ((2 + g) * quant::kStripRows + r) * kBytes, groups[g].min, kBytes);
    }
  }
}

// Returns the max magnitude of `largest` and n values. `error` becomes positive if f16 cannot hold
// one of them.
inline F largest_in_f16(const float* values, size_t n, F largest, F& error) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F value = load_lanes(values + i, lanes);
    uint16_t half[Isa::kLanes];
    Isa::store_f16(half, value);
    const F difference = value - Isa::load_f16(half);
    error = Isa::max(Isa::max(difference, Isa::zero() - difference), error);
    largest = Isa::max(Isa::max(value, Isa::zero() - value), largest);
  });
  return largest;
}

// Returns 1 if f16 holds all scales and offsets exactly, otherwise the power of two just above the
// largest.
template <quant::Packing P>
inline float row_factor(const float* scales, const float* offsets, size_t n) noexcept {
  F error = Isa::zero();
  F vector = largest_in_f16(scales, n, Isa::zero(), error);
  if constexpr (P.offsets) vector = largest_in_f16(offsets, n, vector, error);
  const float largest = Isa::largest(vector);
  if (!(Isa::largest(error) > 0.0f) || !(largest < 1e30f)) return 1.0f;
  int exponent = 0;
  (void)__builtin_frexpf(largest, &exponent);
  return __builtin_ldexpf(1.0f, exponent < -100 ? -100 : exponent);
}

// Writes scales or offsets of the parts of up to 256 k, [16 rows][n_groups], with n <= 16 of each
// row here, divided by the rows' factors. `out` is their place in the first block.
template <quant::Packing P>
inline void write_values(const float* values, size_t n_groups, size_t n,
                         const float* inverse_factors, uint8_t* out) noexcept {
  constexpr size_t kGroups = quant::kPackedBlock / quant::kScaleGroup;
  constexpr size_t kWords = 16;
  float tail[quant::kStripRows][kWords] = {};
  const auto* rows = reinterpret_cast<const uint8_t*>(values);
  size_t stride = n_groups * sizeof(float);
  if (n < kWords) {
    for (size_t r = 0; r < quant::kStripRows; ++r) {
      __builtin_memcpy(tail[r], values + r * n_groups, n * sizeof(float));
    }
    rows = reinterpret_cast<const uint8_t*>(tail);
    stride = sizeof tail[0];
  }
  float by_group[kWords][quant::kStripRows];
  Isa::transpose_words(rows, stride, reinterpret_cast<uint8_t*>(by_group));
  for (size_t g = 0; g < n; g += 2 / P.scales_per_32) {
    const size_t part = g % kGroups * P.scales_per_32 / 2;
    auto* halves = reinterpret_cast<uint16_t*>(out + g / kGroups * P.block_bytes());
    for (size_t r = 0; r < quant::kStripRows; r += Isa::kLanes) {
      Isa::store_f16(halves + part * quant::kStripRows + r,
                     Isa::load(by_group[g] + r) * Isa::load(inverse_factors + r));
    }
  }
}

// Unpacks n values of each row from k on. Scales go to `block`, which is the place of scales in the
// step's first block, or to scratch memory. `args` is a copy, because stores of bytes could change
// the object of a reference.
template <class Format>
inline void unpack_step(const PackArgs args, size_t k, size_t n, PackStep<Format>& step,
                        uint8_t* block) noexcept {
  using Codes = UnpackIsa<Format>;
  constexpr size_t kScales = Format::kGroupLen / quant::kScaleGroup;  // in a group
  const size_t n_scales = padded(args.k) / quant::kScaleGroup;
  for (size_t r = 0; r < args.n_rows; ++r) {
    const auto* groups =
        reinterpret_cast<const typename Format::Group*>(args.weight + r * args.row_bytes) +
        k / Format::kGroupLen;
    for (size_t g = 0; g < n / Format::kGroupLen; ++g) {
      auto* codes = reinterpret_cast<int8_t*>(step.codes[r] + g * Format::kGroupLen);
      if constexpr (kScalesAsTheyLie<Format>) {
        float scales[kScales];
        float offsets[kScales];
        Format::template unpack<Codes>(groups[g], codes, scales, offsets);
      } else {
        const size_t at = r * n_scales + k / quant::kScaleGroup + g * kScales;
        Format::template unpack<Codes>(groups[g], codes, args.scales + at, args.offsets + at);
      }
    }
    if constexpr (kScalesAsTheyLie<Format>) {
      copy_scales<Format>(groups, n / Format::kGroupLen, r, block);
    }
  }
}

// Writes the rows' factors, and the scales and offsets in scratch memory divided by them.
template <quant::Packing P>
inline void write_scales(const PackArgs& args, uint8_t* out) noexcept {
  constexpr size_t kGroupsAtOnce = 16;
  const size_t n_groups = padded(args.k) / quant::kScaleGroup;
  auto* factors = reinterpret_cast<float*>(args.out);
  float inverse_factors[quant::kStripRows];
  for (size_t r = 0; r < quant::kStripRows; ++r) {
    float* scales = args.scales + r * n_groups;
    float* offsets = args.offsets + r * n_groups;
    const size_t n_filled = r < args.n_rows ? args.k / quant::kScaleGroup : 0;
    for (size_t g = n_filled; g < n_groups; ++g) scales[g] = offsets[g] = 0.0f;
    factors[r] = row_factor<P>(scales, offsets, n_filled);
    inverse_factors[r] = 1.0f / factors[r];
  }
  for (size_t g = 0; g < n_groups; g += kGroupsAtOnce) {
    const size_t n = n_groups - g < kGroupsAtOnce ? n_groups - g : kGroupsAtOnce;
    uint8_t* block =
        out + g * quant::kScaleGroup / quant::kPackedBlock * P.block_bytes() + P.code_bytes();
    write_values<P>(args.scales + g, n_groups, n, inverse_factors, block);
    if constexpr (P.offsets) {
      write_values<P>(args.offsets + g, n_groups, n, inverse_factors, block + P.scale_bytes());
    }
  }
}

// Writes the head of 256 of k of 16 rows from their parts.
template <quant::Packing P>
inline void write_head(const quant::Parts (&parts)[quant::kStripRows], uint8_t* out) noexcept {
  constexpr size_t kParts = P.head_scale_bytes() / quant::kStripRows;
  float units[2][quant::kStripRows];
  for (size_t r = 0; r < quant::kStripRows; ++r) {
    units[0][r] = parts[r].unit;
    units[1][r] = -parts[r].min_unit;
  }
  if constexpr (P.offsets) {
    auto* halves = reinterpret_cast<uint16_t*>(out);
    for (size_t r = 0; r < quant::kStripRows; r += Isa::kLanes) {
      Isa::store_f16(halves + r, Isa::load(units[0] + r));
      Isa::store_f16(halves + quant::kStripRows + r, Isa::load(units[1] + r));
    }
  } else {
    __builtin_memcpy(out, units[0], sizeof units[0]);
  }
  out += quant::kHeadUnitBytes;
  for (size_t part = 0; part < kParts; ++part, out += quant::kStripRows) {
    for (size_t r = 0; r < quant::kStripRows; ++r) {
      out[r] = parts[r].scales[part];
      if constexpr (P.scale_form == quant::ScaleForm::kNibbles)
        out[r] = static_cast<uint8_t>(out[r] | (parts[r].mins[part] << 4));
    }
  }
  if constexpr (P.offsets && P.scale_form == quant::ScaleForm::kBytes) {
    for (size_t part = 0; part < kParts; ++part, out += quant::kStripRows) {
      for (size_t r = 0; r < quant::kStripRows; ++r) out[r] = parts[r].mins[part];
    }
  }
}

// Packs a strip with heads, whose rows are whole groups of 256. It needs no scratch memory.
template <class Format>
void pack_strip_with_heads(const PackArgs args) noexcept {
  constexpr quant::Packing kPacking = Format::kPacking;
  auto* out = reinterpret_cast<uint8_t*>(args.out);
  const float factor = 1.0f;
  for (size_t r = 0; r < quant::kStripRows; ++r, out += sizeof factor)
    __builtin_memcpy(out, &factor, sizeof factor);
  PackStep<Format> step;
  quant::Parts parts[quant::kStripRows];
  __builtin_memset(&step, 0, sizeof step);
  __builtin_memset(parts, 0, sizeof parts);
  for (size_t g = 0; g < args.k / quant::kHeadLen; ++g, out += kPacking.run_bytes()) {
    for (size_t r = 0; r < args.n_rows; ++r) {
      const auto& group =
          reinterpret_cast<const typename Format::Group*>(args.weight + r * args.row_bytes)[g];
      Format::template unpack_codes<UnpackIsa<Format>>(group,
                                                       reinterpret_cast<int8_t*>(step.codes[r]));
      Format::template unpack_parts<Isa>(group, parts[r]);
    }
    write_head<kPacking>(parts, out);
    for (size_t b = 0; b < kPacking.run_blocks(); ++b) {
      write_codes<kPacking>(step.codes[0] + b * quant::kPackedBlock, quant::kHeadLen,
                            out + kPacking.head_bytes() + b * kPacking.block_bytes());
    }
  }
}

// Scratch memory: scales and offsets [16][padded(k) / 16].
template <class Format>
void pack_strip_with_halves(const PackArgs& args) noexcept {
  constexpr quant::Packing kPacking = Format::kPacking;
  constexpr size_t kStepLen = PackStep<Format>::kLen;
  constexpr size_t kScaleBytes = kPacking.block_bytes() - kPacking.code_bytes();
  auto* out = reinterpret_cast<uint8_t*>(args.out) + quant::kStripRows * sizeof(float);
  PackStep<Format> step;
  for (size_t k = 0; k < args.k; k += kStepLen) {
    const size_t n = args.k - k < kStepLen ? args.k - k : kStepLen;
    uint8_t* blocks = out + k / quant::kPackedBlock * kPacking.block_bytes();
    if (n < kStepLen || args.n_rows < quant::kStripRows) {
      __builtin_memset(&step, 0, sizeof step);
      __builtin_memset(blocks + kPacking.code_bytes(), 0, kScaleBytes);
    }
    unpack_step<Format>(args, k, n, step, blocks + kPacking.code_bytes());
    for (size_t i = 0; i < n; i += quant::kPackedBlock) {
      write_codes<kPacking>(step.codes[0] + i, kStepLen,
                            blocks + i / quant::kPackedBlock * kPacking.block_bytes());
    }
  }
  if constexpr (kScalesAsTheyLie<Format>) {
    auto* factors = reinterpret_cast<float*>(args.out);
    for (size_t r = 0; r < quant::kStripRows; ++r) factors[r] = 1.0f;
  } else {
    write_scales<kPacking>(args, out);
  }
}

template <class Format>
void pack_strip(const PackArgs& args) noexcept {
  if constexpr (Format::kPacking.has_heads()) {
    pack_strip_with_heads<Format>(args);
  } else {
    pack_strip_with_halves<Format>(args);
  }
}

}  // namespace
}  // namespace billow::kernels
