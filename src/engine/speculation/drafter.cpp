#include "engine/speculation/drafter.h"

#include <optional>

namespace billow::engine {
namespace {

constexpr size_t kWindow = size_t{1} << 16;  // tokens
constexpr size_t kRadius = 24;         // around the position where a text is expected to continue
constexpr double kEaseWeight = 0.1;    // weight of a new guess
constexpr double kHope = 0.7;          // value that estimates return to
constexpr double kHopeWeight = 0.002;  // weight of that return in a pass

}  // namespace

Drafter::Drafter(const MatchFinder& recent, std::span<const int32_t> prediction, double ease)
    : recent_(recent), own_(kWindow), ease_(ease) {
  for (const int32_t token : prediction) own_.add(token);
  if (prediction.empty()) return;
  own_.add_border();
  has_expected_ = true;  // at the beginning of the prediction
}

Drafter::Drafter(std::shared_ptr<const MatchFinder> recent, std::span<const int32_t> prediction,
                 double ease)
    : Drafter(*recent, prediction, ease) {
  owner_ = std::move(recent);
}

void Drafter::add(std::span<const int32_t> text) {
  for (; n_added_ < text.size(); ++n_added_) {
    own_.add(text[n_added_]);
    ++expected_;
  }
}

Draft Drafter::propose(std::span<const int32_t> text, size_t max_tokens) {
  add(text);
  acceptance_.fade();
  ease_ += kHopeWeight * (kHope - ease_);
  Draft best;
  double best_chance = 0.0;
  const auto consider = [&](DraftSource source, const std::optional<Match>& match) {
    if (!match) return;
    const double chance = acceptance_.chance(source, Acceptance::grade_of_match(match->length));
    if (chance <= best_chance) return;
    best_chance = chance;
    best.source = source;
    best.match = *match;
  };
  consider(DraftSource::kText, own_.find(text));
  if (has_expected_) consider(DraftSource::kNear, own_.find_near(text, expected_, kRadius));
  consider(DraftSource::kRecent, recent_.find(text));
  if (best_chance > 0.0)
    extend(best, best.source == DraftSource::kRecent ? recent_ : own_, max_tokens);
  return best;
}

// If a text repeats, the source reaches the end of the text. Then the draft continues with its own
// beginning.
void Drafter::extend(Draft& draft, const MatchFinder& finder, size_t max_tokens) const {
  double chance = 1.0;
  for (size_t i = 0; i < max_tokens; ++i) {
    const uint32_t position = draft.match.next + static_cast<uint32_t>(i);
    const std::optional<int32_t> token = position < finder.end()
                                             ? finder.at(position)
                                             : std::optional(draft.tokens[position - finder.end()]);
    if (!token) return;
    const size_t grade = Acceptance::grade_of_match(draft.match.length + i);
    chance *= acceptance_.chance(draft.source, grade);
    if (chance < kMinDraftChance) return;
    draft.tokens.push_back(*token);
    draft.chances.push_back(chance);
    draft.grades.push_back(grade);
  }
}

void Drafter::learn(const Draft& draft, size_t n_compared, bool last_accepted) {
  for (size_t i = 0; i < n_compared; ++i)
    acceptance_.learn(draft.source, draft.grades[i], i + 1 < n_compared || last_accepted);
  if (draft.source == DraftSource::kRecent || n_compared == 0) return;
  // The accepted tokens of the draft, and the token after them, are not added yet.
  expected_ = draft.match.next;
  has_expected_ = true;
}

void Drafter::note_guess(double worth) noexcept { ease_ += kEaseWeight * (worth - ease_); }

}  // namespace billow::engine
