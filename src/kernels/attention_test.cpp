#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "kernels/test_data.h"
#include "quant/half.h"

namespace billow::kernels {
namespace {

// Rotates each group of 32 values (the last may have 16): H x / sqrt(n), where H is the Hadamard
// matrix.
void rotate(std::span<double> x) {
  for (size_t at = 0; at < x.size(); at += 32) {
    const auto group = x.subspan(at, std::min<size_t>(32, x.size() - at));
    const std::vector<double> before(group.begin(), group.end());
    for (size_t i = 0; i < group.size(); ++i) {
      group[i] = 0;
      for (size_t j = 0; j < group.size(); ++j)
        group[i] += std::popcount(i & j) % 2 == 0 ? before[j] : -before[j];
      group[i] /= std::sqrt(static_cast<double>(group.size()));
    }
  }
}

constexpr KvTypes kAllTypes[] = {
    KvType::kInt16, KvType::kQ8_0, KvType::kQ4_0, KvType::kF32, {KvType::kQ8_0, KvType::kQ4_0}};

// K and V of one head in several blocks, and the same values as plain numbers. The order of blocks
// differs from the order of positions.
struct Memory {
  Memory(KvTypes types_, size_t n_positions_, size_t k_len_, size_t v_len_)
      : types(types_), n_positions(n_positions_), k_len(k_len_), v_len(v_len_) {
    const std::vector<float> k = gaussian(n_positions * k_len, 1);
    const std::vector<float> v = gaussian(n_positions * v_len, 2);
    const size_t n_blocks = (n_positions + 63) / 64;
    // Memory that was never written contains large values and NaN scales, which must not affect a
    // row.
    bytes.assign(n_blocks * block_bytes() / 2, 0x7FFF);
    for (size_t b = 0; b < n_blocks; ++b) ids.push_back(static_cast<uint32_t>(n_blocks - 1 - b));
    for (size_t p = 0; p < n_positions; ++p) {
      std::byte* place = block(p);
      scalar().store_kv({.types = types,
                         .k = &k[p * k_len],
                         .v = &v[p * v_len],
                         .k_len = k_len,
                         .v_len = v_len,
                         .within = p % 64,
                         .k_block = place,
                         .v_block = place + kv_bytes(types.k, k_len)});
      for (size_t d = 0; d < k_len; ++d) keys.push_back(key(p, d));
      for (size_t d = 0; d < v_len; ++d) values.push_back(value(p, d));
    }
    for (size_t p = 0; p < n_positions && has_rotated_keys(); ++p)
      rotate({&keys[p * k_len], k_len});
    for (size_t p = 0; p < n_positions && types.v == KvType::kQ4_0; ++p)
      rotate({&values[p * v_len], v_len});
    const auto is_coarse = [](KvType type) { return type == KvType::kQ4_0; };
    for (size_t i = 0; i < keys.size(); ++i)
      EXPECT_NEAR(keys[i], k[i], is_coarse(types.k) ? 0.8 : 0.06);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], v[i], is_coarse(types.v) ? 0.8 : 0.02);
    EXPECT_LT(distance(keys, k), is_coarse(types.k) ? 0.1 : 0.01);
    EXPECT_LT(distance(values, v), is_coarse(types.v) ? 0.1 : 0.01);
  }
  bool has_rotated_keys() const { return types.k == KvType::kQ8_0 || types.k == KvType::kQ4_0; }
  // Returns the root of the mean square of the differences.
  static double distance(const std::vector<double>& a, const std::vector<float>& b) {
    double squares = 0.0;
    for (size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - static_cast<double>(b[i]), 2);
    return std::sqrt(squares / static_cast<double>(a.size()));
  }
  size_t block_bytes() const { return kv_bytes(types.k, k_len) + kv_bytes(types.v, v_len); }
  std::byte* block(size_t p) {
    return reinterpret_cast<std::byte*>(bytes.data()) + ids[p / 64] * block_bytes();
  }
  // Reads the layout of kernels/kv_block.h.
  template <class T>
  static T read(const std::byte* base, size_t index) {
    T value;
    std::memcpy(&value, base + sizeof(T) * index, sizeof(T));
    return value;
  }
  static double bf16(const std::byte* base, size_t index) {
    return std::bit_cast<float>(uint32_t{read<uint16_t>(base, index)} << 16);
  }
  static double half(const std::byte* base, size_t index) {
    return static_cast<double>(quant::f16_to_f32(read<uint16_t>(base, index)));
  }
  double key(size_t p, size_t d) {
    const std::byte* k = block(p);
    if (types.k == KvType::kF32) return static_cast<double>(read<float>(k, d * 64 + p % 64));
    const std::byte* scales = k + kv_code_bytes(types.k, k_len);
    if (types.k == KvType::kInt16)
      return read<int16_t>(k, (d / 2 * 64 + p % 64) * 2 + d % 2) * bf16(scales, p % 64);
    const double scale = half(scales, d / 32 * 64 + p % 64);
    if (types.k == KvType::kQ8_0) return read<int8_t>(k, (d / 4 * 64 + p % 64) * 4 + d % 4) * scale;
    const uint8_t both = read<uint8_t>(k, (d / 8 * 64 + p % 64) * 4 + d % 4);
    return ((d % 8 < 4 ? both & 15 : both >> 4) - 8) * scale;
  }
  double value(size_t p, size_t d) {
    const std::byte* v = block(p) + kv_bytes(types.k, k_len);
    if (types.v == KvType::kF32) return static_cast<double>(read<float>(v, p % 64 * v_len + d));
    const std::byte* scales = v + kv_code_bytes(types.v, v_len);
    const size_t at = (p % 64 / 2 * v_len + d) * 2 + p % 2;
    if (types.v == KvType::kInt16) return read<int16_t>(v, at) * bf16(scales, p % 64);
    const double scale = half(scales, d / 32 * 64 + p % 64);
    if (types.v == KvType::kQ8_0) return read<int8_t>(v, at) * scale;
    const size_t n_groups = (v_len + 31) / 32;
    const uint8_t both =
        read<uint8_t>(v, (p % 64 / 2 * n_groups + d / 32) * 32 + d % 16 * 2 + p % 2);
    const int code = d % 32 < 16 ? both & 15 : both >> 4;
    return (code < 8 ? code : code - 16) * scale;
  }

