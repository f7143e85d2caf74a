// Qwen2.5-VL: as Qwen2-VL, but most layers see only a window of 112 x 112 pixels. Norms are RMS
// norms, and the feed-forward part has a gate.
#include "arch/vision/families/qwen.h"
#include "arch/vision/picture_families.h"

namespace billow::arch {
namespace {

constexpr size_t kWindowPixels = 112;

PictureStyle style(const Metadata& meta, const vision::Rule& rule) {
  PictureStyle style = read_picture_style(meta, nn::Activation::kGeluErf);
  set_qwen(style);
  style.norm = NormKind::kRms;
  style.patch_bias = false;
  style.gated = true;
  style.window = kWindowPixels / rule.token_size() * rule.merge;
  if (style.window == 0) meta.refuse("vision.patch_size", "is larger than a window of attention");
  // Every n-th layer sees the whole picture.
  const size_t n = meta.size("vision.n_wa_pattern", kMaxLayers);
  for (size_t i = 0; i < style.n_layers; ++i) style.windowed.push_back((i + 1) % n != 0);
  return style;
}

}  // namespace

const PictureFamily kQwen25VlPictures = {"qwen2.5vl_merger", style};

}  // namespace billow::arch
