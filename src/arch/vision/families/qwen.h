// What the picture encoders of all Qwen families have in common.
#pragma once

#include "arch/vision/style.h"

namespace billow::arch {

// Sets the rotation, the second frame and the projector.
void set_qwen(PictureStyle& style);

}  // namespace billow::arch