  // Computes plain softmax attention in double precision.
  std::vector<double> expected(const float* row, size_t first, size_t last, double scale,
                               double cap) const {
    const std::vector<double> query(row, row + k_len);
    std::vector<double> scores;
    for (size_t p = first; p <= last; ++p) {
      double score = 0;
      for (size_t d = 0; d < k_len; ++d) score += query[d] * keys[p * k_len + d];
      score *= scale;
      scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
    }
    double largest = -std::numeric_limits<double>::infinity();
    for (const double score : scores) largest = std::max(largest, score);
    std::vector<double> out(v_len);
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double weight = std::exp(scores[i] - largest);
      sum += weight;
      for (size_t d = 0; d < v_len; ++d) out[d] += weight * values[(first + i) * v_len + d];
    }
    for (double& v : out) v /= sum;
    return out;
  }

  KvTypes types;
  size_t n_positions, k_len, v_len;
  std::vector<double> keys, values;
  std::vector<uint16_t> bytes;
  std::vector<uint32_t> ids;
};

// Returns random queries. For Q8_0 and Q4_0, these queries survive the kernels' rounding without
// loss. So no result depends on how a value halfway between two codes is rounded.
std::vector<float> queries_for(const Memory& memory, size_t n_rows, unsigned seed) {
  std::vector<float> queries = gaussian(n_rows * memory.k_len, seed);
  for (size_t r = 0; r < n_rows && memory.has_rotated_keys(); ++r) {
    float* row = &queries[r * memory.k_len];
    std::vector<double> exact(row, row + memory.k_len);
    rotate(exact);
    for (size_t at = 0; at < exact.size(); at += 32) {
      const auto group = std::span(exact).subspan(at, std::min<size_t>(32, exact.size() - at));
      double largest = 0;
      for (const double value : group) largest = std::max(largest, std::abs(value));
      for (double& value : group) value = std::round(value * 127 / largest) * largest / 127;
    }
    rotate(exact);
    for (size_t d = 0; d < exact.size(); ++d) row[d] = static_cast<float>(exact[d]);
  }
  return queries;
}

