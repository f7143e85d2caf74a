// Products of integer formats. For each output and 32 (or 16) of k, in order: an exact integer sum,
// one float multiply-add with the product of scales, and one with the offset. Weights from strips
// and from panels have the same order. So results do not depend on how many rows run together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/quantize.inl.h"
#include "kernels/body/strips.inl.h"
#include "kernels/kernel_table.h"
#include "quant/packing.h"

namespace billow::kernels {
namespace {

constexpr size_t kQuads = quant::kPackedBlock / 4;
constexpr size_t kQuadBytes = quant::kStripRows * 4;
using Words = uint16_t __attribute__((vector_size(sizeof(Isa::Bytes))));
constexpr size_t kInputQuads = kActivationGroup / 4;

constexpr size_t parts_of_block(quant::Packing p) { return kInputsOfBlock * p.scales_per_32; }

// The logarithm of the offset that makes codes unsigned; -1: no offset.
constexpr int zero_log2(quant::Packing p) {
  const int zero = p.is_signed() ? Isa::kSignedBias : p.zero();
  return zero == 0 ? -1 : __builtin_ctz(static_cast<unsigned>(zero));
}

// Returns the codebook's values of codes, ready for dot products; the codes if there is no
// codebook.
template <quant::Packing P>
inline Isa::Bytes looked_up(Isa::Bytes codes) noexcept {
  if constexpr (!P.has_codebook()) return codes;
  static constexpr quant::Codebook kTable = P.codebook();
  return Isa::prepare_signed(Isa::lookup_bytes(kTable.values, codes));
}

// Returns the codes of quad q of a block, half h, ready for dot products.
template <quant::Packing P>
inline Isa::Bytes packed_codes(const uint8_t* codes, size_t q, size_t h) noexcept {
  const size_t lane_bytes = h * kLaneBytes;
  if constexpr (P.bits == 8) {
    return Isa::prepare_signed(Isa::load_bytes(codes + q * kQuadBytes + lane_bytes));
  }
  if constexpr (P.bits < 4) {
    const auto four =
        reinterpret_cast<Words>(Isa::load_bytes(codes + q / 4 * kQuadBytes + lane_bytes));
    const Isa::Bytes low = reinterpret_cast<Isa::Bytes>(four >> static_cast<int>(q % 4 * 2)) & 3;
    if constexpr (P.bits == 2) return low;
    const uint8_t* high = codes + kQuads / 4 * kQuadBytes;
    return looked_up<P>(Isa::template bit_as<4>(low, high + 8 * q, h * Isa::kLanes));
  }
  const Isa::Bytes pair = Isa::load_bytes(codes + q / 2 * kQuadBytes + lane_bytes);
  const Isa::Bytes low = q % 2 == 0 ? pair & 15 : pair >> 4;
  const uint8_t* high = codes + kQuads / 2 * kQuadBytes;
  if constexpr (P.bits == 5) return Isa::template bit_as<16>(low, high + 8 * q, h * Isa::kLanes);
  if constexpr (P.bits == 6) {
    // There are no shifts of bytes, so a mask removes the bits that come from the other byte of a
    // word.
    const auto bits =
        reinterpret_cast<Words>(Isa::load_bytes(high + q / 4 * kQuadBytes + lane_bytes));
    const int j = static_cast<int>(q % 4);
    return low |
           (reinterpret_cast<Isa::Bytes>(j < 2 ? bits << (4 - 2 * j) : bits >> (2 * j - 4)) & 0x30);
  }
  return looked_up<P>(low);
}

// V vectors of weights directly from their strips, a block of k at a time.
template <quant::Packing P, size_t V>
struct StripWeights {
  static constexpr quant::Packing kPacking = P;
  static constexpr bool kPacked = true;  // codes are unpacked at each use
  static constexpr size_t kRunBytes = P.run_bytes();
  const uint8_t* run[V];  // for each vector's strip: the blocks between two heads, with their head
  size_t half[V];         // index of the vector within its strip
  size_t within;          // number of the block in its run
  size_t prefetch_bytes;

