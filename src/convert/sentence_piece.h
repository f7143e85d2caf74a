// A vocabulary of SentencePiece, as tokenizer.model and sentencepiece.bpe.model have it. Plain
// data; any thread.
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
  std::string charsmap;  // the compiled normaliser; empty for none
  bool adds_space_prefix = true;
  bool removes_extra_spaces = true;
};

// Whether the bytes may be such a file, and not a list of tokens in Base64, which some models keep
// under the same name.
bool is_sentence_piece(std::string_view bytes) noexcept;

// Throws Error (kInvalidInput) that begins with `origin` for anything that is no such file.
SentencePieceModel parse_sentence_piece(std::string_view bytes, const std::string& origin);

}  // namespace billow::convert