struct Tokens {
  std::vector<uint32_t> first, last;
  size_t n_heads = 1;
  size_t n_rows() const { return first.size() * n_heads; }
};

constexpr float kScale = 0.2f;

// Returns [tokens][heads][v_len]. With `n_pieces`, computes spans in that many calls and merges
// them.
std::vector<float> run(const KernelTable& table, const Memory& memory,
                       const std::vector<float>& queries, const Tokens& tokens, float cap = 0.0f,
                       size_t n_pieces = 0) {
  const size_t n_rows = tokens.n_rows();
  std::vector<float> out(n_rows * memory.v_len);
  std::vector<float> scratch(attention_scratch_floats(n_rows, memory.k_len, memory.v_len) + 16);
  float* aligned = scratch.data();
  while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
  AttentionArgs args{.types = memory.types,
                     .n_tokens = tokens.first.size(),
                     .n_heads = tokens.n_heads,
                     .queries = queries.data(),
                     .query_stride = tokens.n_heads * memory.k_len,
                     .outputs = out.data(),
                     .output_stride = tokens.n_heads * memory.v_len,
                     .first = tokens.first.data(),
                     .last = tokens.last.data(),
                     .base = reinterpret_cast<const std::byte*>(memory.bytes.data()),
                     .block_ids = memory.ids.data(),
                     .block_bytes = memory.block_bytes(),
                     .k_offset = 0,
                     .v_offset = kv_bytes(memory.types.k, memory.k_len),
                     .k_len = memory.k_len,
                     .v_len = memory.v_len,
                     .scale = kScale,
                     .softcap = cap,
                     .scratch = aligned};
  const size_t begin = *std::min_element(tokens.first.begin(), tokens.first.end()) / kSpanPositions;
  const size_t end = *std::max_element(tokens.last.begin(), tokens.last.end()) / kSpanPositions + 1;
  std::vector<float> partials((end - begin) * n_rows * partial_floats(memory.v_len));
  for (size_t piece = 0; piece < n_pieces; ++piece) {
    args.span_begin = begin + piece * (end - begin) / n_pieces;
    args.span_end = begin + (piece + 1) * (end - begin) / n_pieces;
    args.partials = &partials[(args.span_begin - begin) * n_rows * partial_floats(memory.v_len)];
    table.attention(args);
  }
  args.span_begin = begin;
  args.span_end = end;
  args.partials = n_pieces > 0 ? partials.data() : nullptr;
  n_pieces > 0 ? table.merge_attention(args) : table.attention(args);
  return out;
}

// Tables whose `attention` is another table's kernel for rows that are read.
const std::vector<KernelTable>& tables_for_read_rows() {
  static std::deque<std::string> names;
  static const std::vector<KernelTable> made = [] {
    std::vector<KernelTable> copies;
    for (const KernelTable* table : fast_tables()) {
      if (table->read_attention == table->attention) continue;
      KernelTable& copy = copies.emplace_back(*table);
      copy.name = names.emplace_back(std::string(table->name) + "_read");
      copy.attention = table->read_attention;
    }
    return copies;
  }();
  return made;
}

bool is_for_read_rows(const KernelTable& table) {
  return table.has_read_kernels && table.attention == table.read_attention;
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  for (const KernelTable& table : tables_for_read_rows()) usable.push_back(&table);
  return usable;
}

// Queries, keys, values and weights in BF16 lose 2^-9 of their size.
double tolerance(const KernelTable& table) { return is_for_read_rows(table) ? 20.0 : 1.0; }

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Returns cases with one token and many, with windows and without. They begin and end at the edges
// of blocks and spans.
std::vector<Tokens> shapes(size_t n_heads) {
  std::vector<Tokens> shapes = {
      {{0}, {0}, n_heads}, {{0}, {599}, n_heads}, {{256}, {511}, n_heads}, {{255}, {256}, n_heads}};
  if (n_heads <= 8) {
    shapes.push_back({{0, 0, 0, 64, 63, 100, 170, 128, 1, 5},
                      {63, 64, 65, 64, 64, 227, 599, 191, 2, 280},
                      n_heads});
  }
  return shapes;
}

class Attention : public EachTable {};

