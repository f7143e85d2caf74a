#include "nn/linear.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <vector>

#include "base/check.h"
#include "cpu/features.h"
#include "nn/inputs.h"
#include "nn/low_rank.h"
#include "nn/packing_scratch.h"
#include "quant/type.h"

namespace billow::nn {
namespace {

using kernels::ActivationLayout;

// Returns the prefetch distance for weights. Intel's cores read any stream twice as fast with a
// prefetch 4 KiB ahead. If one row decodes weights quickly, AMD's cores read ahead well by
// themselves, and are up to a tenth slower with a prefetch. If the stream is slower, because of
// several rows or of codes other than 4 and 8 bits, a prefetch gains 10 to 40 %
// (docs/performance.md).
size_t prefetch_bytes(quant::Type type, size_t n_rows) {
  constexpr size_t kRowsOfSlowStream = 3;
  const unsigned bits = quant::row(type).packing.bits;
  const bool is_quick = bits == 4 || bits >= 8;
  const bool ask = cpu::features().intel || !is_quick || n_rows >= kRowsOfSlowStream;
  return ask ? 4096 : 0;
}

size_t n_units(const tensor::Tensor& weight) { return (weight.n_rows + kUnitRows - 1) / kUnitRows; }

// Returns into how many runs of rows each unit is cut, so that threads finish together even with
// few units. A run needs enough rows to be worth its panel.
size_t cuts_of(size_t n_rows, size_t n_units, size_t n_threads) {
  constexpr size_t kRowsOfRun = 64;
  constexpr size_t kItemsOfThread = 32;
  const size_t wanted = (kItemsOfThread * n_threads + n_units - 1) / n_units;
  return std::max<size_t>(1, std::min(wanted, n_rows / kRowsOfRun));
}

// A part of one product: outputs [begin, end) of the rows in groups [group_begin, group_end).
struct Part {
  size_t begin = 0;
  size_t end = 0;
  size_t group_begin = 0;
  size_t group_end = 0;
};

// Finishes a product whose weight has a scale: the product has neither scale nor bias yet.
void scale_part(const Product& product, const Part& part, const ActivationLayout& layout) {
  const kernels::RowGroups groups = layout.groups(product.out.n_rows);
  for (size_t row = groups.begin(part.group_begin); row < groups.begin(part.group_end); ++row) {
    float* const out = product.out.row(row);
    for (size_t i = part.begin; i < part.end; ++i) {
      const float bias = product.bias == nullptr ? 0.0f : product.bias[i];
      out[i] = out[i] * product.weight.scale + bias;
    }
  }
}

// `input`: product.out.n_rows rows in the layout that the weight needs.
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
                            .bias = weight.scale == 1.0f ? product.bias : nullptr,
                            .prefetch_bytes = prefetch_bytes(weight.type, product.out.n_rows)};
  if (weight.packed != nullptr) type.gemm(args);
  for (size_t row = part.begin; row < part.end && weight.packed == nullptr; row += kUnitRows) {
    const size_t n = std::min(kUnitRows, part.end - row);
    args.weight = pack_rows(type, weight, row, row + n, scratch);
    args.n_begin = 0;
    args.n_end = n;
    args.out = product.out.data + row;
    if (args.bias != nullptr) args.bias = product.bias + row;
    args.prefetch_bytes = 0;
    type.gemm(args);
  }
  if (weight.scale != 1.0f) scale_part(product, part, *type.input);
}

// A product as shared work. Its items are its units in order, each cut into n_cuts runs of row
// groups.
struct Task {
  Product product;
  const std::byte* input = nullptr;  // the product's first input, in the layout that it needs
  size_t n_cuts = 1;
  size_t end = 0;  // end of its items among the items of all tasks
};

// Runs items [begin, end) of one task.
void run_items(const Compute& compute, const Task& task, size_t begin, size_t end,
               const PackingScratch& scratch) {
  const Product& product = task.product;
  const ActivationLayout* layout = compute.kernels.of(product.weight.type).input;
  const size_t n_groups = layout->groups(product.out.n_rows).n;
  while (begin < end) {
    const size_t unit = begin / task.n_cuts;
    const size_t cut = begin % task.n_cuts;
    // Whole units go together; the first and the last unit may be partial.
    const size_t n_whole = cut == 0 ? (end - begin) / task.n_cuts : 0;
    const size_t last_cut = n_whole > 0 ? task.n_cuts : std::min(task.n_cuts, cut + end - begin);
    const size_t n_units = std::max<size_t>(1, n_whole);
    run_part(compute, product, task.input,
             {unit * kUnitRows, std::min((unit + n_units) * kUnitRows, product.weight.n_rows),
              n_groups * cut / task.n_cuts, n_groups * last_cut / task.n_cuts},
             scratch);
    begin += n_whole > 0 ? n_whole * task.n_cuts : last_cut - cut;
  }
}