  StripWeights(const GemmArgs& args, size_t vector, size_t first_block) noexcept
      : within(first_block % P.run_blocks()), prefetch_bytes(args.prefetch_bytes) {
    for (size_t v = 0; v < V; ++v) {
      run[v] = strip_of<P>(args, vector + v) + quant::kStripRows * sizeof(float) +
               first_block / P.run_blocks() * kRunBytes;
      half[v] = (vector + v) % kHalves;
    }
  }
  Isa::Ints shift() const noexcept { return Isa::ints(zero_log2(P)); }
  void prefetch() const noexcept {
    constexpr size_t kShare = kRunBytes / P.run_blocks();
    for (size_t v = 0; v < V && prefetch_bytes > 0; ++v) {
      if (half[v] != 0) continue;
      const uint8_t* from = run[v] + within * kShare + prefetch_bytes;
      for (size_t at = 0; at < kShare; at += 64) __builtin_prefetch(from + at);
    }
  }
  Isa::Bytes codes(size_t quad, size_t v) const noexcept {
    return packed_codes<P>(run[v] + P.head_bytes() + within * P.block_bytes(), quad, half[v]);
  }
  F scale(size_t part, size_t v) const noexcept {
    if constexpr (!P.has_heads()) return halves(part, v);
    const uint8_t* bytes = head_bytes(part, v);
    if constexpr (P.scale_form == quant::ScaleForm::kNibbles)
      return Isa::load_low_nibbles(bytes) * unit(0, v);
    if constexpr (P.offsets) return Isa::load_unsigned(bytes) * unit(0, v);
    return Isa::load_signed(reinterpret_cast<const int8_t*>(bytes)) *
           Isa::load(reinterpret_cast<const float*>(run[v]) + half[v] * Isa::kLanes);
  }
  F offset(size_t part, size_t v) const noexcept {
    if constexpr (!P.has_heads()) return halves(parts_of_block(P) + part, v);
    const uint8_t* bytes = head_bytes(part, v);
    if constexpr (P.scale_form == quant::ScaleForm::kNibbles)
      return Isa::load_high_nibbles(bytes) * unit(1, v);
    return Isa::load_unsigned(bytes + P.head_scale_bytes()) * unit(1, v);
  }
  void next() noexcept {
    if (++within < P.run_blocks()) return;
    within = 0;
    for (size_t v = 0; v < V; ++v) run[v] += kRunBytes;
  }

 private:
  // For scales and offsets that are f16 in their block.
  F halves(size_t index, size_t v) const noexcept {
    return Isa::load_f16(reinterpret_cast<const uint16_t*>(run[v] + P.code_bytes()) +
                         index * quant::kStripRows + half[v] * Isa::kLanes);
  }
  // For scales and offsets that are bytes in a head.
  const uint8_t* head_bytes(size_t part, size_t v) const noexcept {
    return run[v] + quant::kHeadUnitBytes +
           (within * parts_of_block(P) + part) * quant::kStripRows + half[v] * Isa::kLanes;
  }
  F unit(size_t which, size_t v) const noexcept {
    return Isa::load_f16(reinterpret_cast<const uint16_t*>(run[v]) + which * quant::kStripRows +
                         half[v] * Isa::kLanes);
  }
};

// V vectors of weights, decoded once for many rows: bytes ready for dot products, scales as floats.
template <quant::Packing P, size_t V>
struct PanelWeights {
  static constexpr quant::Packing kPacking = P;
  static constexpr bool kPacked = false;
  static constexpr size_t kCodeBytes = kQuads * V * kLaneBytes;
  static constexpr size_t kScaleBytes = parts_of_block(P) * V * kLaneBytes;
  static constexpr size_t kBlockBytes = kCodeBytes + kScaleBytes * (P.offsets ? 2 : 1);
  const uint8_t* block;
  int log2;  // zero_log2 of the strips that the panel was decoded from

  Isa::Ints shift() const noexcept { return Isa::ints(log2); }
  void prefetch() const noexcept {}
  Isa::Bytes codes(size_t quad, size_t v) const noexcept {
    return Isa::load_bytes(block + (quad * V + v) * kLaneBytes);
  }
  F floats(size_t index, size_t v) const noexcept {
    return Isa::load(reinterpret_cast<const float*>(block + kCodeBytes) +
                     (index * V + v) * Isa::kLanes);
  }
  F scale(size_t part, size_t v) const noexcept { return floats(part, v); }
  F offset(size_t part, size_t v) const noexcept { return floats(parts_of_block(P) + part, v); }
  void next() noexcept { block += kBlockBytes; }

