// Parses the name of a tensor in a checkpoint. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::convert {

struct TensorName {
  std::string pattern;             // "#" for the first number, "*" for others; without the suffix
  std::string suffix;              // ".weight", ".bias", a limit as ".input_min", or empty
  std::optional<uint32_t> layer;   // the first number
  std::optional<uint32_t> number;  // the last number after `layer`
};

// Numbers of more than nine digits stay in the pattern unchanged.
TensorName parse_tensor_name(std::string_view name);

// Returns whether a name ends with ".input_min" or another limit of a product.
bool is_limit(std::string_view name);

// Returns whether a GGUF name ends with ".weight", ".bias" or ".scale".
bool has_suffix(std::string_view target);

// Returns whether the words of the name show that the tensor belongs to a vision or audio part.
bool is_of_other_part(std::string_view name);
// Returns whether this is a tensor of an audio part. REQUIRES: is_of_other_part(name).
bool is_of_sounds(std::string_view name);
// Returns whether programs compute this tensor themselves, such as rotation frequencies and masks.
bool is_of_no_use(std::string_view name);
// Returns the name without the words that mark the text part.
std::string without_part(std::string_view name);
// Returns the name of a vision part's tensor with the prefix that the rules of projectors use. The
// prefixes in checkpoints differ: "model.", "vision_model.", "vision_tower.", or several of them.
std::string picture_name(std::string_view name);

}  // namespace billow::convert
