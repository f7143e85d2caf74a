// For tests: pictures, comparisons with recorded grey levels, and headers of projectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "gguf/writer.h"
#include "image/picture.h"
#include "vision/pixels.h"
#include "vision/rule.h"

namespace billow::vision::test {

std::string golden_folder();  // tests/vision/golden/
std::string bytes_of(const std::string& path);

// The picture of drawn() in tests/vision/record_golden.py.
image::Picture drawn(uint32_t width, uint32_t height, uint32_t amplitude);

uint32_t crc32(std::span<const std::byte> bytes);

// Returns the largest difference between `levels` and the samples of record_golden.py.
int largest_difference(std::span<const uint8_t> levels, const std::string& samples);

// Sets the keys that each projector has, with a mean of 0 and a standard deviation of 1.
gguf::Writer projector(const std::string& type, uint32_t image_size, uint32_t patch_size);
Rule rule_of(const gguf::Writer& writer);

// Returns the planes of all tiles: [tiles][3][height][width].
std::vector<float> planes_of(const Pixels& pixels, const Rule& rule);

// Returns the grey levels of planes_of().
std::vector<uint8_t> levels_of(const std::vector<float>& planes, const Plan& plan,
                               const Rule& rule);

}  // namespace billow::vision::test
