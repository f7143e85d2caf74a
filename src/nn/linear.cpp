#include "nn/linear.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/check.h"
#include "cpu/features.h"
#include "nn/inputs.h"
#include "nn/low_rank.h"
#include "nn/packing_scratch.h"
#include "nn/task_order.h"
#include "quant/type.h"

namespace billow::nn {
namespace {

using kernels::RowKind;

// Returns the prefetch distance for weights. Intel's cores read any stream twice as fast with a
// prefetch 4 KiB ahead. If one or two rows decode weights quickly, AMD's cores read ahead well by
// themselves, and are up to a tenth slower with a prefetch. If the stream is slower, because of
// more rows or of codes of 2, 3, 5 or 6 bits, a prefetch gains 10 to 40 % (docs/performance.md).
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

// Rows of one kind of a product, with the kernels for them.
struct Run {
  const kernels::TypeKernels* type = nullptr;
  const std::byte* input = nullptr;  // its rows, in the layout that `type` needs
  tensor::Matrix out;                // its rows
};

// A product as shared work. Its items are its units in order, each cut into n_cuts runs of row
// groups.
struct Task {
  tensor::Tensor weight;
  const float* bias = nullptr;
  size_t first_run = 0;  // its runs among the runs of all tasks
  size_t last_run = 0;
  size_t n_cuts = 1;
};

// A part of one run: outputs [begin, end) of the rows in groups [group_begin, group_end).
struct Part {
  size_t begin = 0;
  size_t end = 0;
  size_t group_begin = 0;
  size_t group_end = 0;
};

// Finishes a product whose weight has a scale: the product has neither scale nor bias yet.
void scale_part(const Task& task, const Run& run, const Part& part) {
  const kernels::RowGroups groups = run.type->input->groups(run.out.n_rows);
  for (size_t row = groups.begin(part.group_begin); row < groups.begin(part.group_end); ++row) {
    float* const out = run.out.row(row);
    for (size_t i = part.begin; i < part.end; ++i) {
      const float bias = task.bias == nullptr ? 0.0f : task.bias[i];
      out[i] = out[i] * task.weight.scale + bias;
    }
  }
}

void run_part(const Task& task, const Run& run, const Part& part, const PackingScratch& scratch) {
  const tensor::Tensor& weight = task.weight;
  kernels::GemmArgs args = {.weight = weight.packed,
                            .n_begin = part.begin,
                            .n_end = part.end,
                            .m = run.out.n_rows,
                            .k = weight.n_cols,
                            .input = run.input,
                            .group_begin = part.group_begin,
                            .group_end = part.group_end,
                            .out = run.out.data,
                            .out_stride = run.out.n_cols,
                            .bias = weight.scale == 1.0f ? task.bias : nullptr,
                            .prefetch_bytes = prefetch_bytes(weight.type, run.out.n_rows)};
  if (weight.packed != nullptr) run.type->gemm(args);
  for (size_t row = part.begin; row < part.end && weight.packed == nullptr; row += kUnitRows) {
    const size_t n = std::min(kUnitRows, part.end - row);
    args.weight = pack_rows(*run.type, weight, row, row + n, scratch);
    args.n_begin = 0;
    args.n_end = n;
    args.out = run.out.data + row;
    if (args.bias != nullptr) args.bias = task.bias + row;
    args.prefetch_bytes = 0;
    run.type->gemm(args);
  }
  if (weight.scale != 1.0f) scale_part(task, run, part);
}

// Runs items [begin, end) of one task with these runs.
void run_items(const Task& task, std::span<const Run> runs, size_t begin, size_t end,
               const PackingScratch& scratch) {
  while (begin < end) {
    const size_t unit = begin / task.n_cuts;
    const size_t cut = begin % task.n_cuts;
    // Whole units go together; the first and the last unit may be partial. If there are several
    // runs, all of them use a unit while it is in the cache.
    size_t n_whole = cut == 0 ? (end - begin) / task.n_cuts : 0;
    if (runs.size() > 1) n_whole = std::min<size_t>(n_whole, 1);
    const size_t last_cut = n_whole > 0 ? task.n_cuts : std::min(task.n_cuts, cut + end - begin);
    const size_t n_units = std::max<size_t>(1, n_whole);
    for (const Run& run : runs) {
      const size_t n_groups = run.type->input->groups(run.out.n_rows).n;
      const Part part = {unit * kUnitRows,
                         std::min((unit + n_units) * kUnitRows, task.weight.n_rows),
                         n_groups * cut / task.n_cuts, n_groups * last_cut / task.n_cuts};
      if (part.group_begin < part.group_end) run_part(task, run, part, scratch);
    }
    begin += n_whole > 0 ? n_whole * task.n_cuts : last_cut - cut;
  }
}

// The products of one call of linear(), as shared work.
struct Work {
  std::vector<Task> tasks;
  std::vector<size_t> ends;  // for each task, the number of items of all tasks up to its own
  std::vector<Run> runs;

