// Llama 4: tiles of one size with a class row at the end and rotations by column and row. Some
// converters name the norm before the feed-forward part attn_post_norm.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluErf);
  style.patch_bias = false;
  style.class_row = ClassRow::kLast;
  style.positions = PositionKind::kGrid;
  style.pre_norm = true;
  style.rope = {
      .pairs = nn::PlanePairs::kAdjacent, .head_len = style.head_len, .columns_first = true};
  style.first_angle = 1;
  if (meta.file().find_tensor("v.blk.0.ln2.weight") == nullptr &&
      meta.file().find_tensor("v.blk.0.attn_post_norm.weight") != nullptr)
    style.ffn_norm = "attn_post_norm";
  style.projector = {.norm = "v.post_ln",
                     .products = {{.name = "mm.model.mlp.1", .has_bias = false, .activates = true},
                                  {.name = "mm.model.mlp.2", .has_bias = false, .activates = true},
                                  {.name = "mm.model.fc", .has_bias = false}}};
  return style;
}

}  // namespace

const PictureFamily kLlama4Pictures = {"llama4", style};

}  // namespace billow::arch
