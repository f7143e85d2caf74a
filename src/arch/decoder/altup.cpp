#include "arch/decoder/altup.h"

#include <algorithm>
#include <cmath>

#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Returns the rows of one state.
tensor::Matrix state_of(tensor::Matrix states, size_t n, size_t state) {
  return {states.row(state * n), n, states.n_cols};
}

std::vector<float> load_floats(const WeightLoader& load, const std::string& name, size_t n_cols,
                               size_t n_rows) {
  tensor::Tensor matrix;
  load.table(name, matrix, n_cols, n_rows);
  std::vector<float> values(n_cols * n_rows);
  for (size_t row = 0; row < n_rows; ++row)
    quant::row(matrix.type).decode(matrix.row(row), n_cols, values.data() + row * n_cols);
  return values;
}

float root_of_mean_square(const float* x, size_t n, float min) {
  double sum = 0.0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]} * double{x[i]};
  return std::sqrt(std::max(static_cast<float>(sum / static_cast<double>(n)), min));
}

// Scales rows of x to the magnitude of the rows of `like`.
void scale_like(const nn::Compute& compute, tensor::Matrix like, tensor::Matrix x) {
  constexpr float kMinSquare = 1e-5f;
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    const float factor = root_of_mean_square(like.row(row), like.n_cols, 0.0f) /
                         root_of_mean_square(x.row(row), x.n_cols, kMinSquare);
    std::for_each_n(x.row(row), x.n_cols, [factor](float& value) { value *= factor; });
  });
}

}  // namespace

AltUp::AltUp(const AltUpStyle& style, const WeightLoader& load, size_t n_layers, size_t n_embd,
             const Norms& norms)
    : style_(style), layers_(n_layers) {
  const size_t n = style.n_states;
  load.matrices("altup_proj.weight", spread_, n_embd, n_embd, n - 1);
  load.matrices("altup_unembd_proj.weight", merge_, n_embd, n_embd, n - 1);
  for (size_t i = 0; i < n_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    Layer& layer = layers_[i];
    layer.predict = load_floats(load, prefix + "altup_predict_coef.weight", n, n * n);
    layer.correct = load_floats(load, prefix + "altup_correct_coef.weight", n, n);
    load.vector(prefix + "altup_correct_scale.weight", layer.scale, n_embd);
    load.matrix(prefix + "altup_router.weight", layer.router, n_embd, n);
    layer.router_norm = norms.load(load, prefix + "altup_router_norm", n_embd);
    load.matrix(prefix + "laurel_l.weight", layer.left, n_embd, style.laurel_rank);
    load.matrix(prefix + "laurel_r.weight", layer.right, style.laurel_rank, n_embd);
    layer.laurel_norm = norms.load(load, prefix + "laurel_post_norm", n_embd);
  }
}

tensor::Matrix AltUp::new_states(const nn::Compute& compute, size_t n) const {
  return compute.arena.matrix(style_.n_states * n, spread_[0].n_cols);
}

void AltUp::spread(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix states) const {
  const size_t n = x.n_rows;
  nn::for_rows(compute, n, [&](size_t row) { std::copy_n(x.row(row), x.n_cols, states.row(row)); });
  for (size_t state = 1; state < style_.n_states; ++state) {
    nn::linear(compute, x, {{spread_[state - 1], nullptr, state_of(states, n, state)}});
    scale_like(compute, x, state_of(states, n, state));
  }
}

tensor::Matrix AltUp::route(const nn::Compute& compute, const Layer& layer,
                            tensor::Matrix x) const {
  const tensor::Matrix routed = compute.arena.matrix(x.n_rows, style_.n_states);
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix normed = compute.arena.matrix(x.n_rows, x.n_cols);
  apply(layer.router_norm, compute, x, normed);
  nn::scale(compute, normed, 1.0f / static_cast<float>(x.n_cols));
  nn::linear(compute, normed, {{layer.router, nullptr, routed}});
  nn::for_rows(compute, routed.n_rows, [&](size_t row) {
    std::for_each_n(routed.row(row), routed.n_cols, [](float& value) { value = std::tanh(value); });
  });
  return routed;
}

