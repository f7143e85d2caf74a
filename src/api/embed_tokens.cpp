#include "api/embed_tokens.h"

#include <algorithm>
#include <span>
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

// What ends a text.
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
  const size_t n_behind =
      tokenizer.add_eos() && tokens.back() == last_token(tokenizer) && tokens.size() > n_before ? 1
                                                                                                : 0;
  if (limit <= n_before + n_behind) throw StatusError(400, kNothingLeft);
  const auto n_over = static_cast<std::ptrdiff_t>(tokens.size() - limit);
  const auto begin = truncation == Truncation::kLeft
                         ? tokens.begin() + static_cast<std::ptrdiff_t>(n_before)
                         : tokens.end() - static_cast<std::ptrdiff_t>(n_behind) - n_over;
  tokens.erase(begin, begin + n_over);
  return {.tokens = std::move(tokens), .is_cut = true};
}

// How many of each text stay, where there is room for `room` in all.
std::pair<size_t, size_t> shares(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  const size_t half = room / 2;
  if (first <= half) return {first, room - first};
  if (second <= half) return {room - second, second};
  return {half, room - half};
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

}  // namespace billow::api
