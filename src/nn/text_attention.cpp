#include "nn/text_attention.h"

#include <algorithm>

#include "base/check.h"

namespace billow::nn {

std::vector<TextUnit> text_units(std::span<const uint32_t> ends, size_t n_heads) {
  // Long texts are cut, so that one text alone keeps many threads busy. Each cut brings the keys
  // and values into panels again.
  constexpr uint32_t kQueries = 256;
  std::vector<TextUnit> units;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    for (uint32_t query = 0; query < end - begin; query += kQueries) {
      const uint32_t query_end = std::min(end - begin, query + kQueries);
      for (uint32_t head = 0; head < n_heads; ++head)
        units.push_back({begin, end, head, query, query_end});
    }
    begin = end;
  }
  return units;
}

size_t text_attention_bytes(size_t longest_text, size_t head_len) {
  return kernels::text_attention_scratch_floats(longest_text, head_len) * sizeof(float);
}

void text_attention(const Compute& compute, std::span<const TextUnit> units, const TextHeads& heads,
                    tensor::Matrix out) {
  BILLOW_CHECK(heads.head_len % 8 == 0 && heads.q.n_cols == out.n_cols &&
               heads.k.n_cols == out.n_cols && heads.v.n_cols == out.n_cols);
  size_t longest = 0;
  for (const TextUnit& unit : units) longest = std::max<size_t>(longest, unit.end - unit.begin);
  const tensor::ArenaScope scope(compute.arena);
  const size_t n_own = kernels::text_attention_scratch_floats(longest, heads.head_len);
  float* scratch = compute.arena.array<float>(static_cast<size_t>(compute.team.size()) * n_own);
  compute.team.for_pieces(units.size(), 1, [&](size_t first, size_t last, int member) {
    for (size_t i = first; i < last; ++i) {
      const TextUnit& unit = units[i];
      const size_t at = unit.head * heads.head_len;
      compute.kernels.text_attention({.n_tokens = unit.end - unit.begin,
                                      .head_len = heads.head_len,
                                      .queries = heads.q.row(unit.begin) + at,
                                      .keys = heads.k.row(unit.begin) + at,
                                      .values = heads.v.row(unit.begin) + at,
                                      .outputs = out.row(unit.begin) + at,
                                      .stride = out.n_cols,
                                      .query_begin = unit.query_begin,
                                      .query_end = unit.query_end,
                                      .scale = heads.scale,
                                      .scratch = scratch + static_cast<size_t>(member) * n_own});
    }
  });
}

}  // namespace billow::nn
