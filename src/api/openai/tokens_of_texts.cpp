#include "api/openai/tokens_of_texts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace billow::api::openai {
namespace {

size_t n_equal(std::string_view one, std::string_view other) {
  return static_cast<size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
}

// How a text may differ from its tokens.
struct Rule {
  bool begins_within = false;  // its first token may begin before it, with the end of a marker
  bool has_others = false;     // there may be tokens of markers between its tokens
  bool ends_within = false;    // its last token may go on after it
};

constexpr std::array kRules{Rule{},
                            Rule{.ends_within = true},
                            Rule{.has_others = true},
                            Rule{.has_others = true, .ends_within = true},
                            Rule{.begins_within = true},
                            Rule{.begins_within = true, .ends_within = true},
                            Rule{.begins_within = true, .has_others = true}};

// Returns how many bytes of a token are before the text, which begins with the rest of the token;
// the size of the token if there is no such rest.
size_t n_before(std::string_view token, std::string_view text) {
  size_t n = 1;
  while (n < token.size() && !text.starts_with(token.substr(n))) ++n;
  return std::min(n, token.size());
}

}  // namespace

void TokensOfTexts::add(const std::vector<Logprob>& logprobs) {
  waiting_.insert(waiting_.end(), logprobs.begin(), logprobs.end());
}

void TokensOfTexts::clear() {
  waiting_.clear();
  rest_.clear();
}

std::vector<TokensOfTexts::Group> TokensOfTexts::groups() const {
  std::vector<Group> groups;
  std::string bytes;
  for (size_t i = 0, begin = 0; i < waiting_.size(); ++i) {
    bytes += waiting_[i].bytes;
    if (utf8::whole_length(bytes) < bytes.size()) continue;
    groups.push_back({begin, i + 1, utf8::sanitized(bytes)});
    bytes.clear();
    begin = i + 1;
  }
  return groups;
}

std::vector<Logprob> TokensOfTexts::take(std::string_view text) {
  const size_t n_of_rest = n_equal(text, rest_);
  rest_.erase(0, n_of_rest == 0 ? rest_.size() : n_of_rest);
  text.remove_prefix(n_of_rest);
  if (text.empty()) return {};
  const std::vector<Group> all = groups();

  // Returns the groups of the text from group `begin` on; nullopt if they do not have it.
  const auto found_at = [&](size_t begin, const Rule& rule) -> std::optional<Found> {
    Found found;
    std::string_view left = text;
    for (size_t i = begin; i < all.size(); ++i) {
      std::string_view own = all[i].text;
      if (i == begin && n_of_rest == 0 && !text.starts_with(own.substr(0, 1)))
        own.remove_prefix(std::min(own.find_first_not_of(kBlanks), own.size()));
      if (i == begin && rule.begins_within) own.remove_prefix(n_before(own, text));
      if (own.empty() && i > begin) continue;
      const size_t n = n_equal(left, own);
      const bool is_last = n == left.size();
      const bool is_whole = n == own.size() || (is_last && trimmed(own.substr(n)).empty());
      if (n > 0 && (is_whole || (is_last && rule.ends_within))) {
        found.groups.push_back(i);
        left.remove_prefix(n);
        found.rest = own.substr(n);
        if (left.empty()) return found;
      } else if (i == begin || !rule.has_others) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  };

  for (const Rule& rule : kRules) {
    for (size_t begin = 0; begin < all.size(); ++begin) {
      std::optional<Found> found = found_at(begin, rule);
      if (!found) continue;
      std::vector<Logprob> own;
      for (const size_t group : found->groups)
        for (size_t i = all[group].begin; i < all[group].end; ++i) own.push_back(waiting_[i]);
      const size_t n_taken = all[found->groups.back()].end;
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n_taken));
      rest_ = std::move(found->rest);
      return own;
    }
  }
  return {};
}

}  // namespace billow::api::openai
