// The loading of PictureTransformer.
#include <algorithm>
#include <utility>

#include "arch/metadata.h"
#include "arch/vision/picture_transformer.h"
#include "base/error.h"
#include "gguf/tensor_type.h"

namespace billow::arch {
namespace {

Presence required_if(bool required) { return required ? Presence::kRequired : Presence::kOptional; }

// Returns a view of the patch embedding as a matrix: the file's tensor has [patch][patch][3] in
// place of the columns, or all three as one dimension.
tensor::Tensor patch_matrix(const WeightLoader& load, const std::string& name, size_t patch_size,
                            size_t n_embd) {
  const size_t n_pixels = 3 * patch_size * patch_size;
  const gguf::TensorInfo* info = load.file().find_tensor(name);
  tensor::Tensor matrix;
  if (info == nullptr || info->n_dims < 4) {
    load.plain_matrix(name, matrix, n_pixels, n_embd);
    return matrix;
  }
  const std::array<uint64_t, 4> wanted = {patch_size, patch_size, 3, n_embd};
  const quant::TypeRow* type = quant::find_type(info->type);
  if (info->shape != wanted) {
    throw Error(ErrorCode::kInvalidInput,
                load.file().path() + ": tensor " + name + " has shape [" +
                    std::to_string(info->shape[0]) + ", " + std::to_string(info->shape[1]) + ", " +
                    std::to_string(info->shape[2]) + ", " + std::to_string(info->shape[3]) +
                    "], but the metadata asks for [" + std::to_string(patch_size) + ", " +
                    std::to_string(patch_size) + ", 3, " + std::to_string(n_embd) + "]");
  }
  // A row of the matrix is several rows of the tensor, so it must have no padding.
  if (type == nullptr || quant::row_bytes(type->type, patch_size) * patch_size * 3 !=
                             quant::row_bytes(type->type, n_pixels)) {
    throw Error(ErrorCode::kUnsupported,
                load.file().path() + ": tensor " + name + " has the format " +
                    gguf::tensor_type_name(info->type) + ", which is not supported for patches");
  }
  return {.data = info->data.data(), .type = type->type, .n_cols = n_pixels, .n_rows = n_embd};
}

}  // namespace

PictureTransformer::PictureTransformer(PictureStyle style, vision::Rule rule,
                                       const gguf::File& file, const LoadOptions& options)
    : style_(std::move(style)), norms_(style_.norm, style_.norm_epsilon, style_.n_embd) {
  rule_ = rule;
  load(WeightLoader(file, options.packed, options.matrices));
  info_ = {.projector = std::string(
               file.get_string("clip.projector_type")
                   .value_or(file.get_string("clip.vision.projector_type").value_or(""))),
           .n_embd = projector_->n_out(),
           .n_deep = deep_.size(),
           .n_stages = layers_.size() + 2,
           .n_own_bytes = projector_->n_own_bytes()};
  for (const PictureProjector& deep : deep_) {
    info_.n_own_bytes += deep.n_own_bytes();
    if (deep.n_out() == projector_->n_out()) continue;
    throw Error(ErrorCode::kInvalidInput, file.path() + ": the projectors of layers make rows of " +
                                              std::to_string(deep.n_out()) +
                                              " values, but the last one makes " +
                                              std::to_string(projector_->n_out()));
  }
}

void PictureTransformer::load(const WeightLoader& load) {
  for (const gguf::TensorInfo& tensor : load.file().tensors()) {
    if (uses_tensor(style_, tensor.name)) continue;
    throw Error(ErrorCode::kUnsupported, load.file().path() + ": tensor " + tensor.name +
                                             " is not expected in an encoder of this kind (" +
                                             "clip.projector_type and the other metadata)");
  }
  load_patches(load);
  if (style_.class_row != ClassRow::kNone) {
    tensor::Tensor row;  // in any format
    load.table("v.class_embd", row, style_.n_embd, 1);
    class_row_.resize(style_.n_embd);
    quant::row(row.type).decode(row.row(0), style_.n_embd, class_row_.data());
  }
  positions_.load(load, style_, rule_);
  if (style_.rope) rope_.emplace(*style_.rope);
  if (style_.pre_norm) pre_norm_ = load_norm(load, "v.pre_ln");
  layers_.resize(style_.n_layers);
  for (size_t i = 0; i < layers_.size(); ++i) load_layer(load, i, layers_[i]);
  projector_.emplace(style_.projector, load, norms_, style_.n_embd, rule_.merge);
  deep_.reserve(style_.deep_projectors.size());
  for (const ProjectorStyle& deep : style_.deep_projectors)
    deep_.emplace_back(deep, load, norms_, style_.n_embd, rule_.merge);
}

void PictureTransformer::load_patches(const WeightLoader& load) {
  const std::string name = "v.patch_embd";
  patches_.weight = patch_matrix(load, name + ".weight", rule_.patch_size, style_.n_embd);
  load.pack(patches_.weight);
  patches_.load_bias(load, name, style_.n_embd, required_if(style_.patch_bias));
  if (!style_.two_frames) return;
  second_frame_ = patch_matrix(load, name + ".weight.1", rule_.patch_size, style_.n_embd);
  load.pack(second_frame_);
}

Norm PictureTransformer::load_norm(const WeightLoader& load, const std::string& name) const {
  return arch::load_norm(norms_, load, name, style_.n_embd);
}

void PictureTransformer::load_layer(const WeightLoader& load, size_t index, Layer& layer) const {
  const std::string prefix = "v.blk." + std::to_string(index) + ".";
  layer.attn_norm = load_norm(load, prefix + "ln1");
  load_qkv(load, prefix, layer);
  layer.o.load(load, prefix + "attn_out", style_.n_heads * style_.head_len, style_.n_embd,
               required_if(style_.biases));
  if (style_.qk_norm) load_head_norms(load, prefix, layer);
  layer.ffn_norm = load_norm(load, prefix + style_.ffn_norm);
  load_feed_forward(load, prefix, layer);
  if (style_.result_norms) {
    layer.post_attn_norm = load_norm(load, prefix + "attn_post_norm");
    layer.post_ffn_norm = load_norm(load, prefix + "ffn_post_norm");
  }
  if (!style_.layer_scales) return;
  layer.attn_scale = load_scale(load, prefix + "ls1.weight");
  layer.ffn_scale = load_scale(load, prefix + "ls2.weight");
}

const float* PictureTransformer::load_scale(const WeightLoader& load,
                                            const std::string& name) const {
  const float* scale = nullptr;
  load.vector(name, scale, style_.n_embd);
  return scale;
}

// The three matrices may be one matrix, with the rows of q, k and v in this order.
void PictureTransformer::load_qkv(const WeightLoader& load, const std::string& prefix,
                                  Layer& layer) const {
  const size_t n = style_.n_heads * style_.head_len;
  const Presence presence = required_if(style_.qkv_biases);
  const std::string joint = prefix + "attn_qkv";
  if (!load.has(joint + ".weight")) {
    layer.q.load(load, prefix + "attn_q", style_.n_embd, n, presence);
    layer.k.load(load, prefix + "attn_k", style_.n_embd, n, presence);
    layer.v.load(load, prefix + "attn_v", style_.n_embd, n, presence);
    return;
  }
  Dense all;
  load.plain_matrix(joint + ".weight", all.weight, style_.n_embd, 3 * n);
  all.load_bias(load, joint, 3 * n, presence);
  size_t begin = 0;
  for (Dense* part : {&layer.q, &layer.k, &layer.v}) {
    part->weight = rows_of(all.weight, begin, n);
    load.pack(part->weight);
    if (all.bias != nullptr) part->bias = all.bias + begin;
    part->clamp = all.clamp;
    begin += n;
  }
}

// Reads from the tensors' shapes which values are normed together: a head, or all heads as one row.
void PictureTransformer::load_head_norms(const WeightLoader& load, const std::string& prefix,
                                         Layer& layer) const {
  const auto length_of = [&](const char* name) {
    const gguf::TensorInfo* info = load.file().find_tensor(prefix + name + ".weight");
    return info == nullptr || info->n_elements() == style_.head_len
               ? style_.head_len
               : style_.n_heads * style_.head_len;
  };
  layer.q_norm_len = length_of("attn_q_norm");
  layer.k_norm_len = length_of("attn_k_norm");
  layer.q_norm = norms_.load(load, prefix + "attn_q_norm", layer.q_norm_len);
  layer.k_norm = norms_.load(load, prefix + "attn_k_norm", layer.k_norm_len);
  layer.q_norm.kind = layer.k_norm.kind = NormKind::kRms;  // in all families
}

// Older converters exchanged the names of "up" and "down". The shapes show it.
void PictureTransformer::load_feed_forward(const WeightLoader& load, const std::string& prefix,
                                           Layer& layer) const {
  const Presence presence = required_if(style_.biases);
  std::string up = prefix + "ffn_up";
  std::string down = prefix + "ffn_down";
  const gguf::TensorInfo* info = load.file().find_tensor(up + ".weight");
  if (info != nullptr && style_.n_ff != style_.n_embd && info->shape[0] == style_.n_ff &&
      info->shape[1] == style_.n_embd)
    std::swap(up, down);
  if (style_.gated)
    layer.gate.load(load, prefix + "ffn_gate", style_.n_embd, style_.n_ff, presence);
  layer.up.load(load, up, style_.n_embd, style_.n_ff, presence);
  layer.down.load(load, down, style_.n_ff, style_.n_embd, presence);
}

}  // namespace billow::arch
