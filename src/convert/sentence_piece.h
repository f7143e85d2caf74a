// A SentencePiece vocabulary, as in tokenizer.model and sentencepiece.bpe.model. Plain data,
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/vocabulary.h"

namespace billow::convert {

struct SentencePieceModel {
  enum class Kind : uint8_t { kUnigram = 1, kBytePairs = 2, kWords = 3, kCharacters = 4 };

  std::vector<Piece> pieces;
  Kind kind = Kind::kUnigram;
  std::string charsmap;  // the compiled normaliser; empty: no normaliser
  bool adds_space_prefix = true;
  bool removes_extra_spaces = true;
};

// Returns whether the bytes may be a SentencePiece file. Some models store a list of Base64 tokens
// under the same name.
bool is_sentence_piece(std::string_view bytes) noexcept;

// Throws Error (kInvalidInput) that begins with `origin` if the bytes are not a SentencePiece file.
SentencePieceModel parse_sentence_piece(std::string_view bytes, const std::string& origin);

}  // namespace billow::convert
