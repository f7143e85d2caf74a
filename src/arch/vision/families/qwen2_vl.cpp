// Qwen2-VL: pictures of any shape, with rotations by row and column.
#include "arch/vision/families/qwen.h"
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluErf);
  set_qwen(style);
  style.patch_bias = false;
  return style;
}

}  // namespace

const PictureFamily kQwen2VlPictures = {"qwen2vl_merger", style};

}  // namespace billow::arch
