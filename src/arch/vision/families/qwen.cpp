#include "arch/vision/families/qwen.h"

namespace billow::arch {

void set_qwen(PictureStyle& style) {
  style.two_frames = true;
  style.rope = {.pairs = nn::PlanePairs::kHalves, .head_len = style.head_len};
  style.projector = {.norm = "v.post_ln",
                     .products = {{.name = "mm.0", .activates = true}, {.name = "mm.2"}}};
}

}  // namespace billow::arch
