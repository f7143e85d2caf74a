// The orientation that cameras note in EXIF. Pure functions; any thread.
#pragma once

#include <string_view>

#include "image/picture.h"

namespace billow::image {

// 1 to 8, of a TIFF structure, with or without "Exif\0\0" before it. 1 for anything that makes no
// sense: a picture with broken notes is still a picture.
int orientation_of(std::string_view exif) noexcept;

// Whether width and height change places.
constexpr bool is_on_its_side(int orientation) noexcept { return orientation >= 5; }

// The picture as it is to be seen.
Picture turned(Picture picture, int orientation);

}  // namespace billow::image
