// The families of picture encoders. Each of them has one file in families/. Static data; any
// thread.
#pragma once

#include <span>
#include <string_view>

#include "arch/metadata.h"
#include "arch/vision/style.h"
#include "vision/rule.h"

namespace billow::arch {

struct PictureFamily {
  std::string_view projector;  // clip.projector_type
  // Throws Error naming a key that is missing or invalid.
  PictureStyle (*style)(const Metadata& meta, const vision::Rule& rule);
};

extern const PictureFamily kGemma3Pictures;
extern const PictureFamily kGemma4Pictures;
extern const PictureFamily kIdefics3Pictures;
extern const PictureFamily kInternVlPictures;
extern const PictureFamily kLfm2Pictures;
extern const PictureFamily kLlama4Pictures;
extern const PictureFamily kPixtralPictures;
extern const PictureFamily kQwen25VlPictures;
extern const PictureFamily kQwen2VlPictures;
extern const PictureFamily kQwen3VlPictures;

std::span<const PictureFamily> picture_families() noexcept;

}  // namespace billow::arch
