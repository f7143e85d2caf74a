#include "cli/token_text.h"

#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/terminal_text.h"

namespace billow::cli {
namespace {

tokenizer::TokenId parse_id(std::string_view word, const tokenizer::Tokenizer& tokenizer) {
  tokenizer::TokenId id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (is_number && tokenizer.has(id)) return id;
  throw Error(ErrorCode::kInvalidInput, "'" + visible_text(word) + "' is not a token id (0 to " +
                                            std::to_string(tokenizer.n_tokens() - 1) + ")");
}

}  // namespace

void append_token_ids(std::string_view words, const tokenizer::Tokenizer& tokenizer,
                      std::vector<tokenizer::TokenId>& ids) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  while (true) {
    const size_t begin = words.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return;
    words.remove_prefix(begin);
    const std::string_view word = words.substr(0, words.find_first_of(kBetween));
    ids.push_back(parse_id(word, tokenizer));
    words.remove_prefix(word.size());
  }
}

std::string visible_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const utf8::CodePoint point = utf8::decode(bytes);
    const std::string_view character = bytes.substr(0, point.n_bytes);
    bytes.remove_prefix(point.n_bytes);
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (character == "\\") {
      out += "\\\\";
    } else if (point.valid && !is_control(point.value)) {
      out += character;
    } else {
      for (const char byte : character) {
        char escape[5];
        std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned char>(byte));
        out += escape;
      }
    }
  }
  return out;
}

Json json_piece(std::string_view piece) {
  if (utf8::is_valid(piece)) return std::string(piece);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

}  // namespace billow::cli