// Queries are rounded to 1/32700 of their length, and weights to 1/8191 of the max of a block. Both
// round to nearest, so that most of these errors cancel.
void compare(const KernelTable& table, const Memory& memory, const Tokens& tokens, float cap) {
  const std::vector<float> queries = queries_for(memory, tokens.n_rows(), 3);
  const std::vector<float> out = run(table, memory, queries, tokens, cap);
  double squares = 0.0;
  for (size_t r = 0; r < tokens.n_rows(); ++r) {
    const size_t t = r / tokens.n_heads;
    const std::vector<double> expected =
        memory.expected(&queries[r * memory.k_len], tokens.first[t], tokens.last[t],
                        static_cast<double>(kScale), static_cast<double>(cap));
    for (size_t d = 0; d < memory.v_len; ++d) {
      const double error = static_cast<double>(out[r * memory.v_len + d]) - expected[d];
      squares += error * error;
      ASSERT_NEAR(error, 0.0, 2e-3 * tolerance(table))
          << "row " << r << " of " << tokens.n_rows() << ", heads " << tokens.n_heads << ", "
          << memory.k_len << " and " << memory.v_len << " long";
    }
  }
  EXPECT_LT(std::sqrt(squares / static_cast<double>(out.size())), 3e-4 * tolerance(table));
}

// With sanitizers, the reference in double precision takes most of the time, so there are fewer
// lengths and heads.
#ifdef NDEBUG
constexpr std::pair<size_t, size_t> kLengths[] = {{16, 48},  {64, 64},   {80, 80},
                                                  {112, 16}, {128, 128}, {256, 256}};
constexpr size_t kHeads[] = {1, 3, 7, 8, 16, 40};
#else
constexpr std::pair<size_t, size_t> kLengths[] = {{16, 48}, {80, 80}, {256, 256}};
constexpr size_t kHeads[] = {1, 3, 7, 40};
#endif

