#include "constraint/vocabulary.h"

#include <algorithm>
#include <utility>

#include "constraint/bridge.h"

namespace billow::constraint {
namespace {

using Encode = std::function<std::vector<int32_t>(std::string_view)>;

// Calls an Encode for the bridge.
size_t encode_for_bridge(const void* context, const char* text, size_t n_bytes, uint32_t* tokens,
                         size_t capacity) noexcept {
  const std::vector<int32_t> ids = (*static_cast<const Encode*>(context))({text, n_bytes});
  for (size_t i = 0; i < std::min(ids.size(), capacity); ++i)
    tokens[i] = static_cast<uint32_t>(ids[i]);
  return ids.size();
}

void check_ends(std::span<const int32_t> ends, size_t n_tokens) {
  if (ends.empty())
    throw Error(ErrorCode::kInvalidInput, "the vocabulary has no token that ends an answer");
  for (const int32_t end : ends)
    if (end < 0 || static_cast<size_t>(end) >= n_tokens)
      throw Error(ErrorCode::kInvalidInput,
                  "end token " + std::to_string(end) + " is not in the vocabulary");
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::vector<int32_t> blanks_of(std::span<const std::string_view> texts) {
  std::vector<int32_t> blanks;
  for (size_t i = 0; i < texts.size(); ++i)
    if (!texts[i].empty() && is_blank(texts[i])) blanks.push_back(static_cast<int32_t>(i));
  return blanks;
}

struct Free {
  std::shared_ptr<const Encode> encode;  // called by the handle
  void operator()(const billow_vocabulary* handle) const noexcept {
    billow_vocabulary_free(const_cast<billow_vocabulary*>(handle));
  }
};

std::shared_ptr<const billow_vocabulary> create(const TokenTexts& tokens, const std::string& bytes,
                                                std::shared_ptr<const Encode> encode) {
  std::vector<uint32_t> lengths;
  for (const std::string_view text : tokens.texts)
    lengths.push_back(static_cast<uint32_t>(text.size()));
  const std::vector<uint32_t> ends(tokens.ends.begin(), tokens.ends.end());
  const billow_tokens raw = {.n_tokens = lengths.size(),
                             .bytes = bytes.data(),
                             .n_bytes = lengths.data(),
                             .ends = ends.data(),
                             .n_ends = ends.size(),
                             .encode = *encode ? &encode_for_bridge : nullptr,
                             .context = encode.get()};
  billow_vocabulary* handle = nullptr;
  BridgeText message;
  const billow_status status = billow_vocabulary_create(&raw, &handle, &message.raw);
  require_ok(status, "vocabulary: ", message);
  return {handle, Free{std::move(encode)}};
}

}  // namespace

Vocabulary::Vocabulary(TokenTexts tokens)
    : n_tokens_(tokens.texts.size()),
      ends_(tokens.ends),
      blanks_(blanks_of(tokens.texts)),
      encode_special_(std::move(tokens.encode_special)) {
  check_ends(ends_, n_tokens_);
  for (const std::string_view text : tokens.texts) {
    bytes_ += text;
    text_ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  handle_ = create(tokens, bytes_, std::make_shared<const Encode>(std::move(tokens.encode)));
}

std::vector<int32_t> Vocabulary::going_on_after(std::string_view part, bool anywhere) const {
  std::vector<int32_t> found;
  const std::string_view all = bytes_;
  for (size_t at = all.find(part); at != all.npos; at = all.find(part, at + 1)) {
    const auto end = std::ranges::upper_bound(text_ends_, at);
    const auto token = static_cast<int32_t>(end - text_ends_.begin());
    const size_t begin = token == 0 ? 0 : *(end - 1);
    const size_t rest = at + part.size();
    if (rest > *end || (at != begin && !anywhere) || is_blank(all.substr(rest, *end - rest)))
      continue;
    if (found.empty() || found.back() != token) found.push_back(token);
  }
  return found;
}

std::vector<int32_t> Vocabulary::encode_special(std::string_view text) const {
  return encode_special_ ? encode_special_(text) : std::vector<int32_t>();
}

}  // namespace billow::constraint
