// The kernels of one instruction set as a table of function pointers. Pointers, sizes and strides
// only; no kernel allocates, throws or starts threads. Every table computes the same mathematics;
// the scalar one is the reference. All results for a row depend on that row alone, never on how
// many rows, threads or sequences run with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cpu/features.h"
#include "kernels/kv_block.h"
#include "quant/type.h"

namespace billow::kernels {

inline constexpr size_t kMaxGroupRows = 16;  // in any ActivationLayout

inline constexpr size_t kRowPadding = 64;
inline constexpr size_t padded(size_t k) {
  return (k + kRowPadding - 1) / kRowPadding * kRowPadding;
}

// Rows of activations, cut into groups of nearly equal size: group g has rows [begin(g), begin(g +
// 1)).
struct RowGroups {
  size_t n_rows = 0;
  size_t n = 0;  // groups

  constexpr size_t begin(size_t g) const {
    const size_t n_larger = n_rows % n;
    return g * (n_rows / n) + (g < n_larger ? g : n_larger);
  }
};

// What activations are in a form.
enum class InputKind : uint8_t {
  kCodes,  // 8-bit codes with scales: the integer form below
  kF32,
  kBF16,  // rounded to nearest; weights are multiplied as BF16, too
  kF16,   // scaled by powers of two; products are summed in half precision for 128 of k
};

// A form of activations that products take. It lies group after group of rows; a group of r rows
// is, for each 32 of k (padded(k) / 32 times, 0 beyond k), a block of r * block_row_bytes bytes. Up
// to few_rows rows stand in one group, more in groups of at most group_rows.
struct ActivationLayout {
  InputKind kind;
  size_t few_rows;
  size_t group_rows;
  size_t block_row_bytes;
  // One group of n_rows rows of k floats, which may lie anywhere.
  void (*quantize)(const float* const* rows, size_t n_rows, size_t k, std::byte* out) noexcept;

