// WordPiece (kind "bert"). It cleans the text, splits it into words, and takes the longest tokens
// of each word from left to right. A word of too many characters is unknown. In the vocabulary,
// U+2581 marks the first piece of a word; later pieces have no mark.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"
#include "tokenizer/encoder.h"
#include "tokenizer/escaped_space.h"
#include "tokenizer/trie.h"

namespace billow::tokenizer {
namespace {

constexpr char32_t kDottedI = 0x130;
constexpr char32_t kDotAbove = 0x307;

bool is_space(char32_t c, utf8proc_category_t category) {
  if (c == 0x85 || (c >= 0x09 && c <= 0x0D)) return true;
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Control, format, private use. Unassigned characters stay, because they may become emoji later.
bool is_control(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
}

// The blocks of Chinese characters in BERT's definition, including its gap.
bool is_ideograph(char32_t c) {
  constexpr std::array<std::array<char32_t, 2>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                               {0x3400, 0x4DBF},
                                                               {0x20000, 0x2A6DF},
                                                               {0x2A700, 0x2B73F},
                                                               {0x2B740, 0x2B81F},
                                                               {0x2B920, 0x2CEAF},
                                                               {0xF900, 0xFAFF},
                                                               {0x2F800, 0x2FA1F}}};
  for (const auto& block : kBlocks) {
    if (c >= block[0] && c <= block[1]) return true;
  }
  return false;
}

class WordPieceEncoder : public Encoder {
 public:
  explicit WordPieceEncoder(const EncoderInput& input)
      : vocabulary_(input.vocabulary),
        unknown_(input.roles.unknown),
        max_word_characters_(input.settings.max_word_characters),
        lowercase_(input.settings.lowercase),
        strip_accents_(input.settings.strip_accents) {
    for (TokenId id = 0; id < input.vocabulary.n_tokens(); ++id) {
      tokens_.insert(input.vocabulary.text(id), static_cast<uint32_t>(id));
    }
  }

  void encode(std::string_view text, bool /*after_special*/,
              std::vector<TokenId>& out) const override {
    std::string word(kEscapedSpace);
    while (!text.empty()) {
      const utf8::CodePoint point = utf8::decode(text);
      text.remove_prefix(point.n_bytes);
      if (!strip_accents_) {
        add(point.value, word, out);
        continue;
      }
      std::array<utf8proc_int32_t, 8> parts{};  // no canonical decomposition has more than four
      int boundary = 0;
      const auto n =
          utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts.data(),
                                  parts.size(), UTF8PROC_DECOMPOSE, &boundary);
      for (utf8proc_ssize_t i = 0; i < n; ++i) {
        add(static_cast<char32_t>(parts[static_cast<size_t>(i)]), word, out);
      }
    }
    finish(word, out);
  }

 private:
  // Adds one character: it ends the word, is a separate word, joins the word, or is dropped.
  void add(char32_t c, std::string& word, std::vector<TokenId>& out) const {
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (is_space(c, category)) return finish(word, out);
    if (c == 0 || c == 0xFFFD || is_control(category)) return;
    if (strip_accents_ && category == UTF8PROC_CATEGORY_MN) return;
    if (lowercase_ && c == kDottedI) {  // the only letter that becomes two
      utf8::append(word, U'i');
      c = kDotAbove;
    } else if (lowercase_) {
      c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
    const bool alone =
        is_punctuation(category) || (c < 0x7F && is_symbol(category)) || is_ideograph(c);
    if (alone) finish(word, out);
    utf8::append(word, c);
    if (alone) finish(word, out);
  }

  // Appends the tokens of `word`, which begins with U+2581, and starts the next word.
  void finish(std::string& word, std::vector<TokenId>& out) const {
    if (word.size() == kEscapedSpace.size()) return;
    append_tokens(word, out);
    word.resize(kEscapedSpace.size());
  }

  void append_tokens(std::string_view word, std::vector<TokenId>& out) const {
    if (is_too_long(word.substr(kEscapedSpace.size()))) {
      if (unknown_ != kNoToken) out.push_back(unknown_);
      return;
    }
    // Most words are tokens. Such a token is the longest prefix of the word.
    if (const TokenId whole = vocabulary_.find(word); whole != kNoToken)
      return out.push_back(whole);
    const size_t n_before = out.size();
    std::string_view rest = word;
    while (!rest.empty()) {
      const Trie::Match match = tokens_.longest_prefix(rest);
      if (match.value == Trie::kNone) {
        out.resize(n_before);
        if (unknown_ != kNoToken) out.push_back(unknown_);
        return;
      }
      out.push_back(static_cast<TokenId>(match.value));
      rest.remove_prefix(match.n_bytes);
    }
  }

  bool is_too_long(std::string_view word) const {
    if (word.size() <= max_word_characters_) return false;
    const auto begins_character = [](char byte) { return (byte & 0xC0) != 0x80; };
    return static_cast<size_t>(std::ranges::count_if(word, begins_character)) >
           max_word_characters_;
  }

  const Vocabulary& vocabulary_;
  Trie tokens_;
  TokenId unknown_;
  size_t max_word_characters_;
  bool lowercase_;
  bool strip_accents_;
};

}  // namespace

std::unique_ptr<Encoder> make_word_piece_encoder(const EncoderInput& input) {
  return std::make_unique<WordPieceEncoder>(input);
}

}  // namespace billow::tokenizer
