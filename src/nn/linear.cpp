#include "nn/linear.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "cpu/features.h"
#include "nn/packing_scratch.h"

namespace billow::nn {
namespace {

using kernels::InputForm;

// How far ahead weights are asked for. Measured: Intel's cores read a stream twice as fast when
// asked 4 KiB ahead, AMD's a tenth slower than by their own prefetching (docs/performance.md).
size_t prefetch_bytes() { return cpu::features().intel ? 4096 : 0; }

size_t n_units(const tensor::Tensor& weight) { return (weight.n_rows + kUnitRows - 1) / kUnitRows; }

// Into how many runs of rows the units are cut, so that threads finish together although units are
// few. A run should have enough rows to be worth its panel.
size_t cuts_of(size_t n_rows, size_t n_units, size_t n_threads) {
  constexpr size_t kRowsOfRun = 64;
  constexpr size_t kItemsOfThread = 32;
  const size_t wanted = (kItemsOfThread * n_threads + n_units - 1) / n_units;
  return std::max<size_t>(1, std::min(wanted, n_rows / kRowsOfRun));
}

// x in each form that the weights of its products want, made once.
class Inputs {
 public:
  Inputs(const Compute& compute, tensor::Matrix x) : compute_(compute), x_(x) {}

  void add(const InputForm* form) {
    if (find(form) != nullptr) return;
    BILLOW_CHECK(n_ < made_.size());
    std::byte* bytes = compute_.arena.bytes(form->bytes(x_.n_rows, x_.n_cols));
    made_[n_++] = {form, bytes};
    const kernels::RowGroups groups = form->groups(x_.n_rows);
    compute_.team.for_pieces(groups.n, 1, [&](size_t begin, size_t end, int) {
      for (size_t g = begin; g < end; ++g) {
        const size_t row = groups.begin(g);
        form->write_group(x_.row(row), x_.n_cols, groups.begin(g + 1) - row, x_.n_cols,
                          bytes + form->bytes(row, x_.n_cols));
      }
    });
  }
  const std::byte* find(const InputForm* form) const {
    for (size_t i = 0; i < n_; ++i) {
      if (made_[i].form == form) return made_[i].bytes;
    }
    return nullptr;
  }

 private:
  struct Made {
    const InputForm* form = nullptr;
    const std::byte* bytes = nullptr;
  };
  const Compute& compute_;
  tensor::Matrix x_;
  std::array<Made, 4> made_;
  size_t n_ = 0;
};

// A part of one product: outputs [begin, end) of the rows in groups [group_begin, group_end).
struct Part {
  size_t begin = 0;
  size_t end = 0;
  size_t group_begin = 0;
  size_t group_end = 0;
};

void run_part(const Compute& compute, const Product& product, const Inputs& inputs,
              const Part& part, const PackingScratch& scratch) {
  const tensor::Tensor& weight = product.weight;
  const kernels::TypeKernels& type = compute.kernels.of(weight.type);
  kernels::GemmArgs args = {.weight = weight.packed,
                            .n_begin = part.begin,
                            .n_end = part.end,
                            .m = product.out.n_rows,
                            .k = weight.n_cols,
                            .input = inputs.find(type.input),
                            .group_begin = part.group_begin,
                            .group_end = part.group_end,
                            .out = product.out.data,
                            .out_stride = product.out.n_cols,
                            .bias = product.bias,
                            .prefetch_bytes = prefetch_bytes()};
  if (weight.packed != nullptr) type.gemm(args);
  for (size_t row = part.begin; row < part.end && weight.packed == nullptr; row += kUnitRows) {
    const size_t n = std::min(kUnitRows, part.end - row);
    args.weight = pack_rows(type, weight, row, row + n, scratch);
    args.n_begin = 0;
    args.n_end = n;
    args.out = product.out.data + row;
    if (product.bias != nullptr) args.bias = product.bias + row;
    args.prefetch_bytes = 0;
    type.gemm(args);
  }
}

// Items [begin, end) of one product: its units in order, each cut into n_cuts runs of row groups.
void run_items(const Compute& compute, const Product& product, const Inputs& inputs, size_t begin,
               size_t end, size_t n_cuts, const PackingScratch& scratch) {
  const size_t n_groups =
      compute.kernels.of(product.weight.type).input->groups(product.out.n_rows).n;
  while (begin < end) {
    const size_t unit = begin / n_cuts;
    const size_t cut = begin % n_cuts;
    // Whole units go together; of the first and last there may be a part.
    const size_t n_whole = cut == 0 ? (end - begin) / n_cuts : 0;
    const size_t last_cut = n_whole > 0 ? n_cuts : std::min(n_cuts, cut + end - begin);
    const size_t n_units = std::max<size_t>(1, n_whole);
    run_part(compute, product, inputs,
             {unit * kUnitRows, std::min((unit + n_units) * kUnitRows, product.weight.n_rows),
              n_groups * cut / n_cuts, n_groups * last_cut / n_cuts},
             scratch);
    begin += n_whole > 0 ? n_whole * n_cuts : last_cut - cut;
  }
}

}  // namespace

void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products) {
  if (x.n_rows == 0) return;
  const tensor::ArenaScope scope(compute.arena);
  Inputs inputs(compute, x);
  size_t n = 0;
  size_t largest_strip = 0;  // of those that are packed on the way
  for (const Product& product : products) {
    BILLOW_CHECK(product.weight.n_cols == x.n_cols && product.out.n_rows == x.n_rows &&
                 product.out.n_cols == product.weight.n_rows);
    inputs.add(compute.kernels.of(product.weight.type).input);
    if (product.weight.packed == nullptr)
      largest_strip = std::max(largest_strip, strip_bytes(product.weight));
    n += n_units(product.weight);
  }
  const auto n_threads = static_cast<size_t>(compute.team.size());
  const size_t n_cuts = cuts_of(x.n_rows, n, n_threads);
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, largest_strip, x.n_cols);
  compute.team.for_shares(n * n_cuts, [&](size_t begin, size_t end, int member) {
    size_t first = 0;  // of the present product's items
    for (const Product& product : products) {
      const size_t last = first + n_units(product.weight) * n_cuts;
      if (begin < last && end > first) {
        run_items(compute, product, inputs, std::max(begin, first) - first,
                  std::min(end, last) - first, n_cuts, scratch[static_cast<size_t>(member)]);
      }
      first = last;
    }
  });
}

}  // namespace billow::nn
