// All tensor type numbers of GGUF with their names and block sizes. They suffice to validate a file
// and to name unsupported types. quant/ decides which types Billow can compute with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::gguf {

struct TensorType {
  uint32_t id;
  std::string_view name;  // "Q4_K"
  uint32_t group_len;     // elements of a block
  uint32_t group_bytes;   // bytes of a block
};

// Returns null for an unknown or removed number.
const TensorType* find_tensor_type(uint32_t id) noexcept;

// Returns the name, or text such as "type 4711" for an unknown number.
std::string tensor_type_name(uint32_t id);

}  // namespace billow::gguf