// Runs all tasks. Each thread gets a long run of items, so that it reads weights sequentially.
void run_tasks(const Compute& compute, std::span<const Task> tasks,
               std::span<const PackingScratch> scratch) {
  if (tasks.empty()) return;
  compute.team.for_shares(tasks.back().end, [&](size_t begin, size_t end, int member) {
    auto task = std::ranges::upper_bound(tasks, begin, {}, &Task::end);
    for (; begin < end; ++task) {
      const size_t first = task == tasks.begin() ? 0 : std::prev(task)->end;
      const size_t last = std::min(end, task->end);
      run_items(compute, *task, begin - first, last - first, scratch[static_cast<size_t>(member)]);
      begin = last;
    }
  });
}

void notify(ProductListener& listener, tensor::Matrix x, std::span<const uint32_t> rows,
            std::span<const RowsProduct> products) {
  std::vector<const float*> own;
  for (const RowsProduct& product : products) {
    own.clear();
    for (size_t i = product.begin; i < product.end; ++i) {
      own.push_back(x.row(rows.empty() ? i : rows[i]));
    }
    listener.multiplied(product.weight, own.data(), own.size());
  }
}

// n_cuts: runs of rows for each unit.
void multiply(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
              std::span<const RowsProduct> products, size_t n_cuts) {
  const tensor::ArenaScope scope(compute.arena);
  Inputs inputs(compute, x, rows);
  size_t largest_strip = 0;  // of the weights that have no packed form
  for (const RowsProduct& product : products) {
    BILLOW_CHECK(product.weight.n_cols == x.n_cols && product.begin <= product.end &&
                 product.end <= inputs.size() && product.out.n_cols == product.weight.n_rows);
    inputs.add(compute.kernels.of(product.weight.type).input, product.begin, product.end);
    if (product.weight.packed == nullptr)
      largest_strip = std::max(largest_strip, strip_bytes(product.weight));
  }
  const LowRankSums adapters(compute, x, rows, products, inputs);
  Inputs::make(compute, inputs, adapters.inputs());
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, largest_strip, x.n_cols);
  if (compute.sizing != nullptr) return;
  if (compute.listener != nullptr) notify(*compute.listener, x, rows, products);
  std::vector<Task> tasks;
  tasks.reserve(products.size());
  size_t end = 0;
  for (const RowsProduct& product : products) {
    if (product.begin == product.end) continue;
    end += n_units(product.weight) * n_cuts;
    const ActivationLayout* layout = compute.kernels.of(product.weight.type).input;
    const tensor::Matrix out = {product.out.row(product.begin), product.end - product.begin,
                                product.out.n_cols};
    tasks.push_back({.product = {product.weight, product.bias, out},
                     .input = inputs.find(layout) + layout->bytes(product.begin, x.n_cols),
                     .n_cuts = n_cuts,
                     .end = end});
  }
  for (const LowRankSums::First& first : adapters.first_products()) {
    end += n_units(first.product.weight);
    const ActivationLayout* layout = compute.kernels.of(first.product.weight.type).input;
    tasks.push_back({.product = first.product,
                     .input = first.inputs->find(layout) + layout->bytes(first.begin, x.n_cols),
                     .n_cuts = 1,
                     .end = end});
  }
  run_tasks(compute, tasks, scratch);
  adapters.add_to_outputs();
}

}  // namespace

void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products) {
  if (x.n_rows == 0) return;
  std::vector<RowsProduct> of_all_rows;
  of_all_rows.reserve(products.size());
  size_t n = 0;
  for (const Product& product : products) {
    BILLOW_CHECK(product.out.n_rows == x.n_rows);
    of_all_rows.push_back({0, x.n_rows, product.weight, product.bias, product.out});
    n += n_units(product.weight);
  }
  multiply(compute, x, {}, of_all_rows, cuts_of(x.n_rows, n, compute.n_threads()));
}

void linear_of_rows(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
                    std::span<const RowsProduct> products) {
  if (x.n_rows == 0) return;
  multiply(compute, x, rows, products, 1);
}

}  // namespace billow::nn
