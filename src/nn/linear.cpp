#include "nn/linear.h"

#include <algorithm>
#include <array>
#include <span>
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

// x in each form that the weights of its products want, made once. Rows that go through different
// weights stand in groups of their own.
class Inputs {
 public:
  Inputs(const Compute& compute, tensor::Matrix x) : compute_(compute), x_(x) {}

  // Rows [begin, end) in `form`, which are made by make().
  void add(const InputForm* form, size_t begin, size_t end) {
    if (find(form) == nullptr) {
      BILLOW_CHECK(n_ < made_.size());
      made_[n_++] = {form, compute_.arena.bytes(form->bytes(x_.n_rows, x_.n_cols))};
    }
    const std::span<const Run> recent = std::span(runs_).last(std::min(runs_.size(), made_.size()));
    const auto is_same = [&](const Run& run) { return run.form == form && run.begin == begin; };
    if (begin == end || std::ranges::any_of(recent, is_same)) return;
    const size_t first_group = runs_.empty() ? 0 : runs_.back().last_group;
    runs_.push_back({form, begin, end, first_group, first_group + form->groups(end - begin).n});
  }
  void make() {
    if (runs_.empty() || compute_.sizing != nullptr) return;
    compute_.team.for_pieces(runs_.back().last_group, 1, [&](size_t first, size_t last, int) {
      for (size_t group = first; group < last; ++group) {
        const auto run = std::ranges::upper_bound(runs_, group, {}, &Run::last_group);
        const kernels::RowGroups groups = run->form->groups(run->end - run->begin);
        const size_t g = group - run->first_group;
        const size_t row = run->begin + groups.begin(g);
        run->form->write_group(x_.row(row), x_.n_cols, groups.begin(g + 1) - groups.begin(g),
                               x_.n_cols, find(run->form) + run->form->bytes(row, x_.n_cols));
      }
    });
  }
  // Of row 0; null where there is none.
  std::byte* find(const InputForm* form) const {
    for (size_t i = 0; i < n_; ++i) {
      if (made_[i].form == form) return made_[i].bytes;
    }
    return nullptr;
  }

 private:
  struct Made {
    const InputForm* form = nullptr;
    std::byte* bytes = nullptr;
  };
  struct Run {
    const InputForm* form = nullptr;
    size_t begin = 0;
    size_t end = 0;
    size_t first_group = 0;
    size_t last_group = 0;
  };
  const Compute& compute_;
  tensor::Matrix x_;
  std::array<Made, 4> made_;
  size_t n_ = 0;
  std::vector<Run> runs_;
};

// A part of one product: outputs [begin, end) of the rows in groups [group_begin, group_end).
struct Part {
  size_t begin = 0;
  size_t end = 0;
  size_t group_begin = 0;
  size_t group_end = 0;
};

// `input`: product.out.n_rows rows in the form that the weight wants.
void run_part(const Compute& compute, const Product& product, const std::byte* input,
              const Part& part, const PackingScratch& scratch) {
  const tensor::Tensor& weight = product.weight;
  const kernels::TypeKernels& type = compute.kernels.of(weight.type);
  kernels::GemmArgs args = {.weight = weight.packed,
                            .n_begin = part.begin,
                            .n_end = part.end,
                            .m = product.out.n_rows,
                            .k = weight.n_cols,
                            .input = input,
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
  const InputForm* form = compute.kernels.of(product.weight.type).input;
  const size_t n_groups = form->groups(product.out.n_rows).n;
  while (begin < end) {
    const size_t unit = begin / n_cuts;
    const size_t cut = begin % n_cuts;
    // Whole units go together; of the first and last there may be a part.
    const size_t n_whole = cut == 0 ? (end - begin) / n_cuts : 0;
    const size_t last_cut = n_whole > 0 ? n_cuts : std::min(n_cuts, cut + end - begin);
    const size_t n_units = std::max<size_t>(1, n_whole);
    run_part(compute, product, inputs.find(form),
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
    inputs.add(compute.kernels.of(product.weight.type).input, 0, x.n_rows);
    if (product.weight.packed == nullptr)
      largest_strip = std::max(largest_strip, strip_bytes(product.weight));
    n += n_units(product.weight);
  }
  inputs.make();
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, largest_strip, x.n_cols);
  if (compute.sizing != nullptr) return;
  const size_t n_cuts = cuts_of(x.n_rows, n, compute.n_threads());
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

void linear_of_rows(const Compute& compute, tensor::Matrix x,
                    std::span<const RowsProduct> products) {
  if (x.n_rows == 0) return;
  const tensor::ArenaScope scope(compute.arena);
  Inputs inputs(compute, x);
  size_t largest_strip = 0;
  std::vector<size_t> ends;  // of each product's units
  ends.reserve(products.size());
  size_t n = 0;
  for (const RowsProduct& product : products) {
    BILLOW_CHECK(product.weight.n_cols == x.n_cols && product.begin <= product.end &&
                 product.end <= x.n_rows && product.out.n_cols == product.weight.n_rows);
    inputs.add(compute.kernels.of(product.weight.type).input, product.begin, product.end);
    if (product.weight.packed == nullptr)
      largest_strip = std::max(largest_strip, strip_bytes(product.weight));
    if (product.begin < product.end) n += n_units(product.weight);
    ends.push_back(n);
  }
  inputs.make();
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, largest_strip, x.n_cols);
  if (compute.sizing != nullptr) return;
  compute.team.for_pieces(n, 1, [&](size_t begin, size_t end, int member) {
    for (size_t item = begin; item < end; ++item) {
      const auto i = static_cast<size_t>(std::ranges::upper_bound(ends, item) - ends.begin());
      const RowsProduct& product = products[i];
      const size_t unit = item - (i == 0 ? 0 : ends[i - 1]);
      const InputForm* form = compute.kernels.of(product.weight.type).input;
      const size_t n_rows = product.end - product.begin;
      const Product of_rows = {product.weight,
                               product.bias,
                               {product.out.row(product.begin), n_rows, product.out.n_cols}};
      run_part(compute, of_rows, inputs.find(form) + form->bytes(product.begin, x.n_cols),
               {unit * kUnitRows, std::min((unit + 1) * kUnitRows, product.weight.n_rows), 0,
                form->groups(n_rows).n},
               scratch[static_cast<size_t>(member)]);
    }
  });
}

}  // namespace billow::nn
