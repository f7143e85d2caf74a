// LFM2-VL: SigLIP 2 on tiles, or on a whole picture of any shape. Some models have no norm before
// the projector's products.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluTanh);
  style.positions = PositionKind::kResized;
  style.projector = {.norm = "v.post_ln",
                     .merged_norm = "mm.input_norm",
                     .merged_norm_presence = Presence::kOptional,
                     .products = {{.name = "mm.1", .activates = true}, {.name = "mm.2"}}};
  return style;
}

}  // namespace

const PictureFamily kLfm2Pictures = {"lfm2", style};

}  // namespace billow::arch
