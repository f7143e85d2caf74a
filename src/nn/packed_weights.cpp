#include "nn/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "quant/unpack.h"

namespace billow::nn {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

PackedWeights::PackedWeights(const kernels::KernelTable& kernels, cpu::ThreadTeam& team,
                             size_t max_bytes)
    : kernels_(&kernels), team_(&team), capacity_((max_bytes + kHugePage) / kHugePage * kHugePage) {
  void* mapped = ::mmap(nullptr, capacity_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory,
                "no address space for " + std::to_string(capacity_) + " bytes of weights");
  }
  base_ = static_cast<std::byte*>(mapped);
  ::madvise(base_, capacity_,
            MADV_HUGEPAGE);  // refused on some systems, which costs a few per cent of speed only
}

PackedWeights::~PackedWeights() { ::munmap(base_, capacity_); }

size_t PackedWeights::bytes_of(quant::Type type, size_t n_cols, size_t n_rows) {
  const quant::Packing packing = quant::row(type).packing;
  return packing.bits == 0 ? 0 : packing.matrix_bytes(n_rows, n_cols);
}

void PackedWeights::pack(tensor::Tensor& weight) {
  const size_t n = bytes_of(weight.type, weight.n_cols, weight.n_rows);
  if (n == 0 || weight.packed != nullptr) return;
  BILLOW_CHECK(used_ + n <= capacity_);
  std::byte* out = base_ + used_;
  used_ += n;
  const size_t strip_bytes = quant::row(weight.type).packing.strip_bytes(weight.n_cols);
  const size_t n_strips = (weight.n_rows + quant::kStripRows - 1) / quant::kStripRows;
  const auto pack_strip = kernels_->of(weight.type).pack_strip;
  constexpr size_t kStripsAtOnce = 4;
  team_->for_pieces(n_strips, kStripsAtOnce, [&](size_t begin, size_t end, int) {
    const size_t width = kernels::padded(weight.n_cols);
    std::vector<float> scales(quant::kStripRows * width / quant::kScaleGroup);
    std::vector<float> offsets(scales.size());
    for (size_t i = begin; i < end; ++i) {
      const size_t row = i * quant::kStripRows;
      pack_strip({.weight = weight.row(row),
                  .row_bytes = weight.row_bytes(),
                  .n_rows = std::min(quant::kStripRows, weight.n_rows - row),
                  .k = weight.n_cols,
                  .scales = scales.data(),
                  .offsets = offsets.data(),
                  .out = out + i * strip_bytes});
    }
  });
  weight.packed = out;
}

}  // namespace billow::nn
