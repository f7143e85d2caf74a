// InternVL 2.5, 3 and 3.5: tiles of one size with a class row. InternViT-6B has RMS norms and norms
// of all query and key heads as one row; the smaller InternViT has layer norms.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluErf);
  const auto has = [&](const char* name) { return meta.file().find_tensor(name) != nullptr; };
  if (!has("v.blk.0.ln1.bias")) style.norm = NormKind::kRms;
  style.qkv_biases = false;
  style.qk_norm = has("v.blk.0.attn_q_norm.weight");
  style.class_row = ClassRow::kFirst;
  style.positions = PositionKind::kGrid;
  style.layer_scales = true;
  style.projector = {
      .merged_norm = "mm.model.mlp.0",
      .products = {{.name = "mm.model.mlp.1", .activates = true}, {.name = "mm.model.mlp.3"}}};
  return style;
}

}  // namespace

const PictureFamily kInternVlPictures = {"internvl", style};

}  // namespace billow::arch
