// The kernels of one instruction set as a table of function pointers. Kernels take only pointers,
// sizes and strides; they do not allocate, throw or start threads. Every table computes the same
// mathematics; the scalar table is the reference. A row's result depends only on that row, never on
// how many rows, threads or sequences run with it.
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

// Rows of activations, divided into groups of nearly equal size: group g has rows [begin(g),
// begin(g + 1)).
struct RowGroups {
  size_t n_rows = 0;
  size_t n = 0;  // groups

  constexpr size_t begin(size_t g) const {
    const size_t n_larger = n_rows % n;
    return g * (n_rows / n) + (g < n_larger ? g : n_larger);
  }
};

// The values of activations in a layout.
enum class InputKind : uint8_t {
  kCodes,  // 8-bit codes with scales: the integer layout below
  kF32,
  kBF16,  // rounded to nearest; weights are also multiplied as BF16
  kF16,   // scaled by powers of two; products are summed in half precision for 128 of k
};

// A layout of activations for products: groups of rows, one after another. A group of r rows has a
// block of r * block_row_bytes bytes for each 32 of k: padded(k) / 32 blocks, with 0 beyond k. Up
// to few_rows rows are one group; more rows are divided into groups of at most group_rows.
struct ActivationLayout {
  InputKind kind;
  size_t few_rows;
  size_t group_rows;
  size_t block_row_bytes;
  // Quantizes one group of n_rows rows of k floats. Each row may be anywhere in memory.
  void (*quantize)(const float* const* rows, size_t n_rows, size_t k, std::byte* out) noexcept;

  RowGroups groups(size_t n_rows) const {
    return {n_rows, n_rows <= few_rows ? 1 : (n_rows + group_rows - 1) / group_rows};
  }
  size_t bytes(size_t n_rows, size_t k) const {
    return n_rows * (padded(k) / 32) * block_row_bytes;
  }
};

// The block of the integer layout. 32 values of a row share one scale; value = scale * code.
//   int8  codes[r][32]
//   float scales[r]
//   int32 negative_code_sums[3][r]   of the first 16 codes, the last 16, all 32
//   float sums[3][r]                 scale * the sum of these codes
inline constexpr size_t kActivationGroup = 32;
inline constexpr size_t kActivationRowBytes = kActivationGroup + size_t{7} * 4;

// Packs 1 to 16 rows of weights into one strip of the packed form (quant/packing.h). Float types
// need no scratch memory.
struct PackArgs {
  const std::byte* weight = nullptr;  // [n_rows][k] in groups of the type
  size_t row_bytes = 0;
  size_t n_rows = 0;  // 1 to 16; the other rows of the strip become 0
  size_t k = 0;
  float* scales = nullptr;   // scratch: [16][padded(k) / 16]
  float* offsets = nullptr;  // scratch: the same shape
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
  // The groups to compute, if the rows are in several groups.
  size_t group_begin = 0;
  size_t group_end = 1;
  // [m] rows, out_stride floats apart; columns n_begin .. n_end - 1 are written.
  float* out = nullptr;
  size_t out_stride = 0;
  const float* bias = nullptr;  // [n_end], or null for 0
  size_t prefetch_bytes = 0;    // prefetch distance for the strips; 0: no prefetch
};

// What a row of a pass is to its request. A table may have faster, slightly different kernels for
// rows that are read, because these come in large numbers. The kind of a row never depends on which
// rows are in the same pass.
enum class RowKind : uint8_t {
  kWritten,  // a token of an answer, and each row's logits
  kRead,     // a token of a prompt or of a text to embed
};

// The kernels for a weight format; all null for an unsupported format.
struct TypeKernels {
  const ActivationLayout* input;
  void (*pack_strip)(const PackArgs&) noexcept;
  void (*gemm)(const GemmArgs&) noexcept;
};

// The arguments to write one position of one KV head into a block.
struct StoreKvArgs {
  KvTypes types;
  const float* k = nullptr;  // k_len floats
  const float* v = nullptr;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  size_t within = 0;             // the position within the block, below 64
  std::byte* k_block = nullptr;  // the head's part of the block
  std::byte* v_block = nullptr;
};

// Attention is defined over spans: 256 positions each, counted from position 0. Each span gives a
// separate partial result: max score, sum of weights, weighted sum of values. Partial results are
// merged in order of the spans. So it does not matter which call computes which span, or with which
// other rows: every bit of a result stays the same.
inline constexpr size_t kSpanPositions = 256;

