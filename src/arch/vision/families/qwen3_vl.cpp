// Qwen3-VL and Qwen3.5: as Qwen2-VL, with positions that are stretched to the picture. In Qwen3-VL,
// the results of some layers are projected, too, for the first layers of the text model.
#include <string>

#include "arch/vision/families/qwen.h"
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

PictureStyle style(const Metadata& meta, const vision::Rule& /*rule*/) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluTanh);
  set_qwen(style);
  style.positions = PositionKind::kStretched;
  const std::vector<bool> flags = meta.flags("vision.is_deepstack_layers", style.n_layers);
  for (size_t i = 0; i < style.n_layers; ++i) {
    const std::string prefix = "v.deepstack." + std::to_string(i) + ".";
    const bool is_deep =
        flags.empty() ? meta.file().find_tensor(prefix + "fc1.weight") != nullptr : flags[i];
    if (!is_deep) continue;
    style.deep_layers.push_back(i);
    style.deep_projectors.push_back(
        {.merged_norm = prefix + "norm",
         .merged_norm_epsilon = style.norm_epsilon,
         .products = {{.name = prefix + "fc1", .activates = true}, {.name = prefix + "fc2"}}});
  }
  return style;
}

}  // namespace

const PictureFamily kQwen3VlPictures = {"qwen3vl_merger", style};

}  // namespace billow::arch
