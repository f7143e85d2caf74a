// The pre-tokeniser families: how tokenizer.ggml.pre says that text falls into words before
// merging. One table; a new family is one row. Constant data, any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace billow::tokenizer {

enum class Split : uint8_t {
  kWhole,            // a match is one piece
  kThreesFromRight,  // a match is cut into groups of three characters, the first group taking the
                     // remainder
  kCutBeforeThrees,  // the piece is cut before each group of three characters of a match, counted
                     // from the right; what stands before the first group keeps the remainder
};

// One pass over the pieces so far: each falls into the matches of `pattern` and the gaps between
// them.
struct Stage {
  std::string_view pattern;  // PCRE2 with %name% for the fragments of fragment(); empty: no stage
  Split split = Split::kWhole;
};

// What a family changes beside the words. Bits of PreTokenizerFamily::flags.
enum PreTokenizerFlag : uint32_t {
  kIgnoreMerges = 1u << 0,  // a word that is a token is taken without merging
  kAddBos = 1u << 1,        // add_bos_token is true unless the file says otherwise
  kAddSep = 1u << 2,        // likewise add_sep_token
  kCleanSpaces = 1u << 3,   // clean_up_tokenization_spaces
  kNoBos = 1u << 4,         // no BOS unless the file names one
  kRawText = 1u << 5,  // merges work on UTF-8 characters, unknown ones become <0xXX>; not on the
                       // byte alphabet
  kEscapeSpaces = 1u << 6,  // spaces are U+2581 in the vocabulary
  kForceBos = 1u << 7,      // add_bos_token is true whatever the file says
  kNewlineWords = 1u << 8,  // a run of newlines that is a token is taken without merging
};

struct PreTokenizerFamily {
  std::string_view names;  // values of tokenizer.ggml.pre, separated by spaces
  uint32_t flags = 0;
  std::array<Stage, 6> stages{};
};

std::span<const PreTokenizerFamily> pre_tokenizer_families() noexcept;

// The family of a name, or null.
const PreTokenizerFamily* find_pre_tokenizer_family(std::string_view name) noexcept;

// The pattern with its fragments filled in.
std::string expand_pattern(std::string_view pattern);

}  // namespace billow::tokenizer
