#include "engine/speculation/match_finder.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace billow::engine {
namespace {

constexpr size_t kLongOrder = 6;
constexpr size_t kMaxCandidates = 32;  // in a chain
constexpr size_t kFirstHeads = 256;

// FNV-1a, one token at a time.
uint64_t hash_of(std::span<const int32_t> tokens) noexcept {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t token : tokens) hash = (hash ^ static_cast<uint32_t>(token)) * kPrime;
  return hash ^ hash >> 29;
}

}  // namespace

MatchFinder::MatchFinder(size_t max_window)
    : max_window_(max_window), chains_{Chain{.order = kLongOrder}, Chain{.order = kMinMatch}} {
  BILLOW_CHECK(max_window > 0);
}

std::optional<int32_t> MatchFinder::at(size_t position) const noexcept {
  const int32_t found = token(position);
  return found == kBorder ? std::nullopt : std::optional(found);
}

void MatchFinder::add(int32_t token) {
  if (end_ == std::numeric_limits<uint32_t>::max()) clear();
  if (tokens_.size() < max_window_)
    tokens_.push_back(token);
  else
    tokens_[end_ % max_window_] = token;
  ++end_;
  for (Chain& chain : chains_) {
    if (chain.previous.size() < tokens_.size()) chain.previous.push_back(kNone);
    if (chain.heads.size() < tokens_.size())
      widen(chain);
    else
      link(chain, end_ - 1);
  }
}

// Adds the text that ends at a position to the chain of its hash.
void MatchFinder::link(Chain& chain, uint32_t position) {
  uint32_t& previous = chain.previous[position % max_window_];
  previous = kNone;
  if (position + 1 < begin() + chain.order) return;
  std::array<int32_t, kLongOrder> tokens = {};
  const std::span<int32_t> last = std::span(tokens).first(chain.order);
  for (size_t i = 0; i < chain.order; ++i) last[i] = token(position + 1 - chain.order + i);
  uint32_t& head = chain.heads[hash_of(last) % chain.heads.size()];
  previous = head;
  head = position + 1;
}

void MatchFinder::clear() {
  tokens_.clear();
  for (Chain& chain : chains_) chain = {.order = chain.order};
  end_ = 0;
}

void MatchFinder::widen(Chain& chain) {
  chain.heads.assign(std::max(kFirstHeads, 2 * chain.heads.size()), kNone);
  for (uint32_t position = begin(); position < end_; ++position) link(chain, position);
}

// Returns the length of the match of the end of `text` with the tokens before a position.
size_t MatchFinder::match_length(std::span<const int32_t> text, uint32_t next) const noexcept {
  const size_t max = std::min({text.size(), static_cast<size_t>(next - begin()), kMaxMatch});
  size_t n = 0;
  while (n < max && token(next - 1 - n) == text[text.size() - 1 - n]) ++n;
  return n;
}

std::optional<Match> MatchFinder::find_in(const Chain& chain, std::span<const int32_t> text) const {
  if (text.size() < chain.order || chain.heads.empty()) return std::nullopt;
  const uint64_t hash = hash_of(text.last(chain.order));
  Match best;
  uint32_t link = chain.heads[hash % chain.heads.size()];
  for (size_t i = 0; i < kMaxCandidates && link > begin(); ++i) {
    // If the text was added last, no token follows its own end.
    const size_t length = link < end_ && at(link) ? match_length(text, link) : 0;
    if (length > best.length) best = {link, length};
    if (length == kMaxMatch) break;
    link = chain.previous[(link - 1) % max_window_];
  }
  return best.length >= chain.order ? std::optional(best) : std::nullopt;
}

std::optional<Match> MatchFinder::find(std::span<const int32_t> text) const {
  for (const Chain& chain : chains_)
    if (const std::optional<Match> match = find_in(chain, text)) return match;
  return std::nullopt;
}

std::optional<Match> MatchFinder::find_near(std::span<const int32_t> text, uint32_t center,
                                            size_t radius) const {
  Match best;
  const auto look_at = [&](uint32_t next) {
    if (next <= begin() || next >= end_ || !at(next)) return;
    const size_t length = match_length(text, next);
    if (length > best.length) best = {next, length};
  };
  for (size_t distance = 0; distance <= radius; ++distance) {
    const auto away = static_cast<uint32_t>(distance);
    look_at(center + away);
    if (away > 0 && away <= center) look_at(center - away);
  }
  return best.length > 0 ? std::optional(best) : std::nullopt;
}

}  // namespace billow::engine
