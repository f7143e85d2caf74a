#include "engine/constraint_vocabulary.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace billow::engine {
namespace {

using tokenizer::TokenType;

bool is_text(const tokenizer::Tokenizer& tokenizer, int32_t token) {
  const TokenType type = tokenizer.type(token);
  const bool has_text =
      type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
  return has_text && !tokenizer.is_end_of_generation(token) &&
         !std::ranges::binary_search(tokenizer.suppressed(), token);
}

// Returns the tokens of a text that is not at the beginning. If the tokenizer puts a space before a
// text, the space goes to an additional first character that is part of no word. The tokens of that
// character are removed. Returns no tokens if they cannot be separated.
std::vector<int32_t> encode_inside(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                   bool parse_special) {
  const tokenizer::EncodeOptions options = {.add_special = false, .parse_special = parse_special};
  if (!tokenizer.add_space_prefix()) return tokenizer.encode(text, options);
  constexpr char kBefore = '\x01';
  std::vector<int32_t> tokens = tokenizer.encode(kBefore + std::string(text), options);
  const auto is_before = [&](int32_t token) { return tokenizer.piece(token).ends_with(kBefore); };
  const auto before = std::ranges::find_if(tokens, is_before);
  if (before == tokens.end()) return {};
  tokens.erase(tokens.begin(), before + 1);
  return tokens;
}

}  // namespace

std::shared_ptr<const constraint::Vocabulary> constraint_vocabulary(
    const tokenizer::Tokenizer& tokenizer) {
  constraint::TokenTexts tokens;
  tokens.ends = tokenizer.roles().end_of_generation;
  if (tokens.ends.empty())
    throw Error(
        ErrorCode::kUnsupported,
        "this model has no token that ends an answer, so its answers cannot follow a grammar");
  for (int32_t token = 0; token < tokenizer.n_tokens(); ++token)
    tokens.texts.push_back(is_text(tokenizer, token) ? tokenizer.piece(token) : std::string_view());
  const auto encoder = [&tokenizer](bool parse_special) {
    return [&tokenizer, parse_special](std::string_view text) {
      return encode_inside(tokenizer, text, parse_special);
    };
  };
  tokens.encode = encoder(false);
  tokens.encode_special = encoder(true);
  return std::make_shared<const constraint::Vocabulary>(std::move(tokens));
}

}  // namespace billow::engine