  // Ends a task whose runs were added last.
  void add_task(const tensor::Tensor& weight, const float* bias, size_t n_cuts) {
    const size_t first_run = tasks.empty() ? 0 : tasks.back().last_run;
    tasks.push_back({.weight = weight,
                     .bias = bias,
                     .first_run = first_run,
                     .last_run = runs.size(),
                     .n_cuts = n_cuts});
    ends.push_back((ends.empty() ? 0 : ends.back()) + n_units(weight) * n_cuts);
  }
  std::span<const Run> runs_of(const Task& task) const {
    return std::span(runs).subspan(task.first_run, task.last_run - task.first_run);
  }
};

// Runs all tasks. Each thread gets long runs of items, so that it reads weights sequentially. On
// several nodes, a thread begins with the rows of each weight that are on its own node. Weights of
// many experts are read by other threads in each pass anyway.
void run_all(const Compute& compute, const Work& work, std::span<const PackingScratch> scratch) {
  constexpr size_t kMaxTasksOfParts = 16;
  cpu::ThreadTeam& team = compute.team;
  const auto n_members = static_cast<size_t>(team.size());
  const bool has_parts = !team.nodes().empty() && work.tasks.size() <= kMaxTasksOfParts;
  const TaskOrder order(work.ends, has_parts ? n_members : 1);
  const auto begin_of = [&](size_t member) {
    return has_parts ? order.begin_of(member)
                     : cpu::share_begin(order.n_items(), member, n_members);
  };
  team.for_shares_from(order.n_items(), begin_of, [&](size_t begin, size_t end, int member) {
    order.each_run(begin, end, [&](size_t i, size_t first, size_t last) {
      const Task& task = work.tasks[i];
      run_items(task, work.runs_of(task), first, last, scratch[static_cast<size_t>(member)]);
    });
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

// Calls use(begin, end, kind) for each run of one kind among inputs [begin, end).
template <class Use>
void each_kind(const Compute& compute, const Inputs& inputs, size_t begin, size_t end, Use use) {
  while (begin < end) {
    const RowKind kind = compute.kind_of(inputs.row_of(begin));
    size_t next = compute.kinds.empty() ? end : begin + 1;
    while (next < end && compute.kind_of(inputs.row_of(next)) == kind) ++next;
    use(begin, next, kind);
    begin = next;
  }
}

// Adds the products' inputs to `inputs`.
void add_inputs(const Compute& compute, std::span<const RowsProduct> products, Inputs& inputs) {
  const auto layout = [&](const RowsProduct& product, RowKind kind) {
    return compute.kernels.of(product.weight.type, kind).input;
  };
  while (!products.empty()) {  // one run of inputs after another
    const RowsProduct& run = products.front();
    size_t n = 1;
    while (n < products.size() && products[n].begin == run.begin && products[n].end == run.end) ++n;
    const std::span<const RowsProduct> same = products.first(n);
    // A sizing pass counts inputs of all kinds.
    const auto add = [&](size_t begin, size_t end, RowKind kind) {
      for (const RowsProduct& product : same) inputs.add(layout(product, kind), begin, end);
    };
    if (compute.sizing == nullptr) {
      each_kind(compute, inputs, run.begin, run.end, add);
    } else {
      add(run.begin, run.end, RowKind::kWritten);
      if (compute.kernels.has_read_kernels) add(run.begin, run.end, RowKind::kRead);
    }
    products = products.subspan(n);
  }
}

// may_cut: whether a unit may be cut into runs of rows.
void multiply(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
              std::span<const RowsProduct> products, bool may_cut) {
  const tensor::ArenaScope scope(compute.arena);
  Inputs inputs(compute, x, rows);
  size_t largest_strip = 0;  // of the weights that have no packed form
  size_t n_units_of_all = 0;
  for (const RowsProduct& product : products) {
    BILLOW_CHECK(product.weight.n_cols == x.n_cols && product.begin <= product.end &&
                 product.end <= inputs.size() && product.out.n_cols == product.weight.n_rows);
    if (product.weight.packed == nullptr)
      largest_strip = std::max(largest_strip, strip_bytes(product.weight));
    n_units_of_all += n_units(product.weight);
  }
  BILLOW_CHECK(compute.kinds.empty() || x.n_rows % compute.kinds.size() == 0);
  add_inputs(compute, products, inputs);
  const LowRankSums adapters(compute, x, rows, products, inputs);
  Inputs::make(compute, inputs, adapters.inputs());
  const std::vector<PackingScratch> scratch =
      make_packing_scratch(compute, largest_strip, x.n_cols);
  if (compute.sizing != nullptr) return;
  if (compute.listener != nullptr) notify(*compute.listener, x, rows, products);
  Work work;
  work.tasks.reserve(products.size());
  work.ends.reserve(products.size());
  const size_t n_cuts = may_cut ? cuts_of(inputs.size(), n_units_of_all, compute.n_threads()) : 1;
  for (const RowsProduct& product : products) {
    if (product.begin == product.end) continue;
    each_kind(compute, inputs, product.begin, product.end,
              [&](size_t begin, size_t end, RowKind kind) {
                const kernels::TypeKernels& type = compute.kernels.of(product.weight.type, kind);
                work.runs.push_back(
                    {.type = &type,
                     .input = inputs.find(type.input) + type.input->bytes(begin, x.n_cols),
                     .out = {product.out.row(begin), end - begin, product.out.n_cols}});
              });
    work.add_task(product.weight, product.bias, n_cuts);
  }
  for (const LowRankSums::First& first : adapters.first_products()) {
    const kernels::TypeKernels& type = compute.kernels.of(first.product.weight.type);
    work.runs.push_back(
        {.type = &type,
         .input = first.inputs->find(type.input) + type.input->bytes(first.begin, x.n_cols),
         .out = first.product.out});
    work.add_task(first.product.weight, nullptr, 1);
  }
  run_all(compute, work, scratch);
  adapters.add_to_outputs();
}

}  // namespace

void linear(const Compute& compute, tensor::Matrix x, std::initializer_list<Product> products) {
  if (x.n_rows == 0) return;
  std::vector<RowsProduct> of_all_rows;
  of_all_rows.reserve(products.size());
  for (const Product& product : products) {
    BILLOW_CHECK(product.out.n_rows == x.n_rows);
    of_all_rows.push_back({0, x.n_rows, product.weight, product.bias, product.out});
  }
  multiply(compute, x, {}, of_all_rows, true);
}

void linear_of_rows(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
                    std::span<const RowsProduct> products) {
  if (x.n_rows == 0) return;
  multiply(compute, x, rows, products, false);
}

}  // namespace billow::nn
