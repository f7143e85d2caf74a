#include "nn/low_rank.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "nn/for_rows.h"

namespace billow::nn {
namespace {

size_t n_blocks(size_t n_outputs) {
  return (n_outputs + kernels::kLowRankBlock - 1) / kernels::kLowRankBlock;
}

// out[i] += b h for the outputs of blocks [begin, end).
void add_blocks(const kernels::KernelTable& kernels, const LowRank& pair, const float* h,
                size_t begin, size_t end, float* out, size_t n_outputs) {
  constexpr size_t kBlock = kernels::kLowRankBlock;
  const size_t first = begin * kBlock;
  kernels.add_low_rank({.b = pair.b + kernels::low_rank_bytes(first, pair.rank(), pair.b_values),
                        .values = pair.b_values,
                        .rank = pair.rank(),
                        .h = h,
                        .n = std::min(end * kBlock, n_outputs) - first,
                        .out = out + first});
}

void scale_row(float* row, size_t n, float factor) {
  if (factor != 1.0f) std::for_each_n(row, n, [factor](float& value) { value *= factor; });
}

}  // namespace

LowRankSums::LowRankSums(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
                         std::span<const RowsProduct> products, const Inputs& of_products)
    : compute_(compute), of_products_(of_products), inputs_(compute, x, rows) {
  const size_t rank = compute.adapter_rank();
  if (rank == 0) return;
  if (compute.sizing != nullptr) {
    for (const RowsProduct& product : products) {
      const quant::Type type = adapter_type(product.weight.type, product.weight.n_cols);
      inputs_.add(compute.kernels.of(type).input, product.begin, product.end);
      h_of(product.out, rank);
    }
    return;
  }
  BILLOW_CHECK(x.n_rows % compute.adapters.size() == 0);
  const auto adapter_at = [&](size_t input) {
    return adapter_of(compute.adapters, inputs_.row_of(input));
  };
  // Products of the same inputs are adjacent, and so are the parts of the same rows.
  while (!products.empty()) {
    const RowsProduct& run = products.front();
    const auto is_same = [&](const RowsProduct& product) { return product.begin == run.begin; };
    const auto next = std::ranges::find_if_not(products, is_same);
    const std::span<const RowsProduct> same(products.begin(), next);
    for (size_t begin = run.begin; begin < run.end;) {
      const Adapter* const adapter = adapter_at(begin);
      size_t end = begin + 1;
      while (end < run.end && adapter_at(end) == adapter) ++end;
      if (adapter != nullptr)
        for (const RowsProduct& product : same) add_part(*adapter, product, begin, end, rank);
      begin = end;
    }
    products = products.subspan(same.size());
  }
}

void LowRankSums::add_part(const Adapter& adapter, const RowsProduct& product, size_t begin,
                           size_t end, size_t rank) {
  const LowRank* const pair = adapter.find(product.weight.data);
  if (pair == nullptr) return;
  const tensor::Matrix all = h_of(product.out, rank);
  const tensor::Matrix h = {all.row(begin), end - begin, all.n_cols};
  const tensor::Matrix out = {product.out.row(begin), end - begin, product.out.n_cols};
  const size_t n_before = parts_.empty() ? 0 : parts_.back().end;
  parts_.push_back({pair, h, out, n_before + n_blocks(product.weight.n_rows)});
  const kernels::ActivationLayout* const layout = compute_.kernels.of(pair->a.type).input;
  const bool is_there = of_products_.has(layout, begin, end);
  if (!is_there) inputs_.add(layout, begin, end);
  firsts_.push_back({{pair->a, nullptr, h}, is_there ? &of_products_ : &inputs_, begin});
}

// Products of different inputs can share outputs. Then their adapters share h, too.
tensor::Matrix LowRankSums::h_of(const tensor::Matrix& out, size_t rank) {
  const auto found = std::ranges::find(sums_, out.data, &Sums::out);
  if (found != sums_.end() && out.data != nullptr) return found->h;
  sums_.push_back({out.data, compute_.arena.matrix(inputs_.size(), rank)});
  return sums_.back().h;
}

void LowRankSums::add_to_outputs() const {
  if (parts_.empty()) return;
  const auto scale = [](const Part& part, size_t row) {
    scale_row(part.h.row(row), part.pair->rank(), part.pair->b_scale);
  };
  size_t n_bytes = 0;  // bytes that rows read
  for (const Part& part : parts_) {
    for (size_t row = 0; row < part.h.n_rows; ++row) scale(part, row);
    n_bytes += part.h.n_rows *
               kernels::low_rank_bytes(part.out.n_cols, part.pair->rank(), part.pair->b_values);
  }
  const auto add = [&](size_t begin, size_t end, int) {
    auto part = std::ranges::upper_bound(parts_, begin, {}, &Part::end);
    for (; begin < end; ++part) {
      const size_t first = part == parts_.begin() ? 0 : std::prev(part)->end;
      const size_t last = std::min(end, part->end);
      // Several rows use one block after another, while the block is in the cache.
      const size_t n_at_once = part->h.n_rows == 1 ? last - begin : 1;
      for (; begin < last; begin += n_at_once) {
        for (size_t row = 0; row < part->h.n_rows; ++row) {
          add_blocks(compute_.kernels, *part->pair, part->h.row(row), begin - first,
                     begin - first + n_at_once, part->out.row(row), part->out.n_cols);
        }
      }
    }
  };
  // Waking the team takes as long as one thread needs for this many bytes.
  constexpr size_t kWorthATeam = size_t{64} << 10;
  const size_t n_blocks_of_all = parts_.back().end;
  if (n_bytes < kWorthATeam)
    add(0, n_blocks_of_all, 0);
  else
    compute_.team.for_shares(n_blocks_of_all, add);
}

void add_to_embedding(const Compute& compute, std::span<const int32_t> tokens, tensor::Matrix x) {
  const size_t rank = compute.adapter_rank();
  if (rank == 0) return;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix looked_up = compute.arena.matrix(x.n_rows, rank);
  if (compute.sizing != nullptr) return;
  for_rows(compute, x.n_rows, [&](size_t row) {
    const Adapter* const adapter = adapter_of(compute.adapters, row);
    const LowRank* const pair = adapter == nullptr ? nullptr : adapter->embedding();
    if (pair == nullptr) return;
    float* const h = looked_up.row(row);
    const size_t n = pair->a.n_cols;
    quant::row(pair->a.type).decode(pair->a.row(static_cast<size_t>(tokens[row])), n, h);
    scale_row(h, n, pair->b_scale);
    compute.kernels.add_low_rank({.b = pair->b,
                                  .values = pair->b_values,
                                  .rank = n,
                                  .h = h,
                                  .n = x.n_cols,
                                  .out = x.row(row)});
  });
}

}  // namespace billow::nn
