#include "nn/inputs.h"

#include <algorithm>

#include "base/check.h"

namespace billow::nn {

using kernels::ActivationLayout;

void Inputs::add(const ActivationLayout* layout, size_t begin, size_t end) {
  if (find(layout) == nullptr) {
    BILLOW_CHECK(n_ < made_.size());
    made_[n_++] = {layout, compute_.arena.bytes(layout->bytes(size(), x_.n_cols))};
  }
  const std::span<const Run> recent = std::span(runs_).last(std::min(runs_.size(), made_.size()));
  const auto is_same = [&](const Run& run) { return run.layout == layout && run.begin == begin; };
  if (begin == end || std::ranges::any_of(recent, is_same)) return;
  const size_t first_group = n_groups();
  runs_.push_back({layout, begin, end, first_group, first_group + layout->groups(end - begin).n});
}

bool Inputs::has(const ActivationLayout* layout, size_t begin, size_t end) const {
  return std::ranges::any_of(runs_, [&](const Run& run) {
    return run.layout == layout && run.begin == begin && run.end == end;
  });
}

std::byte* Inputs::find(const ActivationLayout* layout) const {
  for (size_t i = 0; i < n_; ++i) {
    if (made_[i].layout == layout) return made_[i].bytes;
  }
  return nullptr;
}

void Inputs::make_group(size_t group) const {
  const auto run = std::ranges::upper_bound(runs_, group, {}, &Run::last_group);
  const kernels::RowGroups groups = run->layout->groups(run->end - run->begin);
  const size_t g = group - run->first_group;
  const size_t input = run->begin + groups.begin(g);
  const size_t n = groups.begin(g + 1) - groups.begin(g);
  std::array<const float*, kernels::kMaxGroupRows> rows;
  for (size_t i = 0; i < n; ++i) rows[i] = x_.row(row_of(input + i));
  run->layout->quantize(rows.data(), n, x_.n_cols,
                        find(run->layout) + run->layout->bytes(input, x_.n_cols));
}

void Inputs::make(const Compute& compute, const Inputs& a, const Inputs& b) {
  if (compute.sizing != nullptr) return;
  const size_t n_of_a = a.n_groups();
  const size_t n = n_of_a + b.n_groups();
  const auto make_groups = [&](size_t first, size_t last, int) {
    for (size_t group = first; group < last; ++group) {
      if (group < n_of_a)
        a.make_group(group);
      else
        b.make_group(group - n_of_a);
    }
  };
  // Waking the team takes longer than one group of each.
  if (n <= 2)
    make_groups(0, n, 0);
  else
    compute.team.for_pieces(n, 1, make_groups);
}

}  // namespace billow::nn