TEST_P(Attention, EqualsSoftmaxOverVisiblePositions) {
  for (const KvTypes types : kAllTypes) {
    for (const auto& [k_len, v_len] : kLengths) {
      const Memory memory(types, 600, k_len, v_len);
      for (const size_t n_heads : kHeads) {
        if (k_len > 128 && n_heads > 7) continue;  // slow, and covered by the other cases
        for (const Tokens& tokens : shapes(n_heads)) {
          compare(*GetParam(), memory, tokens, n_heads == 3 ? 3.0f : 0.0f);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Attention, IsBitwiseIndependentOfNeighboursAndOfSplits) {
  for (const KvTypes types : kAllTypes) {
    for (const size_t len : {32u, 80u}) {
      const Memory memory(types, 900, len, len);
      for (const size_t n_heads : {1u, 3u, 5u}) {
        Tokens tokens{{}, {}, n_heads};
        for (uint32_t t = 0; t < 20; ++t) {
          tokens.first.push_back(t % 3 == 0 ? t * 25 : 0);
          tokens.last.push_back(420 + t * 23);
        }
        const std::vector<float> queries = gaussian(tokens.n_rows() * len, 4);
        const std::vector<float> together = run(*GetParam(), memory, queries, tokens);
        for (const size_t n_pieces : {1u, 2u, 4u})
          EXPECT_TRUE(
              same_bits(run(*GetParam(), memory, queries, tokens, 0.0f, n_pieces), together));
        for (size_t t = 0; t < 20; ++t) {
          const size_t at = t * n_heads * len;
          const std::vector<float> query(queries.begin() + static_cast<long>(at),
                                         queries.begin() + static_cast<long>(at + n_heads * len));
          const Tokens alone{{tokens.first[t]}, {tokens.last[t]}, n_heads};
          const auto expected = std::span(together).subspan(at, n_heads * len);
          EXPECT_TRUE(same_bits(run(*GetParam(), memory, query, alone), expected));
          EXPECT_TRUE(same_bits(run(*GetParam(), memory, query, alone, 0.0f, 3), expected));
          const Tokens one_head{{tokens.first[t]}, {tokens.last[t]}, 1};
          EXPECT_TRUE(same_bits(run(*GetParam(), memory, query, one_head), expected.first(len)));
        }
      }
    }
  }
}

// Scores far apart: weights of 0, and a max that comes late.
TEST_P(Attention, SurvivesScoresFarApart) {
  for (const KvTypes types : kAllTypes) {
    const Memory memory(types, 600, 64, 64);
    std::vector<float> queries = queries_for(memory, 1, 5);
    for (float& value : queries) value *= 200.0f;
    const std::vector<float> out = run(*GetParam(), memory, queries, {{0}, {599}});
    // In BF16, scores of 300 are off by up to 1, so that another key may get most of the weight.
    if (is_for_read_rows(*GetParam())) {
      for (const float value : out) EXPECT_LT(std::abs(value), 8.0f);
      continue;
    }
    const std::vector<double> expected =
        memory.expected(queries.data(), 0, 599, static_cast<double>(kScale), 0.0);
    for (size_t d = 0; d < 64; ++d) EXPECT_NEAR(out[d], expected[d], 2e-3);
  }
}
// A value that is not finite, or too large for a scale, has no code, so that sums cannot overflow.
// The result of a row that sees it is not finite. The results of other rows do not change.
TEST_P(Attention, SurvivesValuesThatAreNotFinite) {
  constexpr size_t kLen = 64;
  constexpr size_t kAt = 70;  // the position
  for (const KvTypes types : kAllTypes) {
    const Memory before(types, 128, kLen, kLen);
    const std::vector<float> queries = queries_for(before, 2, 3);
    const Tokens tokens = {.first = {0, 0}, .last = {63, 127}};
    const std::vector<float> expected = run(*GetParam(), before, queries, tokens);
    const std::span first(expected.data(), kLen);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), 3e38f, -3e38f}) {
      for (const bool is_key : {true, false}) {
        Memory memory = before;
        std::vector<float> k = gaussian(kLen, 5);
        std::vector<float> v = gaussian(kLen, 6);
        (is_key ? k : v)[3] = bad;
        (is_key ? k : v)[40] = -bad;
        std::byte* place = memory.block(kAt);
        GetParam()->store_kv({.types = types,
                              .k = k.data(),
                              .v = v.data(),
                              .k_len = kLen,
                              .v_len = kLen,
                              .within = kAt % 64,
                              .k_block = place,
                              .v_block = place + kv_bytes(types.k, kLen)});
        const double stored = is_key ? memory.key(kAt, 3) : memory.value(kAt, 3);
        const bool has_no_code = types.k != KvType::kF32 || !std::isfinite(bad);
        EXPECT_EQ(std::isfinite(stored), !has_no_code) << bad;
        const std::vector<float> found = run(*GetParam(), memory, queries, tokens);
        EXPECT_TRUE(same_bits({found.data(), kLen}, first)) << bad;
        if (!is_key && has_no_code) {
          EXPECT_FALSE(std::isfinite(found[kLen + 3])) << bad;
        }
      }
      std::vector<float> asked = queries;
      asked[kLen + 3] = bad;
      const std::vector<float> found = run(*GetParam(), before, asked, tokens);
      EXPECT_TRUE(same_bits({found.data(), kLen}, first)) << bad;
    }
  }
}

TEST_P(Attention, StoresTheSameBytesAsScalar) {
  for (const KvTypes types : kAllTypes) {
    std::vector<float> k = gaussian(80, 6);
    std::vector<float> v = gaussian(48, 7);
    k[3] = 1e3f;
    k[40] = 1e-7f;
    for (size_t i = 16; i < 32; ++i) v[i] = 0.0f;
    for (size_t i = 32; i < 48; ++i) v[i] = 1e-12f;
    std::vector<std::vector<std::byte>> blocks;
    for (const KernelTable* table : {&scalar(), GetParam()}) {
      std::vector<std::byte> block(kv_bytes(types.k, 80) + kv_bytes(types.v, 48));
      table->store_kv({.types = types,
                       .k = k.data(),
                       .v = v.data(),
                       .k_len = 80,
                       .v_len = 48,
                       .within = 5,
                       .k_block = block.data(),
                       .v_block = block.data() + kv_bytes(types.k, 80)});
      blocks.push_back(block);
    }
    EXPECT_EQ(blocks[0], blocks[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Attention, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
