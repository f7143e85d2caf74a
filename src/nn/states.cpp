#include "nn/states.h"

#include <algorithm>

#include "nn/for_rows.h"

namespace billow::nn {
namespace {

using kernels::kStatePanel;

float* floats_at(std::byte* block, size_t offset) {
  return reinterpret_cast<float*>(block + offset);
}
const float* floats_at(const std::byte* block, size_t offset) {
  return reinterpret_cast<const float*>(block + offset);
}

// Advances n floats of a run's state through its rows. The rows up to a stop work on the state in
// the block of that stop.
template <class Advance>
void bring_through(const StateRun& run, size_t offset, size_t n, Advance advance) {
  const float* state = run.from == nullptr ? nullptr : floats_at(run.from, offset);
  size_t row = run.row_begin;
  for (const StateRun::Stop& stop : run.stops) {
    float* const here = floats_at(stop.block, offset);
    if (state == nullptr)
      std::fill_n(here, n, 0.0f);
    else if (state != here)
      std::copy_n(state, n, here);
    advance(here, row, stop.row_end - row);
    state = here;
    row = stop.row_end;
  }
}

// Calls advance(panel, state, row, n_rows) for the panels of all runs, on all threads, with the
// rows of each run in order. Each panel's state has n_floats floats; the panels are adjacent.
template <class Advance>
void for_panels(const Compute& compute, const StatePart& part, size_t n_panels, size_t n_floats,
                Advance advance) {
  if (compute.sizing != nullptr) return;
  compute.team.for_shares(part.runs.size() * n_panels, [&](size_t first, size_t last, int) {
    for (size_t task = first; task < last; ++task) {
      const size_t panel = task % n_panels;
      const size_t offset = part.offset + panel * n_floats * sizeof(float);
      bring_through(
          part.runs[task / n_panels], offset, n_floats,
          [&](float* state, size_t row, size_t n_rows) { advance(panel, state, row, n_rows); });
    }
  });
}

// Stores the inputs of the last rows before each stop. If the run is shorter than that, the rest
// comes from the initial state. Later stops are first, because the block of the first stop may be
// the block with the initial state.
void store_inputs(const StateRun& run, size_t offset, const Conv& conv, tensor::Matrix x,
                  size_t begin, size_t end) {
  const size_t n_before = conv.taps - 1;
  const float* const old = run.from == nullptr ? nullptr : floats_at(run.from, offset);
  for (size_t s = run.stops.size(); s > 0; --s) {
    const StateRun::Stop& stop = run.stops[s - 1];
    float* const here = floats_at(stop.block, offset);
    for (size_t i = 0; i < n_before; ++i) {
      float* const to = here + i * x.n_cols + begin;
      const size_t row = stop.row_end + i;  // n_before more than the index of the input
      if (row >= run.row_begin + n_before)
        std::copy_n(x.row(row - n_before) + begin, end - begin, to);
      else if (old == nullptr)
        std::fill_n(to, end - begin, 0.0f);
      else
        std::copy_n(old + (row - run.row_begin) * x.n_cols + begin, end - begin, to);
    }
  }
}

}  // namespace

void conv(const Compute& compute, const StatePart& part, const Conv& conv, tensor::Matrix x,
          tensor::Matrix out) {
  if (compute.sizing != nullptr) return;
  constexpr size_t kChannels = 256;
  const size_t n_pieces = (x.n_cols + kChannels - 1) / kChannels;
  compute.team.for_shares(part.runs.size() * n_pieces, [&](size_t first, size_t last, int) {
    for (size_t task = first; task < last; ++task) {
      const StateRun& run = part.runs[task / n_pieces];
      const size_t begin = task % n_pieces * kChannels;
      const size_t end = std::min(begin + kChannels, x.n_cols);
      const float* before = nullptr;
      if (run.from != nullptr) before = floats_at(run.from, part.offset) + begin;
      compute.kernels.states->conv({.x = x.row(run.row_begin) + begin,
                                    .x_stride = x.n_cols,
                                    .before = before,
                                    .before_stride = x.n_cols,
                                    .n_rows = run.row_end - run.row_begin,
                                    .n_channels = end - begin,
                                    .taps = conv.taps,
                                    .weights = conv.weights + begin * conv.taps,
                                    .bias = conv.bias == nullptr ? nullptr : conv.bias + begin,
                                    .silu = conv.silu,
                                    .out = out.row(run.row_begin) + begin,
                                    .out_stride = out.n_cols});
      store_inputs(run, part.offset, conv, x, begin, end);
    }
  });
}

void linear_state(const Compute& compute, const StatePart& part, const LinearState& shape,
                  const LinearStateRows& rows) {
  const size_t n_panels = shape.n_values / kStatePanel;
  const size_t n_all = shape.n_heads * n_panels;
  for_panels(
      compute, part, n_all, shape.n_keys * kStatePanel,
      [&](size_t panel, float* state, size_t row, size_t n_rows) {
        const size_t head = panel / n_panels;
        const size_t key_at = shape.key_head(head) * shape.n_keys;
        const size_t decay_at = head * (shape.decay_by_key ? shape.n_keys : 1);
        compute.kernels.states->linear_state({.state = state,
                                              .n_keys = shape.n_keys,
                                              .n_rows = n_rows,
                                              .keys = rows.keys.row(row) + key_at,
                                              .key_stride = rows.keys.stride,
                                              .queries = rows.queries.row(row) + key_at,
                                              .query_stride = rows.queries.stride,
                                              .values = rows.values.row(row) + panel * kStatePanel,
                                              .value_stride = rows.values.stride,
                                              .decays = rows.decays.row(row) + decay_at,
                                              .decay_stride = rows.decays.stride,
                                              .gains = rows.gains.row(row) + head,
                                              .gain_stride = rows.gains.stride,
                                              .out = rows.out.row(row) + panel * kStatePanel,
                                              .out_stride = rows.out.n_cols,
                                              .corrects = shape.corrects,
                                              .decay_by_key = shape.decay_by_key});
      });
}

void replacing_state(const Compute& compute, const StatePart& part, const ReplacingState& shape,
                     const ReplacingStateRows& rows) {
  const size_t n_panels = shape.n_keys / kStatePanel;
  const size_t n_all = shape.n_heads * n_panels;
  for_panels(compute, part, n_all, shape.n_keys * kStatePanel,
             [&](size_t panel, float* state, size_t row, size_t n_rows) {
               const size_t key_at = panel / n_panels * shape.n_keys;
               const size_t value_at = panel * kStatePanel;
               compute.kernels.states->replacing_state({.state = state,
                                                        .n_keys = shape.n_keys,
                                                        .n_rows = n_rows,
                                                        .keys = rows.keys.row(row) + key_at,
                                                        .queries = rows.queries.row(row) + key_at,
                                                        .decays = rows.decays.row(row) + key_at,
                                                        .removed = rows.removed.row(row) + key_at,
                                                        .written = rows.written.row(row) + key_at,
                                                        .values = rows.values.row(row) + value_at,
                                                        .stride = rows.keys.n_cols,
                                                        .out = rows.out.row(row) + value_at});
             });
}

void scan(const Compute& compute, const StatePart& part, const Scan& shape, const ScanRows& rows) {
  const size_t n_panels = shape.n_channels / kStatePanel;
  for_panels(compute, part, n_panels, shape.n_states * kStatePanel,
             [&](size_t panel, float* state, size_t row, size_t n_rows) {
               const size_t channel = panel * kStatePanel;
               compute.kernels.states->scan({.state = state,
                                             .n_states = shape.n_states,
                                             .n_rows = n_rows,
                                             .rates = shape.rates + channel * shape.n_states,
                                             .skips = shape.skips + channel,
                                             .steps = rows.steps.row(row) + channel,
                                             .step_stride = rows.steps.stride,
                                             .x = rows.x.row(row) + channel,
                                             .x_stride = rows.x.stride,
                                             .in = rows.in.row(row),
                                             .in_stride = rows.in.stride,
                                             .out_weights = rows.out_weights.row(row),
                                             .out_weight_stride = rows.out_weights.stride,
                                             .out = rows.out.row(row) + channel,
                                             .out_stride = rows.out.n_cols});
             });
}

void softplus(const Compute& compute, tensor::Matrix x) {
  for_rows(compute, x.n_rows,
           [&](size_t i) { compute.kernels.states->softplus(x.row(i), x.n_cols); });
}

}  // namespace billow::nn
