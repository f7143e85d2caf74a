#include "api/embed_tokens.h"

#include <algorithm>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "http/status.h"

namespace billow::api {
namespace {

using http::StatusError;
using tokenizer::Tokenizer;
using Ids = std::vector<int32_t>;

constexpr const char* kNoTokens = "the input has no tokens";
constexpr const char* kTooLong = "the input length exceeds the context length";
constexpr const char* kNothingLeft = "input after truncation exceeds maximum context length";

[[noreturn]] void refuse_length(size_t n, size_t limit) {
  throw StatusError(400, std::string(kTooLong) + " (" + std::to_string(n) + " of " +
                             std::to_string(limit) + " tokens)");
}

bool is_word_piece(const Tokenizer& tokenizer) { return tokenizer.model() == "bert"; }

// Returns the token that ends a text.
int32_t last_token(const Tokenizer& tokenizer) {
  return is_word_piece(tokenizer) ? tokenizer.roles().separator : tokenizer.eos();
}

std::span<const int32_t> kept(const Ids& ids, size_t n, Truncation truncation) {
  const std::span<const int32_t> all(ids);
  return truncation == Truncation::kLeft ? all.last(n) : all.first(n);
}

EmbedTokens cut(const Tokenizer& tokenizer, Ids tokens, size_t limit, Truncation truncation) {
  if (tokens.empty()) throw StatusError(400, kNoTokens);
  if (tokens.size() <= limit) return {.tokens = std::move(tokens)};
  if (truncation == Truncation::kNone) refuse_length(tokens.size(), limit);
  const size_t n_before = tokenizer.add_bos() && tokens.front() == tokenizer.bos() ? 1 : 0;
  const size_t n_after =
      tokenizer.add_eos() && tokens.back() == last_token(tokenizer) && tokens.size() > n_before ? 1
                                                                                                : 0;
  if (limit <= n_before + n_after) throw StatusError(400, kNothingLeft);
  const auto n_over = static_cast<std::ptrdiff_t>(tokens.size() - limit);
  const auto begin = truncation == Truncation::kLeft
                         ? tokens.begin() + static_cast<std::ptrdiff_t>(n_before)
                         : tokens.end() - static_cast<std::ptrdiff_t>(n_after) - n_over;
  tokens.erase(begin, begin + n_over);
  return {.tokens = std::move(tokens), .is_cut = true};
}

// Returns how many tokens of each text stay if there is room for `room` tokens in total.
std::pair<size_t, size_t> shares(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  const size_t half = room / 2;
  if (first <= half) return {first, room - first};
  if (second <= half) return {room - second, second};
  return {half, room - half};
}

constexpr std::string_view kDocument = "{document}";

// Replaces `name` in `source` with `text`. Does not search `text` for `name` again.
std::string with(std::string_view source, std::string_view name, std::string_view text) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t next = source.find(name, at);
    out += source.substr(at, next - at);
    if (next == std::string_view::npos) return out;
    out += text;
    at = next + name.size();
  }
}

}  // namespace

EmbedTokens text_tokens(const Tokenizer& tokenizer, const std::string& text, size_t limit,
                        Truncation truncation) {
  return cut(tokenizer, tokenizer.encode(text), limit, truncation);
}

EmbedTokens given_tokens(const Tokenizer& tokenizer, const Ids& ids, size_t limit,
                         Truncation truncation) {
  for (const int32_t id : ids) {
    if (tokenizer.has(id)) continue;
    throw StatusError(400, "token id " + std::to_string(id) + " is not in the vocabulary of " +
                               std::to_string(tokenizer.n_tokens()) + " tokens");
  }
  return cut(tokenizer, ids, limit, truncation);
}

EmbedTokens pair_tokens(const Tokenizer& tokenizer, const Ids& first, const Ids& second,
                        size_t limit, Truncation truncation) {
  const bool has_begin = tokenizer.add_bos();
  const int32_t end = tokenizer.add_eos() ? last_token(tokenizer) : tokenizer::kNoToken;
  const bool has_end = end != tokenizer::kNoToken;
  const size_t n_between = !has_end ? 0 : is_word_piece(tokenizer) ? 1 : 2;
  const size_t n_special = (has_begin ? 1U : 0U) + n_between + (has_end ? 1U : 0U);
  const size_t n_all = first.size() + second.size() + n_special;
  if (n_all == 0) throw StatusError(400, kNoTokens);
  if (n_all > limit && truncation == Truncation::kNone) refuse_length(n_all, limit);
  if (n_all > limit && limit <= n_special) throw StatusError(400, kNothingLeft);
  const size_t room = n_all > limit ? limit - n_special : n_all;
  const auto [n_first, n_second] = shares(first.size(), second.size(), room);

  EmbedTokens pair;
  pair.is_cut = n_all > limit;
  Ids& tokens = pair.tokens;
  tokens.reserve(std::min(n_all, limit));
  const auto append = [&](std::span<const int32_t> ids) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  };
  if (has_begin) tokens.push_back(tokenizer.bos());
  append(kept(first, n_first, truncation));
  if (has_end) tokens.push_back(end);
  pair.n_first = tokens.size();
  if (n_between == 2) tokens.push_back(end);
  append(kept(second, n_second, truncation));
  if (has_end) tokens.push_back(end);
  return pair;
}

EmbedTokens rerank_tokens(const Tokenizer& tokenizer, const std::string& rerank_template,
                          const std::string& query, const std::string& document, size_t limit,
                          Truncation truncation) {
  const size_t place = rerank_template.find(kDocument);
  const bool has_place = place != std::string::npos;
  const auto encode = [&](const std::string& text) {
    return tokenizer.encode(text, {.add_special = false, .parse_special = true});
  };
  const std::string before = with(rerank_template.substr(0, place), "{query}", query);
  const std::string after =
      has_place ? with(rerank_template.substr(place + kDocument.size()), "{query}", query) : "";
  Ids tokens = encode(before + (has_place ? document : "") + after);
  if (tokens.empty()) throw StatusError(400, kNoTokens);
  if (tokens.size() <= limit) return {.tokens = std::move(tokens)};
  if (truncation == Truncation::kNone) refuse_length(tokens.size(), limit);
  // Tokens that match the template's start or end belong to the template. All others belong to the
  // document: a token at the border may contain parts of both.
  const Ids first = encode(before);
  const Ids last = encode(after);
  const auto begin = std::ranges::mismatch(tokens, first).in1;
  const auto own = std::ranges::subrange(begin, tokens.end());
  const auto reversed =
      std::ranges::mismatch(own | std::views::reverse, last | std::views::reverse);
  const auto end = reversed.in1.base();
  const auto n_over = static_cast<std::ptrdiff_t>(tokens.size() - limit);
  if (end - begin < n_over) throw StatusError(400, kNothingLeft);
  const auto cut_at = truncation == Truncation::kLeft ? begin : end - n_over;
  tokens.erase(cut_at, cut_at + n_over);
  return {.tokens = std::move(tokens), .is_cut = true};
}

}  // namespace billow::api
