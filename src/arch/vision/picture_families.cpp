#include "arch/vision/picture_families.h"

namespace billow::arch {

std::span<const PictureFamily> picture_families() noexcept {
  static const PictureFamily kRows[] = {
      kGemma3Pictures, kGemma4Pictures,  kIdefics3Pictures, kInternVlPictures, kLfm2Pictures,
      kLlama4Pictures, kPixtralPictures, kQwen25VlPictures, kQwen2VlPictures,  kQwen3VlPictures};
  return kRows;
}

}  // namespace billow::arch