void AltUp::predict(const nn::Compute& compute, size_t layer, tensor::Matrix states,
                    tensor::Matrix predicted, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  const size_t n = x.n_rows;
  const size_t n_states = style_.n_states;
  const tensor::Matrix routed = route(compute, layers_[layer], state_of(states, n, 0));
  const float* const weights = layers_[layer].predict.data();
  nn::for_rows(compute, n, [&](size_t row) {
    for (size_t state = 0; state < n_states; ++state) {
      float* const out = predicted.row(state * n + row);
      std::copy_n(states.row(state * n + row), x.n_cols, out);
      for (size_t from = 0; from < n_states; ++from) {
        const float* const of_pair = weights + (state * n_states + from) * n_states;
        float factor = 0.0f;
        for (size_t i = 0; i < n_states; ++i) factor += of_pair[i] * routed.row(row)[i];
        const float* const in = states.row(from * n + row);
        for (size_t k = 0; k < x.n_cols; ++k) out[k] += factor * in[k];
      }
    }
    std::copy_n(predicted.row(row), x.n_cols, x.row(row));
  });
}

void AltUp::laurel(const nn::Compute& compute, size_t layer, tensor::Matrix x,
                   tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix inner = compute.arena.matrix(x.n_rows, style_.laurel_rank);
  nn::linear(compute, x, {{layers_[layer].left, nullptr, inner}});
  nn::linear(compute, inner, {{layers_[layer].right, nullptr, out}});
  apply(layers_[layer].laurel_norm, compute, out, out);
  nn::add(compute, out, x);
}

void AltUp::correct(const nn::Compute& compute, size_t layer, tensor::Matrix predicted,
                    tensor::Matrix x, tensor::Matrix states) const {
  const tensor::ArenaScope scope(compute.arena);
  const size_t n = x.n_rows;
  const size_t n_states = style_.n_states;
  const tensor::Matrix routed = route(compute, layers_[layer], x);
  const float* const weights = layers_[layer].correct.data();
  nn::for_rows(compute, n, [&](size_t row) {
    const float* const first = predicted.row(row);
    for (size_t state = 0; state < n_states; ++state) {
      float factor = 1.0f;
      for (size_t i = 0; i < n_states; ++i)
        factor += weights[state * n_states + i] * routed.row(row)[i];
      const float* const in = predicted.row(state * n + row);
      float* const out = states.row(state * n + row);
      for (size_t k = 0; k < x.n_cols; ++k) out[k] = in[k] + factor * (x.row(row)[k] - first[k]);
    }
  });
}

void AltUp::scale_first(const nn::Compute& compute, size_t layer, tensor::Matrix states,
                        tensor::Matrix out) const {
  const float* const scale = layers_[layer].scale;
  nn::for_rows(compute, out.n_rows, [&](size_t row) {
    for (size_t k = 0; k < out.n_cols; ++k) out.row(row)[k] = states.row(row)[k] * scale[k];
  });
}

void AltUp::add_to_others(const nn::Compute& compute, tensor::Matrix x,
                          tensor::Matrix states) const {
  for (size_t state = 1; state < style_.n_states; ++state)
    nn::add(compute, state_of(states, x.n_rows, state), x);
}

void AltUp::merge(const nn::Compute& compute, tensor::Matrix states, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  const size_t n = x.n_rows;
  const tensor::Matrix first = state_of(states, n, 0);
  const tensor::Matrix other = compute.arena.matrix(n, x.n_cols);
  nn::for_rows(compute, n, [&](size_t row) { std::copy_n(first.row(row), x.n_cols, x.row(row)); });
  for (size_t state = 1; state < style_.n_states; ++state) {
    nn::linear(compute, state_of(states, n, state), {{merge_[state - 1], nullptr, other}});
    scale_like(compute, first, other);
    nn::add(compute, x, other);
  }
  nn::scale(compute, x, 1.0f / static_cast<float>(style_.n_states));
}

}  // namespace billow::arch
