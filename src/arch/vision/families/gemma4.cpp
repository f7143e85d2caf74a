// Gemma 4: pictures of any shape within a number of tokens. Norms on both sides of sub-layers,
// norms of heads, and limits around products in E2B and E4B. A token is the mean of 3 x 3 patches.
#include <cmath>

#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluTanh);
  set_plain(style);
  style.activation = nn::Activation::kGeluTanh;  // the file does not name it
  style.gated = true;
  style.pixel_scale = 2.0f;  // pixels from 0 to 1 become -1 to 1
  style.pixel_offset = -1.0f;
  style.positions = PositionKind::kAxes;
  style.rope = {.pairs = nn::PlanePairs::kHalvesOfHalf,
                .head_len = style.head_len,
                .base = 100.0,
                .columns_first = true};
  style.result_norms = true;
  style.qk_norm = true;
  style.v_norm = true;
  style.attention_scale = 1.0f;
  style.projector = {.merge = MergeKind::kMean,
                     .scale = std::sqrt(static_cast<float>(style.n_embd)),
                     .standardises = true,
                     .merged_norm_kind = NormKind::kRms,
                     .merged_norm_epsilon = style.norm_epsilon,
                     .plain_rms = true,
                     .products = {{.name = "mm.input_projection", .has_bias = false}}};
  return style;
}

}  // namespace

const PictureFamily kGemma4Pictures = {"gemma4v", style};

}  // namespace billow::arch