  template <class Weights>
  static void fill(Weights weights, size_t n_blocks, uint8_t* out) noexcept {
    for (size_t b = 0; b < n_blocks; ++b, weights.next(), out += kBlockBytes) {
      weights.prefetch();
      for (size_t q = 0; q < kQuads; ++q) {
        for (size_t v = 0; v < V; ++v)
          Isa::store_bytes(out + (q * V + v) * kLaneBytes, weights.codes(q, v));
      }
      auto* floats = reinterpret_cast<float*>(out + kCodeBytes);
      for (size_t part = 0; part < parts_of_block(P); ++part) {
        for (size_t v = 0; v < V; ++v) {
          float* to = floats + (part * V + v) * Isa::kLanes;
          Isa::store(to, weights.scale(part, v));
          if constexpr (P.offsets)
            Isa::store(to + parts_of_block(P) * V * Isa::kLanes, weights.offset(part, v));
        }
      }
    }
  }
};

// M rows of activations in the integer layout, 32 of k at a time.
template <size_t M>
struct InputRows {
  const std::byte* at;
  const int8_t* codes(size_t j) const noexcept {
    return reinterpret_cast<const int8_t*>(at) + j * kActivationGroup;
  }
  float scale(size_t j) const noexcept { return floats()[j]; }
  const int32_t* negative_code_sum(size_t which, size_t j) const noexcept {
    return reinterpret_cast<const int32_t*>(floats()) + (1 + which) * M + j;
  }
  float sum(size_t which, size_t j) const noexcept { return floats()[(4 + which) * M + j]; }
  void next() noexcept { at += M * kActivationRowBytes; }

