#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <queue>
#include <string>
#include <utility>

#include "base/text.h"
#include "gguf/file.h"

namespace billow::tokenizer {
namespace {

bool is_special(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

SpecialTokens::SpecialTokens(const gguf::File& file, const Vocabulary& vocabulary) {
  for (TokenId id = 0; id < vocabulary.n_tokens(); ++id) {
    const TokenType type = vocabulary.type(id);
    if (!is_special(type)) continue;
    all_.insert(vocabulary.text(id), static_cast<uint32_t>(id));
    if (type == TokenType::kUserDefined) {
      user_defined_.insert(vocabulary.text(id), static_cast<uint32_t>(id));
    }
  }
  read_strips(file, vocabulary);
}

// GGUF does not have these attributes, so they follow from the names of models that need them.
void SpecialTokens::read_strips(const gguf::File& file, const Vocabulary& vocabulary) {
  const std::string_view pre = file.get_string("tokenizer.ggml.pre").value_or("");
  const std::string_view architecture = file.get_string("general.architecture").value_or("");
  const std::string name = lower_case(file.get_string("general.name").value_or(""));
  const auto strip_left = [&](std::string_view text) {
    const TokenId id = vocabulary.find(text);
    if (id != kNoToken) strips_left_.push_back(id);
  };
  if (contains_any(pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      contains_any(architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    strip_left("<mask>");
  } else if (contains_any(name, {"phi-3", "phi3"})) {
    for (TokenId id = 0; id < vocabulary.n_tokens(); ++id) {
      const std::string_view text = vocabulary.text(id);
      const bool keeps = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
      if ((is_special(vocabulary.type(id)) || text == "</s>") && !keeps)
        strips_right_.push_back(id);
    }
  } else if (contains_any(name, {"modern-bert"})) {
    strip_left("[MASK]");
  }
}

void SpecialTokens::mark(const Candidate& candidate, std::string_view text,
                         std::vector<Use>& uses) const {
  const size_t end = candidate.begin + candidate.n_bytes;
  for (size_t at = candidate.begin; at < end; ++at) uses[at] = Use::kToken;
  const auto drops = [&](size_t at) { return uses[at] == Use::kRaw && is_space(text[at]); };
  if (std::binary_search(strips_left_.begin(), strips_left_.end(), candidate.token)) {
    for (size_t at = candidate.begin; at > 0 && drops(at - 1); --at) uses[at - 1] = Use::kDropped;
  }
  if (std::binary_search(strips_right_.begin(), strips_right_.end(), candidate.token)) {
    for (size_t at = end; at < text.size() && drops(at); ++at) uses[at] = Use::kDropped;
  }
}

std::vector<SpecialTokens::Candidate> SpecialTokens::choose(std::string_view text, const Trie& trie,
                                                            std::vector<Use>& uses) const {
  const auto longest_at = [&](size_t begin, size_t limit) {
    const Trie::Match match = trie.longest_prefix(text.substr(begin), limit);
    return Candidate{static_cast<TokenId>(match.value), begin, match.n_bytes};
  };
  // Orders the best candidate first. At each place, only the longest possible candidate is in the
  // queue.
  const auto is_after = [](const Candidate& a, const Candidate& b) {
    if (a.n_bytes != b.n_bytes) return a.n_bytes < b.n_bytes;
    if (a.token != b.token) return a.token > b.token;
    return a.begin > b.begin;
  };
  std::vector<Candidate> found;
  for (size_t at = 0; at < text.size(); ++at) {
    const Candidate candidate = longest_at(at, SIZE_MAX);
    if (candidate.n_bytes != 0) found.push_back(candidate);
  }
  std::vector<Candidate> chosen;
  if (found.empty()) return chosen;
  uses.assign(text.size(), Use::kRaw);
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(is_after)> queue(
      is_after, std::move(found));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (uses[best.begin] != Use::kRaw) continue;
    size_t n_free = 1;
    while (n_free < best.n_bytes && uses[best.begin + n_free] == Use::kRaw) ++n_free;
    if (n_free == best.n_bytes) {
      mark(best, text, uses);
      chosen.push_back(best);
      continue;
    }
    const Candidate shorter = longest_at(best.begin, n_free);
    if (shorter.n_bytes != 0) queue.push(shorter);
  }
  std::ranges::sort(chosen, {}, &Candidate::begin);
  return chosen;
}

std::vector<Fragment> SpecialTokens::partition(std::string_view text, bool parse_special) const {
  std::vector<Use> uses;  // use of each byte; empty until a special token is found
  const std::vector<Candidate> chosen = choose(text, parse_special ? all_ : user_defined_, uses);
  std::vector<Fragment> fragments;
  if (chosen.empty()) {
    if (!text.empty()) fragments.push_back({kNoToken, text});
    return fragments;
  }
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    if (uses[at] == Use::kToken) {
      const Candidate& candidate = chosen[next++];
      fragments.push_back({candidate.token, text.substr(at, candidate.n_bytes)});
      at += candidate.n_bytes;
      continue;
    }
    const size_t begin = at;
    const Use use = uses[at];
    while (at < text.size() && uses[at] == use) ++at;
    if (use == Use::kRaw) fragments.push_back({kNoToken, text.substr(begin, at - begin)});
  }
  return fragments;
}

}  // namespace billow::tokenizer
