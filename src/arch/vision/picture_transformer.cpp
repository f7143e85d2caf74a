#include "arch/vision/picture_transformer.h"

#include <algorithm>
#include <utility>

#include "arch/vision/chunks.h"
#include "base/check.h"
#include "nn/activation.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/outliers.h"
#include "nn/quick_gelu.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

// Each part of a state begins at a multiple of 64 bytes.
size_t aligned(size_t n_floats) { return (n_floats + 15) / 16 * 16; }

void activate(const nn::Compute& compute, const std::optional<nn::Activation>& activation,
              tensor::Matrix x) {
  if (activation)
    nn::activate(compute, *activation, {}, x);
  else
    nn::quick_gelu(compute, x);
}

}  // namespace

void PictureTransformer::check(std::span<const vision::Tile> tiles) const {
  for (const vision::Tile& tile : tiles) positions_.check(tile);
}

size_t PictureTransformer::state_floats(size_t n_patches, size_t n_tiles) const {
  const size_t n = n_rows(n_patches, n_tiles);
  return aligned(n * style_.n_embd) + (rope_ ? 2 * aligned(n * rope_->n_pairs()) : 0);
}

PictureTransformer::State PictureTransformer::state_of(float* state, size_t n_rows) const {
  State parts;
  parts.x = {state, n_rows, style_.n_embd};
  if (!rope_) return parts;
  float* const angles = state + aligned(n_rows * style_.n_embd);
  parts.cosines = {angles, n_rows, rope_->n_pairs()};
  parts.sines = {angles + aligned(n_rows * rope_->n_pairs()), n_rows, rope_->n_pairs()};
  return parts;
}

void PictureTransformer::run_stage(const nn::Compute& compute, const PictureBatch& batch,
                                   size_t stage, std::span<float> state,
                                   tensor::Matrix rows) const {
  size_t n_patches = 0;
  size_t n_tokens = 0;
  for (const vision::Tile& tile : batch.tiles) {
    n_patches += size_t{tile.rows} * tile.cols;
    n_tokens += tile.n_tokens();
    BILLOW_CHECK(size_t{tile.token_rows} * rule_.merge <= tile.rows &&
                 size_t{tile.token_cols} * rule_.merge <= tile.cols);
  }
  BILLOW_CHECK(stage < info_.n_stages &&
               batch.patches.size() == n_patches * patches_.weight.n_cols);
  BILLOW_CHECK(state.size() >= state_floats(n_patches, batch.tiles.size()));
  BILLOW_CHECK(rows.n_rows == n_tokens && rows.n_cols == row_floats());
  if (n_patches == 0) return;
  const PictureRows plan = plan_picture_rows(rule_, batch.tiles, style_.class_row, style_.window);
  const State parts = state_of(state.data(), plan.rows.size());
  if (stage == 0) return embed(compute, batch, plan, parts);
  if (stage == info_.n_stages - 1)
    return projector_->run(compute, batch.tiles, plan, parts.x, rows, 0);
  const size_t index = stage - 1;
  const bool in_windows = !style_.windowed.empty() && style_.windowed[index];
  run_layer(compute, layers_[index],
            nn::text_units(in_windows ? plan.window_ends : plan.tile_ends, style_.n_heads,
                           compute.n_threads()),
            parts);
  for (size_t i = 0; i < deep_.size(); ++i) {
    if (style_.deep_layers[i] == index)
      deep_[i].run(compute, batch.tiles, plan, parts.x, rows, (1 + i) * info_.n_embd);
  }
}