 private:
  const float* floats() const noexcept {
    return reinterpret_cast<const float*>(at + M * kActivationGroup);
  }
};

// The same as add_quads, with 16-bit sums first: kQuadsAtOnce quads cannot overflow them. I is Isa,
// which may lack these functions.
template <class I, size_t kQuadsAtOnce, class Weights, size_t V, size_t M>
inline void add_quads_in_pairs(const Weights& weights, size_t quad, size_t n,
                               const InputRows<M>& rows, Isa::Ints (&sum)[V][M]) noexcept {
  for (size_t q = quad; q < quad + n; q += kQuadsAtOnce) {
    Isa::Bytes pairs[V][M] = {};
    const size_t end = q + kQuadsAtOnce < quad + n ? q + kQuadsAtOnce : quad + n;
    for (size_t i = q; i < end; ++i) {
      Isa::Bytes w[V];
      for (size_t v = 0; v < V; ++v) w[v] = weights.codes(i, v);
      for (size_t j = 0; j < M; ++j) {
        const Isa::Bytes x = Isa::broadcast4(rows.codes(j) + i % kInputQuads * 4);
        for (size_t v = 0; v < V; ++v) {
          pairs[v][j] = I::add_pairs(pairs[v][j], I::pairs(w[v], x));
        }
      }
    }
    for (size_t v = 0; v < V; ++v)
      for (size_t j = 0; j < M; ++j) sum[v][j] = I::add_widened(sum[v][j], pairs[v][j]);
  }
}

// sum[v][j] += dot products of n quads from `quad` on.
template <class Weights, size_t V, size_t M>
inline void add_quads(const Weights& weights, size_t quad, size_t n, const InputRows<M>& rows,
                      Isa::Ints (&sum)[V][M]) noexcept {
  constexpr bool kSigned = Weights::kPacking.is_signed();
  if constexpr (Isa::kPairs && !kSigned) {
    constexpr unsigned kBits = Weights::kPacking.bits;
    constexpr size_t kAtOnce = kBits <= 4 ? 8 : 8 >> (kBits - 4);
    return add_quads_in_pairs<Isa, kAtOnce, Weights, V, M>(weights, quad, n, rows, sum);
  }
  for (size_t q = quad; q < quad + n; ++q) {
    Isa::Bytes w[V];
    for (size_t v = 0; v < V; ++v) w[v] = weights.codes(q, v);
    for (size_t j = 0; j < M; ++j) {
      const Isa::Bytes x = Isa::broadcast4(rows.codes(j) + q % kInputQuads * 4);
      for (size_t v = 0; v < V; ++v) {
        sum[v][j] = kSigned ? Isa::dot4_signed(sum[v][j], w[v], x) : Isa::dot4(sum[v][j], w[v], x);
      }
    }
  }
}

// acc[v][j] += weight vector v * input row j over part s of 32 of k, the first or second of the
// block.
template <class Weights, size_t V, size_t M>
inline void add_part(const Weights& weights, size_t input, size_t s, const InputRows<M>& rows,
                     Isa::Ints shift, F (&acc)[V][M]) noexcept {
  constexpr quant::Packing kPacking = Weights::kPacking;
  constexpr size_t kScales = kPacking.scales_per_32;
  constexpr size_t kPartQuads = kActivationGroup / 4 / kScales;
  const size_t which = kScales == 2 ? s : 2;
  const size_t part = input * kScales + s;
  Isa::Ints sum[V][M];
  for (size_t j = 0; j < M; ++j) {
    const Isa::Ints start =
        kPacking.offsets ? Isa::ints(0) : Isa::shifted(rows.negative_code_sum(which, j), shift);
    for (size_t v = 0; v < V; ++v) sum[v][j] = start;
  }
  add_quads<Weights, V, M>(weights, part * kPartQuads, kPartQuads, rows, sum);
  for (size_t v = 0; v < V; ++v) {
    const F scale = weights.scale(part, v);
    for (size_t j = 0; j < M; ++j) {
      acc[v][j] = Isa::fma(Isa::to_float(sum[v][j]), scale * Isa::set1(rows.scale(j)), acc[v][j]);
    }
    if constexpr (kPacking.offsets) {
      const F offset = weights.offset(part, v);
      for (size_t j = 0; j < M; ++j)
        acc[v][j] = Isa::fma(offset, Isa::set1(rows.sum(which, j)), acc[v][j]);
    }
  }
}

// The same over n_blocks blocks of k. For one vector and few rows, the loops over parts are
// unrolled, so that shifts and addresses of codes are constants.
template <class Weights, size_t V, size_t M>
inline void multiply(Weights weights, InputRows<M> rows, size_t n_blocks, F (&acc)[V][M]) noexcept {
  constexpr size_t kScales = Weights::kPacking.scales_per_32;
  constexpr bool kUnrolled = Weights::kPacked && V * M <= 4;
  const Isa::Ints shift = weights.shift();
  for (size_t b = 0; b < n_blocks; ++b, weights.next()) {
    weights.prefetch();
    if constexpr (kUnrolled) {
#pragma GCC unroll 2
      for (size_t input = 0; input < kInputsOfBlock; ++input, rows.next()) {
#pragma GCC unroll 2
        for (size_t s = 0; s < kScales; ++s)
          add_part<Weights, V, M>(weights, input, s, rows, shift, acc);
      }
    } else {
      for (size_t input = 0; input < kInputsOfBlock; ++input, rows.next()) {
        for (size_t s = 0; s < kScales; ++s)
          add_part<Weights, V, M>(weights, input, s, rows, shift, acc);
      }
    }
  }
}

// The products of one integer format, for products.inl.h.
template <quant::Packing P>
struct IntegerProduct {
  static constexpr quant::Packing kPacking = P;
  static constexpr size_t kGroupRows = Isa::kGroupRows;
  static constexpr size_t kPanelVectors = Isa::kPanelVectors;
  static constexpr size_t kMaxPasses = Isa::kMaxPasses;
  static constexpr size_t kSlabBlocks = 16;
  static constexpr size_t kBlockRowBytes = kActivationRowBytes;
  template <size_t V>
  using Strips = StripWeights<P, V>;
  template <size_t V>
  using Panel = PanelWeights<P, V>;
  template <size_t M>
  using Rows = InputRows<M>;
  // To the product, panels of different codes are the same, unless pairs are summed in 16 bits.
  static constexpr uint8_t kUnsignedBits = Isa::kPairs ? (P.bits < 4 ? 4 : P.bits) : 6;
  static constexpr quant::Packing kPanelPacking = {
      .bits = P.is_signed() ? uint8_t{8} : kUnsignedBits,
      .scales_per_32 = P.scales_per_32,
      .offsets = P.offsets,
      .values = quant::CodeValues::kEven};
  using PanelProduct = IntegerProduct<kPanelPacking>;
  template <size_t V>
  static Panel<V> panel(const uint8_t* at, int log2) noexcept {
    return {at, log2};
  }
  static constexpr int kLog2 = zero_log2(P);

  template <class Weights, size_t V, size_t M>
  static void add(Weights weights, InputRows<M> rows, size_t n_blocks, F (&acc)[V][M]) noexcept {
    multiply<Weights, V, M>(weights, rows, n_blocks, acc);
  }
  static F factor(const GemmArgs& args, size_t vector) noexcept {
    return Isa::load(reinterpret_cast<const float*>(strip_of<P>(args, vector)) +
                     vector % kHalves * Isa::kLanes);
  }
};

}  // namespace
}  // namespace billow::kernels
