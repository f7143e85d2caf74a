#include "nn/packing_scratch.h"

#include <algorithm>

#include "quant/unpack.h"

namespace billow::nn {

std::vector<PackingScratch> make_packing_scratch(const Compute& compute, size_t largest_strip,
                                                 size_t k) {
  std::vector<PackingScratch> scratch(compute.n_threads());
  if (largest_strip == 0) return scratch;
  tensor::Arena& arena = compute.arena;
  const size_t n_scales = quant::kStripRows * kernels::padded(k) / quant::kScaleGroup;
  for (PackingScratch& member : scratch) {
    member = {arena.bytes(kUnitRows / quant::kStripRows * largest_strip),
              arena.array<float>(n_scales), arena.array<float>(n_scales)};
  }
  return scratch;
}

const std::byte* pack_rows(const kernels::TypeKernels& type, const tensor::Tensor& weight,
                           size_t begin, size_t end, const PackingScratch& scratch) {
  for (size_t row = begin; row < end; row += quant::kStripRows) {
    type.pack_strip(
        {.weight = weight.row(row),
         .row_bytes = weight.row_bytes(),
         .n_rows = std::min(quant::kStripRows, end - row),
         .k = weight.n_cols,
         .scales = scratch.scales,
         .offsets = scratch.offsets,
         .out = scratch.strips + (row - begin) / quant::kStripRows * strip_bytes(weight)});
  }
  return scratch.strips;
}

}  // namespace billow::nn