void PictureTransformer::embed(const nn::Compute& compute, const PictureBatch& batch,
                               const PictureRows& rows, const State& state) const {
  const size_t n_pixels = patches_.weight.n_cols;
  for_chunks(compute, state.x.n_rows, [&](size_t begin, size_t end) {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix pixels = compute.arena.matrix(end - begin, n_pixels);
    nn::for_rows(compute, pixels.n_rows, [&](size_t i) {
      const uint32_t patch = rows.rows[begin + i].patch;
      if (patch == PictureRow::kNoPatch) return void(std::fill_n(pixels.row(i), n_pixels, 0.0f));
      const float* from = batch.patches.data() + patch * n_pixels;
      for (size_t k = 0; k < n_pixels; ++k)
        pixels.row(i)[k] = from[k] * style_.pixel_scale + style_.pixel_offset;
    });
    const tensor::Matrix x = rows_of(state.x, begin, end);
    multiply(compute, pixels, {{patches_, x}});
    if (second_frame_) {
      const tensor::Matrix second = compute.arena.matrix(x.n_rows, x.n_cols);
      nn::linear_with_outliers(compute, pixels, {{second_frame_, nullptr, second}});
      nn::add(compute, x, second);
    }
    if (!class_row_.empty()) {
      nn::for_rows(compute, x.n_rows, [&](size_t i) {
        if (rows.rows[begin + i].patch == PictureRow::kNoPatch)
          std::copy_n(class_row_.data(), style_.n_embd, x.row(i));
      });
    }
    const auto chunk = std::span(rows.rows).subspan(std::min(begin, rows.rows.size()));
    if (positions_) add_positions(compute, batch, chunk, x);
    if (pre_norm_) apply(pre_norm_, compute, x, x);
  });
  if (rope_) find_angles(compute, rows, state);
}

void PictureTransformer::add_positions(const nn::Compute& compute, const PictureBatch& batch,
                                       std::span<const PictureRow> rows, tensor::Matrix x) const {
  const tensor::Matrix scratch = compute.arena.matrix(compute.n_threads(), style_.n_embd);
  if (compute.sizing != nullptr) return;
  const uint32_t first_tile = rows.front().tile;
  std::vector<PicturePositions::Taps> taps;
  for (uint32_t tile = first_tile; tile <= rows[x.n_rows - 1].tile; ++tile)
    taps.push_back(positions_.taps_of(batch.tiles[tile]));
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int member) {
    for (size_t i = begin; i < end; ++i)
      positions_.add(rows[i], taps[rows[i].tile - first_tile],
                     scratch.row(static_cast<size_t>(member)), x.row(i));
  });
}

// Class rows are not rotated: their angles are 0.
void PictureTransformer::find_angles(const nn::Compute& compute, const PictureRows& rows,
                                     const State& state) const {
  nn::for_rows(compute, state.cosines.n_rows, [&](size_t i) {
    const PictureRow& row = rows.rows[i];
    const uint32_t first = row.patch == PictureRow::kNoPatch ? 0 : style_.first_angle;
    rope_->angles(first + row.row, first + row.col, state.cosines.row(i), state.sines.row(i));
  });
}

void PictureTransformer::attend(const nn::Compute& compute, const Layer& layer,
                                std::span<const nn::TextUnit> units, const State& state,
                                tensor::Matrix attended) const {
  const size_t n = state.x.n_rows;
  const size_t width = attended.n_cols;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix q = compute.arena.matrix(n, width);
  const tensor::Matrix k = compute.arena.matrix(n, width);
  const tensor::Matrix v = compute.arena.matrix(n, width);
  for_chunks(compute, n, [&](size_t begin, size_t end) {
    const tensor::ArenaScope of_chunk(compute.arena);
    const tensor::Matrix y = compute.arena.matrix(end - begin, style_.n_embd);
    apply(layer.attn_norm, compute, rows_of(state.x, begin, end), y);
    multiply(compute, y,
             {{layer.q, rows_of(q, begin, end)},
              {layer.k, rows_of(k, begin, end)},
              {layer.v, rows_of(v, begin, end)}});
  });
  if (layer.q_norm) apply_to_heads(layer.q_norm, compute, q, layer.q_norm_len, 0);
  if (layer.k_norm) apply_to_heads(layer.k_norm, compute, k, layer.k_norm_len, 0);
  if (style_.v_norm) apply_to_heads(norms_.plain_rms(), compute, v, style_.head_len, 0);
  if (rope_) {
    rope_->rotate(compute, state.cosines, state.sines, q);
    rope_->rotate(compute, state.cosines, state.sines, k);
  }
  const nn::TextHeads heads = {
      .head_len = style_.head_len,
      .scale = style_.attention_scale,
      .q = q,
      .k = k,
      .v = v,
      .in_bf16 = compute.kernels.of(layer.q.weight.type).input->kind == kernels::InputKind::kBF16};
  nn::encoder_attention(compute, units, heads, attended);
}

