#include "tokenizer/pieces.h"

#include <charconv>
#include <string>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/escaped_bytes.h"
#include "tokenizer/escaped_space.h"

namespace billow::tokenizer {
namespace {

// Appends the byte of "<0xXX>". Appends other text unchanged.
void append_byte(std::string_view text, std::string& out) {
  unsigned byte = 0;
  if (text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>') {
    const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
    if (error == std::errc() && end == text.data() + 5) {
      out.push_back(static_cast<char>(byte));
      return;
    }
  }
  out += text;
}

void append_piece(const Settings& settings, const Vocabulary& vocabulary, TokenId id,
                  std::string& out) {
  const std::string_view text = vocabulary.text(id);
  switch (vocabulary.type(id)) {
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUserDefined:
      out += text;
      return;
    case TokenType::kByte:
      append_byte(text, out);
      return;
    case TokenType::kNormal:
      break;
    case TokenType::kUndefined:
    case TokenType::kUnused:
      return;
  }
  if (settings.kind == Kind::kLongestMatch) return append_unescaped_bytes(text, out);
  const bool spelled = settings.kind == Kind::kBpe && !settings.has_flag(kRawText);
  spelled ? append_unspelled(text, out) : append_unescaped(text, out);
}

// Copies `text` without the characters for which drop(text, place) is true.
template <typename Drop>
std::string without(std::string_view text, const Drop& drop) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (!drop(text, at)) out.push_back(text[at]);
  }
  return out;
}

// Removes the two spaces around an apostrophe that is alone.
std::string join_lone_apostrophes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 3) == " ' ") {
      out.push_back('\'');
      at += 3;
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace

Pieces::Pieces(const Settings& settings, const Vocabulary& vocabulary) {
  bytes_.reserve(vocabulary.n_bytes());  // few pieces are longer than the texts of their tokens
  begins_.reserve(static_cast<size_t>(vocabulary.n_tokens()) + 1);
  begins_.push_back(0);
  for (TokenId id = 0; id < vocabulary.n_tokens(); ++id) {
    append_piece(settings, vocabulary, id, bytes_);
    begins_.push_back(bytes_.size());
  }
}

std::string clean_up_spaces(std::string_view text) {
  const std::string punctuated = without(text, [](std::string_view all, size_t at) {
    return all[at] == ' ' && at + 1 < all.size() &&
           std::string_view("?!.,").find(all[at + 1]) != std::string_view::npos;
  });
  const std::string joined = join_lone_apostrophes(punctuated);
  return without(joined, [](std::string_view all, size_t at) {
    const std::string_view rest = all.substr(at);
    return rest.starts_with(" 's") || rest.starts_with(" 'm") || rest.starts_with(" 're") ||
           rest.starts_with(" 've");
  });
}

}  // namespace billow::tokenizer
