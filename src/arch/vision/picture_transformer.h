// A picture encoder that a PictureStyle describes: patch embedding, positions, layers of
// bidirectional attention and feed-forward parts, and a projector.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/vision/dense.h"
#include "arch/vision/picture_encoder.h"
#include "arch/vision/picture_positions.h"
#include "arch/vision/picture_projector.h"
#include "arch/vision/picture_rows.h"
#include "arch/vision/style.h"
#include "nn/encoder_attention.h"
#include "nn/plane_rope.h"

namespace billow::arch {

class PictureTransformer final : public PictureEncoder {
 public:
  // Loads the encoder of `file`, which must outlive it. Throws Error as load_picture_encoder().
  PictureTransformer(PictureStyle style, vision::Rule rule, const gguf::File& file,
                     const LoadOptions& options);

  void check(std::span<const vision::Tile> tiles) const override;
  size_t state_floats(size_t n_patches, size_t n_tiles) const override;
  void run_stage(const nn::Compute& compute, const PictureBatch& batch, size_t stage,
                 std::span<float> state, tensor::Matrix rows) const override;
  size_t scratch_bytes(const kernels::KernelTable& kernels,
                       const PictureLimits& limits) const override;

 private:
  struct Layer {
    Norm attn_norm;
    Dense q;
    Dense k;
    Dense v;
    Dense o;
    Norm q_norm;
    Norm k_norm;
    size_t q_norm_len = 0;  // values that are normed together
    size_t k_norm_len = 0;
    Norm post_attn_norm;
    const float* attn_scale = nullptr;  // [n_embd]
    Norm ffn_norm;
    Dense gate;
    Dense up;
    Dense down;
    Norm post_ffn_norm;
    const float* ffn_scale = nullptr;  // [n_embd]
  };
  // What a pass keeps from stage to stage.
  struct State {
    tensor::Matrix x;        // [rows][n_embd]
    tensor::Matrix cosines;  // [rows][head_len / 2], if the style has a rotation
    tensor::Matrix sines;
  };

  void load(const WeightLoader& load);
  void load_patches(const WeightLoader& load);
  void load_layer(const WeightLoader& load, size_t index, Layer& layer) const;
  void load_qkv(const WeightLoader& load, const std::string& prefix, Layer& layer) const;
  void load_head_norms(const WeightLoader& load, const std::string& prefix, Layer& layer) const;
  void load_feed_forward(const WeightLoader& load, const std::string& prefix, Layer& layer) const;
  const float* load_scale(const WeightLoader& load, const std::string& name) const;
  Norm load_norm(const WeightLoader& load, const std::string& name) const;

  size_t n_rows(size_t n_patches, size_t n_tiles) const noexcept {
    return n_patches + (style_.class_row == ClassRow::kNone ? 0 : n_tiles);
  }
  State state_of(float* state, size_t n_rows) const;
  void embed(const nn::Compute& compute, const PictureBatch& batch, const PictureRows& rows,
             const State& state) const;
  void add_positions(const nn::Compute& compute, const PictureBatch& batch,
                     std::span<const PictureRow> rows, tensor::Matrix x) const;
  void find_angles(const nn::Compute& compute, const PictureRows& rows, const State& state) const;
  void run_layer(const nn::Compute& compute, const Layer& layer,
                 std::span<const nn::TextUnit> units, const State& state) const;
  void attend(const nn::Compute& compute, const Layer& layer, std::span<const nn::TextUnit> units,
              const State& state, tensor::Matrix attended) const;
  void feed_forward(const nn::Compute& compute, const Layer& layer, tensor::Matrix x,
                    tensor::Matrix out) const;
  // x += scale * norm(y). Overwrites y.
  static void add_result(const nn::Compute& compute, const Norm& norm, const float* scale,
                         tensor::Matrix x, tensor::Matrix y);

  PictureStyle style_;
  Norms norms_;
  Dense patches_;                 // [n_embd][3 * patch_size^2]
  tensor::Tensor second_frame_;   // the same shape
  std::vector<float> class_row_;  // [n_embd]; empty: none
  PicturePositions positions_;
  std::optional<nn::PlaneRope> rope_;
  Norm pre_norm_;
  std::vector<Layer> layers_;
  std::optional<PictureProjector> projector_;
  std::vector<PictureProjector> deep_;  // of style_.deep_layers
};

}  // namespace billow::arch
