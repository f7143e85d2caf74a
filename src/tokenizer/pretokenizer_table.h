// The pre-tokeniser families: how text is split into words before merging, by the value of
// tokenizer.ggml.pre. One table; a new family is one row. Constant data; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace billow::tokenizer {

enum class Split : uint8_t {
  kWhole,            // a match is one piece
  kThreesFromRight,  // a match is cut into groups of three characters from the right; the first
                     // group takes the remainder
  kCutBeforeThrees,  // the piece is cut before each group of three characters of a match, counted
                     // from the right; the text before the first group keeps the remainder
};

// One pass over the pieces so far: it splits each piece into the matches of `pattern` and the gaps
// between them.
struct Stage {
  std::string_view pattern;  // PCRE2 with %name% for the fragments of fragment(); empty: no stage
  Split split = Split::kWhole;
};

// Other properties of a family. Bits of PreTokenizerFamily::flags.
enum PreTokenizerFlag : uint32_t {
  kIgnoreMerges = 1u << 0,  // a word that is a token needs no merging
  kAddBos = 1u << 1,        // add_bos_token is true unless the file sets it
  kAddSep = 1u << 2,        // add_sep_token is true unless the file sets it
  kCleanSpaces = 1u << 3,   // clean_up_tokenization_spaces
  kNoBos = 1u << 4,         // no BOS unless the file names one
  kRawText = 1u << 5,       // merges work on UTF-8 characters instead of the byte alphabet; unknown
                            // characters become <0xXX>
  kEscapeSpaces = 1u << 6,  // spaces are U+2581 in the vocabulary
  kForceBos = 1u << 7,      // add_bos_token is always true
  kNewlineWords = 1u << 8,  // a run of newlines that is a token needs no merging
};

struct PreTokenizerFamily {
  std::string_view names;  // values of tokenizer.ggml.pre, separated by spaces
  uint32_t flags = 0;
  std::array<Stage, 6> stages{};
};

std::span<const PreTokenizerFamily> pre_tokenizer_families() noexcept;

// Returns the family of a name, or null.
const PreTokenizerFamily* find_pre_tokenizer_family(std::string_view name) noexcept;

// Returns the pattern with the text of its fragments.
std::string expand_pattern(std::string_view pattern);

}  // namespace billow::tokenizer
