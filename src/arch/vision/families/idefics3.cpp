// Idefics 3 and SmolVLM: SigLIP on tiles of one size.
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluTanh);
  style.positions = PositionKind::kGrid;
  style.projector = {.norm = "v.post_ln", .products = {{.name = "mm.model.fc", .has_bias = false}}};
  return style;
}

}  // namespace

const PictureFamily kIdefics3Pictures = {"idefics3", style};

}  // namespace billow::arch
