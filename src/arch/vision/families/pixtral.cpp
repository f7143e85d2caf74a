// Pixtral and Mistral Small 3.1 and later: pictures of any shape, with rotations by row and column.
// The converter has permuted the rows of Q and K. Mistral Small merges patches; Pixtral does not.
// The file also has the embedding of [IMG_BREAK], which is a word of the text here.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& rule) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluErf);
  set_plain(style);
  style.gated = true;
  style.pre_norm = true;
  style.rope = {.pairs = nn::PlanePairs::kAdjacent, .head_len = style.head_len, .staggered = true};
  style.projector = {.norm = "mm.input_norm",
                     .norm_presence = rule.merge > 1 ? Presence::kRequired : Presence::kOptional,
                     .merge = MergeKind::kChannels};
  if (rule.merge > 1)
    style.projector.products.push_back({.name = "mm.patch_merger", .has_bias = false});
  style.projector.products.push_back({.name = "mm.1", .has_bias = false, .activates = true});
  style.projector.products.push_back({.name = "mm.2", .has_bias = false});
  return style;
}

}  // namespace

const PictureFamily kPixtralPictures = {"pixtral", style};

}  // namespace billow::arch
