// The name of a tensor in a checkpoint, taken apart. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::convert {

struct TensorName {
  std::string pattern;  // with "#" for the first number and "*" for others, without the suffix
  std::string suffix;   // ".weight", ".bias" or none
  std::optional<uint32_t> layer;   // the first number
  std::optional<uint32_t> number;  // the last that stands behind it
};

// Numbers of more than nine digits stay as they are.
TensorName parse_tensor_name(std::string_view name);

// Whether a name in GGUF says what part of a layer it is: ".weight", ".bias", ".scale".
bool has_suffix(std::string_view target);

// Whether the tensor is for pictures or sounds, by the words of its name.
bool is_of_other_part(std::string_view name);
// Made again by every program, such as the frequencies of a rotation.
bool is_of_no_use(std::string_view name);
// The name without the words that say that it is of the part for texts.
std::string without_part(std::string_view name);

}  // namespace billow::convert
