// Every tensor type number that GGUF has given out, with its name and block size: enough to check a
// file and to name what cannot be computed with. Which of them Billow computes with is quant/'s
// affair.
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

// Null for a number that stands for nothing (removed or unknown).
const TensorType* find_tensor_type(uint32_t id) noexcept;

// The name, or "type 4711" for an unknown number.
std::string tensor_type_name(uint32_t id);

}  // namespace billow::gguf
