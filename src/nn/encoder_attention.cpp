#include "nn/encoder_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace billow::nn {
namespace {

// Repeats each head of `few` so that all n_heads heads have one.
tensor::Matrix for_each_head(const Compute& compute, tensor::Matrix few, size_t n_heads,
                             size_t head_len) {
  const size_t n_few = few.n_cols / head_len;
  if (n_few == n_heads) return few;
  const tensor::Matrix all = compute.arena.matrix(few.n_rows, n_heads * head_len);
  if (compute.sizing != nullptr) return all;
  constexpr size_t kRowsAtOnce = 16;
  compute.team.for_pieces(few.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row)
      for (size_t head = 0; head < n_heads; ++head)
        std::copy_n(few.row(row) + head * n_few / n_heads * head_len, head_len,
                    all.row(row) + head * head_len);
  });
  return all;
}

// Number of sums in parallel, so that the order of additions is fixed.
constexpr size_t kLanes = 8;
using Lanes = std::array<float, kLanes>;

float dot(const float* a, const float* b, size_t n) {
  Lanes sums{};
  for (size_t i = 0; i < n; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  const float first = (sums[0] + sums[4]) + (sums[1] + sums[5]);
  return first + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void add_scaled(float* out, const float* x, float factor, size_t n) {
  for (size_t i = 0; i < n; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) out[i + lane] += factor * x[i + lane];
}

// Computes query by query for scores with a distance limit or slopes, because kernels support
// neither. `scores` has room for each token that a query sees.
void attend_apart(const TextHeads& heads, const TextUnit& unit, float* scores, tensor::Matrix out) {
  const size_t n = unit.end - unit.begin;
  const size_t at = unit.head * heads.head_len;
  const float slope = heads.slopes != nullptr ? heads.slopes[unit.head] : 0.0f;
  for (size_t query = unit.query_begin; query < unit.query_end; ++query) {
    const size_t first = heads.reach == 0 || query < heads.reach ? 0 : query - heads.reach;
    const size_t last = heads.reach == 0 ? n : std::min(n, query + heads.reach + 1);
    const float* q = heads.q.row(unit.begin + query) + at;
    for (size_t i = first; i < last; ++i) {
      const auto distance = static_cast<float>(i < query ? query - i : i - query);
      scores[i - first] =
          heads.scale * dot(q, heads.k.row(unit.begin + i) + at, heads.head_len) - slope * distance;
    }
    const float largest = *std::max_element(scores, scores + (last - first));
    float sum = 0.0f;
    float* to = out.row(unit.begin + query) + at;
    std::fill_n(to, heads.head_len, 0.0f);
    for (size_t i = first; i < last; ++i) {
      const float weight = std::exp(scores[i - first] - largest);
      sum += weight;
      add_scaled(to, heads.v.row(unit.begin + i) + at, weight, heads.head_len);
    }
    for (size_t i = 0; i < heads.head_len; ++i) to[i] /= sum;
  }
}

}  // namespace

std::vector<TextUnit> text_units(std::span<const uint32_t> ends, size_t n_heads, size_t n_threads) {
  if (ends.empty()) return {};
  // Each unit builds the panels of keys and values again, which fewer queries would not repay.
  constexpr size_t kMinQueries = 256;
  constexpr size_t kUnitsPerThread = 4;
  const size_t max_queries =
      std::max(kMinQueries, ends.back() * n_heads / (kUnitsPerThread * n_threads));
  std::vector<TextUnit> units;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    const uint32_t n = end - begin;
    const auto n_cuts = static_cast<uint32_t>((n + max_queries - 1) / max_queries);
    for (uint32_t cut = 0; cut < n_cuts; ++cut) {
      const auto at = [&](uint32_t i) { return static_cast<uint32_t>(uint64_t{n} * i / n_cuts); };
      for (uint32_t head = 0; head < n_heads; ++head)
        units.push_back({begin, end, head, at(cut), at(cut + 1)});
    }
    begin = end;
  }
  return units;
}

void encoder_attention(const Compute& compute, std::span<const TextUnit> units,
                       const TextHeads& given, tensor::Matrix out) {
  BILLOW_CHECK(given.head_len % 8 == 0 && given.q.n_cols == out.n_cols &&
               given.k.n_cols == given.v.n_cols && given.k.n_cols != 0 &&
               given.q.n_cols % given.k.n_cols == 0);
  size_t longest = compute.sizing != nullptr ? compute.sizing->n_positions : 0;
  for (const TextUnit& unit : units) longest = std::max<size_t>(longest, unit.end - unit.begin);
  const tensor::ArenaScope scope(compute.arena);
  TextHeads heads = given;
  const size_t n_heads = heads.q.n_cols / heads.head_len;
  heads.k = for_each_head(compute, heads.k, n_heads, heads.head_len);
  heads.v = for_each_head(compute, heads.v, n_heads, heads.head_len);
  const size_t n_own = kernels::encoder_attention_scratch_floats(longest, heads.head_len);
  float* scratch = compute.arena.array<float>(compute.n_threads() * n_own);
  if (compute.sizing != nullptr) return;
  const kernels::KernelTable& table = compute.kernels;
  const auto attend = heads.in_bf16 && table.encoder_attention_bf16 != nullptr
                          ? table.encoder_attention_bf16
                          : table.encoder_attention;
  compute.team.for_pieces(units.size(), 1, [&](size_t first, size_t last, int member) {
    float* own = scratch + static_cast<size_t>(member) * n_own;
    for (size_t i = first; i < last; ++i) {
      const TextUnit& unit = units[i];
      const size_t n = unit.end - unit.begin;
      const bool sees_all = heads.reach == 0 || n <= heads.reach + 1;
      if (!sees_all || heads.slopes != nullptr) {
        attend_apart(heads, unit, own, out);
        continue;
      }
      const size_t at = unit.head * heads.head_len;
      attend({.n_tokens = n,
              .head_len = heads.head_len,
              .queries = heads.q.row(unit.begin) + at,
              .keys = heads.k.row(unit.begin) + at,
              .values = heads.v.row(unit.begin) + at,
              .outputs = out.row(unit.begin) + at,
              .stride = out.n_cols,
              .query_begin = unit.query_begin,
              .query_end = unit.query_end,
              .scale = heads.scale,
              .scratch = own});
    }
  });
}

}  // namespace billow::nn
