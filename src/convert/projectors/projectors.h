// The families of pictures that the converter supports, and what several families share.
// projector_families.cpp has a table with one row per family. Constants and pure functions,
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "convert/projector_family.h"

namespace billow::convert {

extern const ProjectorFamily kGemma3Projector;
extern const ProjectorFamily kGemma4Projector;
extern const ProjectorFamily kIdefics3Projector;
extern const ProjectorFamily kInternVlProjector;
extern const ProjectorFamily kLfm2Projector;
extern const ProjectorFamily kLlama4Projector;
extern const ProjectorFamily kPixtralProjector;
extern const ProjectorFamily kQwen2VlProjector;
extern const ProjectorFamily kQwen25VlProjector;
extern const ProjectorFamily kQwen3VlProjector;
extern const ProjectorFamily kQwen35Projector;

// SigLIP: the encoder of several families, under "vision_tower".
TensorRules siglip_names();

// Returns the sizes of fields that most families have. `merge` is 1.
ProjectorSizes standard_sizes(const ModelConfig& vision);
// Returns a number of pixels, from 1 to 4,096. The field may be a list of two equal numbers.
uint32_t require_square(const ModelConfig& config, std::string_view name);
// Returns a number of patches per token in each direction, from 1 to 64.
uint32_t merge_of(const ModelConfig& config, std::string_view name, uint32_t otherwise);
// Returns the root of a number that is a square of at most 4,096.
uint32_t require_root(const ModelConfig& config, std::string_view name);
// Returns the whole number that is nearest to 1 / value of this field.
uint32_t require_inverse(const ModelConfig& config, std::string_view name);

// Throws Error if the field exists and differs from the only value that can be converted.
void require_same(const ModelConfig& config, std::string_view name, double value);
void require_same(const ModelConfig& config, std::string_view name, std::string_view value);
void require_flag(const ModelConfig& config, std::string_view name, bool value);

// Returns the number of a field in the object "size", or nullopt.
std::optional<uint32_t> size_of(const ModelConfig& processor, std::string_view name);
// Throws Error if the processor makes pictures of another size than the encoder's.
void require_image_size(const ProjectorModel& model, const ProjectorSizes& sizes);
// Returns the pixels of this number of tokens, given the pixels of a token's side; or nullopt.
std::optional<uint64_t> pixels_of_tokens(const ModelConfig& processor, std::string_view name,
                                         uint64_t side);
// Writes a limit that differs from the default of readers.
void write_limit(KeyWriter& keys, std::string_view key, std::optional<uint64_t> value,
                 uint64_t otherwise);

// --- shaping ---
void as_patches(Shaping& shaping);  // [n][p * p * 3] becomes [n][3][p][p]
void first_third(Shaping& shaping);
void second_third(Shaping& shaping);
void last_third(Shaping& shaping);

}  // namespace billow::convert
