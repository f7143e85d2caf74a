// How a vocabulary is used: its kind, its pre-tokeniser and its flags. They come from the keys of
// the file or the defaults of the kind.
#pragma once

#include <cstddef>
#include <string>

#include "tokenizer/pretokenizer_table.h"
#include "tokenizer/token.h"

namespace billow::gguf {
class File;
}

namespace billow::tokenizer {

// The key of the max length of a WordPiece word. Files of other converters lack this key; their
// models have 100.
inline constexpr const char* kMaxWordCharacters = "tokenizer.ggml.max_input_chars_per_word";

enum class Kind { kBpe, kSpm, kWordPiece, kUnigram, kLongestMatch };

struct KindDefaults {
  std::string_view name;  // value of tokenizer.ggml.model
  Kind kind;
  TokenId bos, eos, unknown, separator, padding, mask;
  bool add_bos, add_eos, add_sep, add_space_prefix, clean_spaces;
};

struct Settings {
  const KindDefaults* defaults = nullptr;
  Kind kind = Kind::kBpe;
  std::string pre;                             // name of the pre-tokeniser; BPE only
  const PreTokenizerFamily* family = nullptr;  // BPE only
  bool add_bos = false;
  bool add_eos = false;
  bool add_sep = false;
  bool add_space_prefix = false;
  bool clean_spaces = false;
  bool remove_extra_whitespaces = false;
  // WordPiece only: a longer word is one unknown token, as in the models' own tokenizers.
  size_t max_word_characters = 100;
  bool lowercase = true;
  bool strip_accents = true;

  bool has_flag(PreTokenizerFlag flag) const noexcept {
    return family != nullptr && (family->flags & flag) != 0;
  }
};

// Reads the settings of a file. Throws Error kUnsupported, with the name, for an unknown kind or
// pre-tokeniser. If the file has no pre-tokeniser, logs a warning and uses "default".
Settings load_settings(const gguf::File& file);

}  // namespace billow::tokenizer
