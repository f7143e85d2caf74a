// Reads the EXIF orientation of a picture and applies it. Pure functions; any thread.
#pragma once

#include <string_view>

#include "image/picture.h"

namespace billow::image {

// Returns the orientation, 1 to 8, of a TIFF structure, with or without a leading "Exif\0\0".
// Returns 1 for invalid data, because a picture with broken metadata is still a picture.
int orientation_of(std::string_view exif) noexcept;

// Returns whether the orientation swaps width and height.
constexpr bool is_on_its_side(int orientation) noexcept { return orientation >= 5; }

// Returns the picture in its visible orientation.
Picture turned(Picture picture, int orientation);

}  // namespace billow::image