// Query rows of one sequence with one KV head: n_heads adjacent query heads of n_tokens tokens.
// Token t sees positions first[t] .. last[t].
struct AttentionArgs {
  KvTypes types;
  size_t n_tokens = 0;
  size_t n_heads = 0;  // n_tokens * n_heads is at most kMaxAttentionRows
  // Head h of token t: k_len floats at t * query_stride + h * k_len.
  const float* queries = nullptr;
  size_t query_stride = 0;
  float* outputs = nullptr;  // the same layout, with v_len floats
  size_t output_stride = 0;
  const uint32_t* first = nullptr;      // [n_tokens]
  const uint32_t* last = nullptr;       // [n_tokens], inclusive
  const std::byte* base = nullptr;      // the pool's blocks
  const uint32_t* block_ids = nullptr;  // [position / 64]
  size_t block_bytes = 0;
  size_t k_offset = 0;  // offset in bytes of the K of this layer and head in a block
  size_t v_offset = 0;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  float scale = 1.0f;    // multiplies the dot products
  float softcap = 0.0f;  // score = softcap * tanh(score / softcap); 0: none
  // [n_heads] a score that each head adds to the softmax without a value (gpt-oss), or null.
  const float* sinks = nullptr;
  // ALiBi (Press et al., arXiv 2108.12409), or null: head h adds slopes[h] * (key's position -
  // positions[t]) to each score. Not together with a softcap.
  const float* slopes = nullptr;        // [n_heads]
  const uint32_t* positions = nullptr;  // [n_tokens], positions of the queries
  size_t span_begin = 0;                // the spans to compute or to merge
  size_t span_end = 0;
  float* partials = nullptr;  // [spans][rows][partial_floats(v_len)]; null: writes outputs instead
  float* scratch = nullptr;   // attention_scratch_floats() floats, aligned to 64 bytes
};
inline constexpr size_t kMaxAttentionRows = 112;
inline constexpr size_t partial_floats(size_t v_len) { return v_len + 32; }
inline constexpr size_t attention_scratch_floats(size_t n_rows, size_t k_len, size_t v_len) {
  // With tiles: keys and values of a span in two bytes, scores and weights of 16 rows.
  const size_t of_span = kSpanPositions * (padded(k_len) + v_len + size_t{48}) / 2;
  return n_rows * (k_len + 2 * partial_floats(v_len)) + of_span;
}

// Attention of encoders: the tokens of one text see all tokens of the text. One head, in 32-bit
// floats. Only queries [query_begin, query_end) are computed.
struct EncoderAttentionArgs {
  size_t n_tokens = 0;
  size_t head_len = 0;  // any multiple of 8
  // The head's values of token 0. The next token's values are `stride` floats further.
  const float* queries = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  float* outputs = nullptr;
  size_t stride = 0;  // of queries, keys, values and outputs
  size_t query_begin = 0;
  size_t query_end = 0;
  float scale = 1.0f;        // multiplies the dot products; positive
  float* scratch = nullptr;  // encoder_attention_scratch_floats() floats, aligned to 64 bytes
};
inline constexpr size_t kTextPanel = 16;                // adjacent keys, or values of a head
inline constexpr size_t kMaxEncoderAttentionRows = 12;  // queries that are computed together
// Of the form for BF16: queries that are computed together, and keys of a block.
inline constexpr size_t kMaxTextQueries = 48;
inline constexpr size_t kTextBlock = 128;
inline constexpr size_t encoder_attention_scratch_floats(size_t n_tokens, size_t head_len) {
  const size_t n = (n_tokens + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t len = (head_len + kTextPanel - 1) / kTextPanel * kTextPanel;
  const size_t in_floats = n * (2 * len + kMaxEncoderAttentionRows);
  // Scores and outputs, half as much for weights and queries, then keys and values of two bytes.
  const size_t block = n < kTextBlock ? n : kTextBlock;
  const size_t in_bf16 = (block + len) * kMaxTextQueries * 3 / 2 + n * len;
  return in_floats > in_bf16 ? in_floats : in_bf16;
}

// A low-rank addition to one row of a product: out[i] += sum over j of h[j] * b[i][j], in order of
// j. Outputs are in blocks of kLowRankBlock. Each block has `rank` rows of that many values. Each
// row of codes has a scale; the scales are floats after all rows of the block. The last block is
// padded with 0.
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
  // Whether select_table() chooses this table by default: it is supported, and no slower than later
  // tables.
  bool (*preferred)(const cpu::Features&) noexcept;
  bool is_for_encoders;  // slow for few rows, so chosen only for encoders

  TypeTable types;
  const TypeKernels& of(quant::Type type) const { return types[static_cast<size_t>(type)]; }
  // For rows of RowKind::kRead. They use the same packed forms as `types`.
  TypeTable read_types;
  const TypeKernels& of(quant::Type type, RowKind kind) const {
    return (kind == RowKind::kRead ? read_types : types)[static_cast<size_t>(type)];
  }
  // Whether any kernel for rows that are read differs from that for rows that are written.
  bool has_read_kernels;

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, size_t n, float eps, float* out) noexcept;
  // out = (y - mean(y)) / sqrt(variance(y) + eps) * weight + bias, where y = x + residual, or x if
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
  // Computes spans [span_begin, span_end) of the rows. Writes partial results if args.partials is
  // set. Otherwise writes outputs, which requires all spans that a row sees.
  void (*attention)(const AttentionArgs&) noexcept;
  // The same for tokens of RowKind::kRead.
  void (*read_attention)(const AttentionArgs&) noexcept;
  // Merges the partial results in args.partials, spans [span_begin, span_end), into outputs.
  void (*merge_attention)(const AttentionArgs&) noexcept;
  // Rows per call that use the processor well; fewer rows use it less well.
  size_t attention_rows;
  void (*encoder_attention)(const EncoderAttentionArgs&) noexcept;
  // The same with queries, keys, values and weights rounded to BF16, or null. For models whose
  // products round activations to BF16, too.
  void (*encoder_attention_bf16)(const EncoderAttentionArgs&) noexcept;
  const StateKernels* states;
};

// Returns the tables of this build, best first; scalar is the last.
std::span<const KernelTable* const> tables() noexcept;

// The work of a model: sequences that are generated, often one row at a time, or whole texts.
enum class Work : uint8_t { kSequences, kEncoder };

// Returns the first table that is preferred on this processor for the work, or the table named
// `forced` (from BILLOW_ISA; empty: none). Throws Error if the processor does not support the named
// table, or if the name is unknown; then the error lists all names.
const KernelTable& select_table(std::string_view forced, Work work = Work::kSequences);

// Calls select_table() with the value of the environment variable BILLOW_ISA.
const KernelTable& select_table(Work work = Work::kSequences);

}  // namespace billow::kernels
