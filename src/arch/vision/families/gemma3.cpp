// Gemma 3 and MedGemma: SigLIP on pictures of one size. A token is the mean of 4 x 4 patches. The
// file has the projection with inputs as rows.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluTanh);
  style.positions = PositionKind::kGrid;
  style.projector = {
      .norm = "v.post_ln",
      .merge = MergeKind::kMean,
      .merged_norm = "mm.soft_emb_norm",
      .merged_norm_kind = NormKind::kRms,
      .merged_norm_epsilon = style.norm_epsilon,
      .products = {{.name = "mm.input_projection", .has_bias = false, .transposed = true}}};
  return style;
}

}  // namespace

const PictureFamily kGemma3Pictures = {"gemma3", style};

}  // namespace billow::arch
