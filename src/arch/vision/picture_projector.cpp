#include "arch/vision/picture_projector.h"

#include <algorithm>
#include <span>

#include "arch/metadata.h"
#include "arch/vision/chunks.h"
#include "base/check.h"
#include "base/error.h"
#include "nn/for_rows.h"
#include "nn/rows.h"

namespace billow::arch {

PictureProjector::PictureProjector(const ProjectorStyle& style, const WeightLoader& load,
                                   const Norms& patch_norms, size_t n_embd, size_t merge)
    : style_(style),
      n_embd_(n_embd),
      merge_(merge),
      n_merged_(style.merge == MergeKind::kMean ? n_embd : n_embd * merge * merge) {
  if (n_merged_ > kMaxWidth) {
    throw Error(ErrorCode::kInvalidInput,
                load.file().path() + ": a token of " + std::to_string(merge) + " x " +
                    std::to_string(merge) + " patches has " + std::to_string(n_merged_) +
                    " values; at most " + std::to_string(kMaxWidth) + " are supported");
  }
  if (!style_.norm.empty())
    norm_ = load_norm(patch_norms, load, style_.norm, n_embd, style_.norm_presence);
  if (style_.plain_rms || !style_.merged_norm.empty())
    merged_norms_.emplace(style_.merged_norm_kind, style_.merged_norm_epsilon, n_merged_);
  if (style_.plain_rms)
    merged_norm_ = merged_norms_->plain_rms();
  else if (merged_norms_)
    merged_norm_ =
        load_norm(*merged_norms_, load, style_.merged_norm, n_merged_, style_.merged_norm_presence);
  if (style_.standardises && (load.has("v.std_bias") || load.has("v.std_scale"))) {
    load.vector("v.std_bias", std_bias_, n_merged_);
    load.vector("v.std_scale", std_scale_, n_merged_);
  }
  BILLOW_CHECK(!style_.products.empty());
  n_out_ = n_merged_;
  for (const ProjectorProduct& product : style_.products) load_product(product, load, n_out_);
}

// Loads the next product. Its number of outputs is the tensor's.
void PictureProjector::load_product(const ProjectorProduct& style, const WeightLoader& load,
                                    size_t n_in) {
  Product product;
  product.activates = style.activates;
  const auto presence = style.has_bias ? Presence::kRequired : Presence::kOptional;
  const gguf::TensorInfo* info = load.file().find_tensor(style.name + ".weight");
  n_out_ = info == nullptr ? 1 : info->shape[style.transposed ? 0 : 1];
  if (n_out_ == 0 || n_out_ > kMaxWidth) {
    throw Error(ErrorCode::kInvalidInput, load.file().path() + ": tensor " + style.name +
                                              ".weight makes rows of " + std::to_string(n_out_) +
                                              " values");
  }
  if (style.transposed) {
    load_transposed(load, style.name, n_in, product.dense);
    product.dense.load_bias(load, style.name, n_out_, presence);
  } else {
    product.dense.load(load, style.name, n_in, n_out_, presence);
  }
  products_.push_back(product);
}

// Decodes a matrix whose rows are the inputs, and turns it.
void PictureProjector::load_transposed(const WeightLoader& load, const std::string& name,
                                       size_t n_in, Dense& dense) {
  BILLOW_CHECK(transposed_.empty());
  tensor::Tensor source;
  load.table(name + ".weight", source, n_out_, n_in);
  transposed_.resize(n_in * n_out_);
  std::vector<float> row(n_out_);
  for (size_t in = 0; in < n_in; ++in) {
    quant::row(source.type).decode(source.row(in), n_out_, row.data());
    for (size_t out = 0; out < n_out_; ++out) transposed_[out * n_in + in] = row[out];
  }
  dense.weight = {.data = reinterpret_cast<const std::byte*>(transposed_.data()),
                  .type = quant::Type::kF32,
                  .n_cols = n_in,
                  .n_rows = n_out_};
}

// Writes the merged row of one token. `scratch` has n_embd_ floats.
void PictureProjector::merge_patches(const Source& source, const TokenPlace& token,
                                     const kernels::KernelTable& kernels, float* scratch,
                                     float* out) const {
  const vision::Tile& tile = source.tiles[token.tile];
  const size_t n_patches = merge_ * merge_;
  if (style_.merge == MergeKind::kMean) std::fill_n(out, n_embd_, 0.0f);
  for (size_t patch = 0; patch < n_patches; ++patch) {
    const size_t row = token.row * merge_ + patch / merge_;
    const size_t col = token.col * merge_ + patch % merge_;
    const float* values =
        source.x.row(source.rows.row_at[tile.first_patch + row * tile.cols + col]);
    if (norm_) {
      apply_to_row(norm_, kernels, values, n_embd_, scratch);
      values = scratch;
    }
    switch (style_.merge) {
      case MergeKind::kMean:
        kernels.add(out, values, n_embd_);
        break;
      case MergeKind::kPatches:
        std::copy_n(values, n_embd_, out + patch * n_embd_);
        break;
      case MergeKind::kChannels:
        for (size_t i = 0; i < n_embd_; ++i) out[i * n_patches + patch] = values[i];
        break;
    }
  }
  const float of_patch =
      style_.merge == MergeKind::kMean ? 1.0f / static_cast<float>(n_patches) : 1.0f;
  if (const float factor = of_patch * style_.scale; factor != 1.0f)
    std::for_each_n(out, n_merged_, [factor](float& value) { value *= factor; });
}

void PictureProjector::standardise(const nn::Compute& compute, tensor::Matrix merged) const {
  nn::for_rows(compute, merged.n_rows, [&](size_t row) {
    float* const values = merged.row(row);
    for (size_t i = 0; i < n_merged_; ++i) values[i] = (values[i] - std_bias_[i]) * std_scale_[i];
  });
}

// Returns the result, which is in the arena.
tensor::Matrix PictureProjector::multiply_all(const nn::Compute& compute,
                                              tensor::Matrix merged) const {
  tensor::Matrix values = merged;
  for (const Product& product : products_) {
    const tensor::Matrix result = compute.arena.matrix(values.n_rows, product.dense.weight.n_rows);
    multiply(compute, values, {{product.dense, result}});
    if (product.activates) nn::gelu(compute, result);
    values = result;
  }
  return values;
}

void PictureProjector::run(const nn::Compute& compute, std::span<const vision::Tile> tiles,
                           const PictureRows& rows, tensor::Matrix x, tensor::Matrix out,
                           size_t first_col) const {
  const std::vector<TokenPlace> tokens = plan_tokens(tiles);
  BILLOW_CHECK(compute.sizing != nullptr || tokens.size() == out.n_rows);
  const Source source = {tiles, rows, x};
  for_chunks(compute, out.n_rows, [&](size_t begin, size_t end) {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix merged = compute.arena.matrix(end - begin, n_merged_);
    const tensor::Matrix scratch = compute.arena.matrix(compute.n_threads(), n_embd_);
    if (compute.sizing == nullptr) {
      compute.team.for_pieces(end - begin, 1, [&](size_t first, size_t last, int member) {
        for (size_t i = first; i < last; ++i)
          merge_patches(source, tokens[begin + i], compute.kernels,
                        scratch.row(static_cast<size_t>(member)), merged.row(i));
      });
    }
    if (std_bias_ != nullptr) standardise(compute, merged);
    if (merged_norm_) apply(merged_norm_, compute, merged, merged);
    const tensor::Matrix result = multiply_all(compute, merged);
    nn::for_rows(compute, result.n_rows, [&](size_t i) {
      std::copy_n(result.row(i), n_out_, out.row(begin + i) + first_col);
    });
  });
}

}  // namespace billow::arch
