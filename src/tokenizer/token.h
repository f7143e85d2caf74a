// The number and the type of a token.
#pragma once

#include <cstdint>

namespace billow::tokenizer {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

// The numbers are those of tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // markers such as <|im_end|>: never part of the text
  kUserDefined = 4,  // literal text that is always one token
  kUnused = 5,
  kByte = 6,  // <0xXX>: one byte
};

}  // namespace billow::tokenizer