  RowGroups groups(size_t n_rows) const {
    return {n_rows, n_rows <= few_rows ? 1 : (n_rows + group_rows - 1) / group_rows};
  }
  size_t bytes(size_t n_rows, size_t k) const {
    return n_rows * (padded(k) / 32) * block_row_bytes;
  }
};

// The block of the integer form, one scale for each 32 values of a row, value = scale * code:
//   int8  codes[r][32]
//   float scales[r]
//   int32 negative_code_sums[3][r]   of the first 16, the last 16, all 32
//   float sums[3][r]                 scale * the sum of those codes
inline constexpr size_t kActivationGroup = 32;
inline constexpr size_t kActivationRowBytes = kActivationGroup + size_t{7} * 4;

// 16 or fewer rows of weights into one strip of the packed form (quant/packing.h). Float types need
// no scratch.
struct PackArgs {
  const std::byte* weight = nullptr;  // [n_rows][k] in groups of the type
  size_t row_bytes = 0;
  size_t n_rows = 0;  // 1 to 16; the strip's others become 0
  size_t k = 0;
  float* scales = nullptr;   // scratch: [16][padded(k) / 16]
  float* offsets = nullptr;  // scratch: the same
  std::byte* out = nullptr;  // Packing::strip_bytes(k) bytes, aligned to 64
};

// out[row][n] = dot(weight row n, input row) + bias[n] for n in [n_begin, n_end). n_begin is a
// multiple of 16.
struct GemmArgs {
  const std::byte* weight = nullptr;  // packed: strips of 16 rows
  size_t n_begin = 0;
  size_t n_end = 0;
  size_t m = 0;  // input rows
  size_t k = 0;
  const std::byte* input = nullptr;  // the rows in the type's ActivationLayout
  // Where rows stand in several groups: which of them are computed.
  size_t group_begin = 0;
  size_t group_end = 1;
  float* out =
      nullptr;  // [m] rows, out_stride floats apart, written at columns n_begin .. n_end - 1
  size_t out_stride = 0;
  const float* bias = nullptr;  // [n_end], or null for 0
  size_t prefetch_bytes = 0;    // how far ahead the strips are asked for; 0: not at all
};

// What there is for a weight format; all null for one that is not computed with.
struct TypeKernels {
  const ActivationLayout* input;
  void (*pack_strip)(const PackArgs&) noexcept;
  void (*gemm)(const GemmArgs&) noexcept;
};

// One position of one KV head, to be written into a block.
struct StoreKvArgs {
  KvType type = KvType::kInt16;
  const float* k = nullptr;  // k_len floats
  const float* v = nullptr;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  size_t within = 0;             // the position in the block, below 64
  std::byte* k_block = nullptr;  // the head's parts of the block
  std::byte* v_block = nullptr;
};

// Attention is defined over spans: 256 positions each, counted from position 0. A span gives a
// partial result (greatest score, sum of weights, weighted sum of values) from a fresh start;
// partial results are merged in order of the spans. So who computes which span, and together with
// which other rows, changes no bit of a result.
inline constexpr size_t kSpanPositions = 256;

// Query rows of one sequence against one KV head: n_heads neighbouring query heads of n_tokens
// tokens. Token t sees positions first[t] .. last[t].
struct AttentionArgs {
  KvType type = KvType::kInt16;
  size_t n_tokens = 0;
  size_t n_heads = 0;  // n_tokens * n_heads is at most kMaxAttentionRows
  const float* queries =
      nullptr;  // head h of token t: k_len floats at t * query_stride + h * k_len
  size_t query_stride = 0;
  float* outputs = nullptr;  // likewise, of v_len floats
  size_t output_stride = 0;
  const uint32_t* first = nullptr;      // [n_tokens]
  const uint32_t* last = nullptr;       // [n_tokens], inclusive
  const std::byte* base = nullptr;      // the pool's blocks
  const uint32_t* block_ids = nullptr;  // [position / 64]
  size_t block_bytes = 0;
  size_t k_offset = 0;  // of this layer's and head's K in a block, bytes
  size_t v_offset = 0;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  float scale = 1.0f;    // of the dot products
  float softcap = 0.0f;  // score = softcap * tanh(score / softcap); 0 = none
  // A score that each head adds to the softmax without a value (gpt-oss), or null. [n_heads]
  const float* sinks = nullptr;
  // ALiBi (Press et al., arXiv 2108.12409), or null: head h adds slopes[h] * (key's position -
  // positions[t]) to each score. Not together with a softcap.
  const float* slopes = nullptr;        // [n_heads]
  const uint32_t* positions = nullptr;  // [n_tokens], of the queries
  size_t span_begin = 0;                // the spans to compute, or to merge
  size_t span_end = 0;
  float* partials = nullptr;  // [spans][rows][partial_floats(v_len)]; null: outputs are written
  float* scratch = nullptr;   // attention_scratch_floats() floats, aligned to 64 bytes
};
inline constexpr size_t kMaxAttentionRows = 112;
inline constexpr size_t partial_floats(size_t v_len) { return v_len + 32; }
inline constexpr size_t attention_scratch_floats(size_t n_rows, size_t k_len, size_t v_len) {
  return n_rows * (k_len + 2 * partial_floats(v_len)) + size_t{16} * kBlockPositions;
}

// Attention of the tokens of one text to all of them, for one head, in 32-bit floats; what encoders
// compute. Only queries [query_begin, query_end) are computed.
struct EncoderAttentionArgs {
  size_t n_tokens = 0;
  size_t head_len = 0;  // any multiple of 8
  // The head's values of token 0; those of the next token lie a stride of floats behind.
  const float* queries = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  float* outputs = nullptr;
  size_t stride = 0;  // of all four
  size_t query_begin = 0;
  size_t query_end = 0;
  float scale = 1.0f;        // of the dot products; positive
  float* scratch = nullptr;  // encoder_attention_scratch_floats() floats, aligned to 64 bytes
};
inline constexpr size_t kTextPanel = 16;                // keys, or values of a head, side by side
inline constexpr size_t kMaxEncoderAttentionRows = 12;  // queries that run side by side
inline constexpr size_t encoder_attention_scratch_floats(size_t n_tokens, size_t head_len) {
  const size_t n = (n_tokens + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t len = (head_len + kTextPanel - 1) / kTextPanel * kTextPanel;
  return n * (2 * len + kMaxEncoderAttentionRows);
}

// A low-rank addition to one row of a product: out[i] += sum over j of h[j] * b[i][j], in order of
// j. Outputs stand in blocks of kLowRankBlock: for each block, `rank` rows of that many values.
// Rows of codes have a scale each, floats behind all rows of the block. The last block is filled up
// with 0.
inline constexpr size_t kLowRankBlock = 64;
enum class LowRankValues : uint8_t { kFloats, kHalves, kCodes };  // F32, F16, int8
struct LowRankArgs {
  const std::byte* b = nullptr;  // aligned to 64 bytes
  LowRankValues values = LowRankValues::kFloats;
  size_t rank = 0;
  const float* h = nullptr;  // [rank]
  size_t n = 0;              // outputs
  float* out = nullptr;      // [n]
};
inline constexpr size_t low_rank_bytes(size_t n, size_t rank, LowRankValues values) {
  const size_t n_blocks = (n + kLowRankBlock - 1) / kLowRankBlock;
  const size_t n_rows = n_blocks * rank;
  if (values == LowRankValues::kCodes) return n_rows * (kLowRankBlock + sizeof(float));
  return n_rows * kLowRankBlock * (values == LowRankValues::kHalves ? 2 : sizeof(float));
}

enum class RopeKind : uint8_t {
  kAdjacent,  // rotates (2i, 2i+1): "norm"
  kHalves,    // rotates (i, i + n_rot/2): "neox"
};

struct StateKernels;  // kernels/state_kernels.h

using TypeTable = std::array<TypeKernels, 43>;  // by quant::Type

struct KernelTable {
  std::string_view name;
  bool (*supported)(const cpu::Features&) noexcept;
  // Whether it is chosen unasked: supported, and no slower there than the tables after it.
  bool (*preferred)(const cpu::Features&) noexcept;
  bool is_for_encoders;  // slow where only a few rows are evaluated, so chosen for encoders only

  TypeTable types;
  const TypeKernels& of(quant::Type type) const { return types[static_cast<size_t>(type)]; }

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, size_t n, float eps, float* out) noexcept;
  // out = (y - mean(y)) / sqrt(variance(y) + eps) * weight + bias, of y = x + residual, or x where
  // residual is null. `out` may be `x` or `residual`.
  void (*layer_norm)(const float* x, const float* residual, const float* weight, const float* bias,
                     size_t n, float eps, float* out) noexcept;
  // Rotates the first n_rot values of each of n_heads heads in place; cosines and sines have n_rot
  // / 2 values.
  void (*rope)(float* x, size_t n_heads, size_t head_len, size_t n_rot, RopeKind kind,
               const float* cosines, const float* sines) noexcept;
  // gate[i] = silu(gate[i]) * up[i]; gate[i] = gelu_tanh(gate[i]) * up[i].
  void (*silu_multiply)(float* gate, const float* up, size_t n) noexcept;
  void (*gelu_multiply)(float* gate, const float* up, size_t n) noexcept;
  // x[i] = x[i] * (1 + erf(x[i] / sqrt(2))) / 2
  void (*gelu)(float* x, size_t n) noexcept;
  void (*gelu_tanh)(float* x, size_t n) noexcept;
  // The gated unit of gpt-oss: with g = min(gate[i], limit) and u = up[i] clamped to +-limit,
  // gate[i] = g * sigmoid(1.702 * g) * (u + 1).
  void (*clamped_silu_multiply)(float* gate, const float* up, size_t n, float limit) noexcept;
  // x[i] = x[i] * sigmoid(gate[i])
  void (*sigmoid_multiply)(float* x, const float* gate, size_t n) noexcept;
  void (*add)(float* x, const float* y, size_t n) noexcept;  // x += y
  void (*add_low_rank)(const LowRankArgs&) noexcept;
  // x[i] = softcap * tanh(x[i] / softcap)
  void (*softcap)(float* x, size_t n, float softcap) noexcept;
  void (*store_kv)(const StoreKvArgs&) noexcept;
  // The spans [span_begin, span_end) of the rows: their partial results where args.partials is
  // given, else the outputs, which then need all spans that a row sees.
  void (*attention)(const AttentionArgs&) noexcept;
  // The outputs from all partial results: [span_begin, span_end) in args.partials.
  void (*merge_attention)(const AttentionArgs&) noexcept;
  // Rows that attention takes at once: fewer use the processor less well.
  size_t attention_rows;
  void (*encoder_attention)(const EncoderAttentionArgs&) noexcept;
  const StateKernels* states;
};

// The tables of this build, best first; scalar is the last.
std::span<const KernelTable* const> tables() noexcept;

// What a model evaluates: sequences that are written, often a row at a time, or whole texts.
enum class Work : uint8_t { kSequences, kEncoder };

// The first table that is preferred on this processor for the work, or the one that `forced` names
// (as given by BILLOW_ISA; empty: none). An unknown or unsupported name is an Error that lists the
// names.
const KernelTable& select_table(std::string_view forced, Work work = Work::kSequences);

// select_table with the value of the environment variable BILLOW_ISA.
const KernelTable& select_table(Work work = Work::kSequences);

}  // namespace billow::kernels