void PictureTransformer::run_layer(const nn::Compute& compute, const Layer& layer,
                                   std::span<const nn::TextUnit> units, const State& state) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix attended =
      compute.arena.matrix(state.x.n_rows, style_.n_heads * style_.head_len);
  attend(compute, layer, units, state, attended);
  for_chunks(compute, state.x.n_rows, [&](size_t begin, size_t end) {
    const tensor::ArenaScope of_chunk(compute.arena);
    const tensor::Matrix x = rows_of(state.x, begin, end);
    const tensor::Matrix y = compute.arena.matrix(x.n_rows, x.n_cols);
    multiply(compute, rows_of(attended, begin, end), {{layer.o, y}});
    add_result(compute, layer.post_attn_norm, layer.attn_scale, x, y);
    apply(layer.ffn_norm, compute, x, y);
    feed_forward(compute, layer, y, y);
    add_result(compute, layer.post_ffn_norm, layer.ffn_scale, x, y);
  });
}

// x and out may be the same.
void PictureTransformer::feed_forward(const nn::Compute& compute, const Layer& layer,
                                      tensor::Matrix x, tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix up = compute.arena.matrix(x.n_rows, style_.n_ff);
  tensor::Matrix inner = up;
  if (style_.gated) {
    inner = compute.arena.matrix(x.n_rows, style_.n_ff);
    multiply(compute, x, {{layer.gate, inner}, {layer.up, up}});
    if (style_.activation) {
      nn::activate_gated(compute, *style_.activation, inner, up);
    } else {
      nn::quick_gelu(compute, inner);
      nn::multiply(compute, inner, up);
    }
  } else {
    multiply(compute, x, {{layer.up, up}});
    activate(compute, style_.activation, up);
  }
  multiply(compute, inner, {{layer.down, out}});
}

void PictureTransformer::add_result(const nn::Compute& compute, const Norm& norm,
                                    const float* scale, tensor::Matrix x, tensor::Matrix y) {
  if (norm) apply(norm, compute, y, y);
  if (scale != nullptr) {
    nn::for_rows(compute, y.n_rows, [&](size_t row) {
      for (size_t i = 0; i < y.n_cols; ++i) y.row(row)[i] *= scale[i];
    });
  }
  nn::add(compute, x, y);
}

size_t PictureTransformer::scratch_bytes(const kernels::KernelTable& kernels,
                                         const PictureLimits& limits) const {
  const bool has_class_rows = style_.class_row != ClassRow::kNone;
  tensor::Arena lender{tensor::Arena::Counting{}};  // for matrices that live elsewhere
  tensor::Arena arena{tensor::Arena::Counting{}};
  cpu::ThreadTeam nobody(1);
  const nn::Sizing sizing = {.n_positions = limits.n_tile_patches + (has_class_rows ? 1 : 0),
                             .n_threads = limits.n_threads};
  const nn::Compute compute = {kernels, nobody, arena, &sizing};
  const size_t n = n_rows(limits.n_patches, limits.n_tiles);
  const State state =
      state_of(lender.array<float>(state_floats(limits.n_patches, limits.n_tiles)), n);
  embed(compute, {}, {}, state);
  for (const Layer& layer : layers_) run_layer(compute, layer, {}, state);
  const size_t n_tokens = limits.n_patches / (size_t{rule_.merge} * rule_.merge);
  const tensor::Matrix rows = lender.matrix(n_tokens, row_floats());
  projector_->run(compute, {}, {}, state.x, rows, 0);
  for (const PictureProjector& deep : deep_) deep.run(compute, {}, {}, state.x, rows, 0);
  return arena.n_bytes();
}

}  // namespace billow::arch
