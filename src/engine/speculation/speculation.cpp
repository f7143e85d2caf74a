#include "engine/speculation/speculation.h"

#include <algorithm>

namespace billow::engine {
namespace {

constexpr size_t kRecentTokens = size_t{1} << 16;
constexpr double kHope = 0.7;           // assumed chance of a guess before the first results
constexpr double kHopeWeight = 0.0005;  // weight of kHope in each pass
constexpr double kEaseWeight = 0.02;    // weight of the newest guess
constexpr double kMinGain = 1.1;        // min ratio of saved time to guessing time

// Returns the length of each draft. Shortens the last drafts if they need more than max_rows.
std::vector<size_t> all_of(std::span<const std::span<const double>> chances, size_t max_rows) {
  std::vector<size_t> lengths;
  for (const std::span<const double> one : chances) {
    lengths.push_back(std::min(one.size(), max_rows));
    max_rows -= lengths.back();
  }
  return lengths;
}

}  // namespace

Speculation::Speculation(const SpeculationOptions& options) : options_(options), ease_(kHope) {}

std::vector<Draft> Speculation::propose(std::span<const Writer> writers, const DraftRoom& room) {
  const size_t max_rows = std::min(room.max_rows, options_.max_draft);
  guesses_.fade();
  ease_ += kHopeWeight * (kHope - ease_);
  std::vector<Draft> drafts(writers.size());
  for (size_t i = 0; i < writers.size() && max_rows > 0; ++i) {
    const Writer& writer = writers[i];
    drafts[i] = writer.drafter->propose(writer.text, std::min(writer.max_tokens, max_rows));
  }
  return drafts;
}

void Speculation::limit(std::span<const Writer> writers, const DraftRoom& room,
                        std::span<Draft> drafts) {
  const size_t max_rows = std::min(room.max_rows, options_.max_draft);
  std::vector<std::span<const double>> chances;
  for (const Draft& draft : drafts) chances.emplace_back(draft.chances);
  const DraftRoom within = {room.n_rows, room.n_writing, max_rows, options_.evaluates_again};
  const std::vector<size_t> lengths =
      options_.is_eager ? all_of(chances, max_rows) : plan_drafts(chances, within, cost_);
  for (size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    if (draft.source == DraftSource::kModel && lengths[i] == 0 && !draft.tokens.empty())
      note_guess(*writers[i].drafter, draft.chances.front());
    draft.tokens.resize(lengths[i]);
    draft.chances.resize(lengths[i]);
    draft.grades.resize(lengths[i]);
  }
}

void Speculation::note_guess(Drafter& drafter, double worth) noexcept {
  drafter.note_guess(worth);
  ease_ += kEaseWeight * (worth - ease_);
}

void Speculation::learn(Drafter& drafter, const Draft& draft, size_t n_compared,
                        bool last_accepted) {
  if (draft.source != DraftSource::kModel) return drafter.learn(draft, n_compared, last_accepted);
  for (size_t i = 0; i < n_compared; ++i) {
    const bool accepted = i + 1 < n_compared || last_accepted;
    guesses_.learn(draft.source, draft.grades[i], accepted);
    note_guess(drafter, accepted ? 1.0 : 0.0);
  }
}

std::vector<bool> Speculation::worth_guessing(std::span<const double> chances,
                                              const DraftRoom& room) const {
  const double pass = cost_.seconds(room.n_rows);
  const auto n_open = static_cast<size_t>(
      std::ranges::count_if(chances, [](double chance) { return chance > 0.0; }));
  const double guess = guess_cost_.seconds(std::max<size_t>(1, n_open));
  if (options_.is_eager || pass == 0.0 || !guess_cost_.is_known())
    return std::vector<bool>(chances.size(), true);
  constexpr size_t kFew = 4;
  const double row = (cost_.seconds(room.n_rows + kFew) - pass) / static_cast<double>(kFew);
  const double token = pass / static_cast<double>(std::max<size_t>(1, room.n_writing));
  std::vector<bool> worth;
  double saved = 0.0;
  for (const double chance : chances) {
    const double seconds = chance * token - row;
    worth.push_back(seconds > 0.0);
    saved += std::max(0.0, seconds);
  }
  if (saved < kMinGain * guess) worth.assign(chances.size(), false);
  return worth;
}

size_t Speculation::rows_to_catch_up(const DraftRoom& room) const {
  constexpr size_t kMinRows = 8;
  constexpr size_t kMaxRows = 64;
  constexpr double kShare = 0.25;  // max part of the time of the main model's pass
  const double max = kShare * cost_.seconds(room.n_rows);
  if (options_.is_eager) return kMaxRows;
  if (max == 0.0) return kMinRows;
  size_t n = kMinRows;
  while (n < kMaxRows && guess_cost_.seconds(n + kMinRows) <= max) n += kMinRows;
  return n;
}

void Speculation::add_guess(Draft& draft, int32_t token, double probability) const {
  const size_t grade = Acceptance::grade_of_probability(probability);
  const double before = draft.chances.empty() ? 1.0 : draft.chances.back();
  draft.source = DraftSource::kModel;
  draft.tokens.push_back(token);
  draft.chances.push_back(before * guesses_.chance(DraftSource::kModel, grade));
  draft.grades.push_back(grade);
}

const std::shared_ptr<MatchFinder>& Speculation::recent(uint64_t salt) {
  constexpr size_t kMaxSalts = 8;  // that have recent answers
  const auto found = std::ranges::find(recent_, salt, &Recent::salt);
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    recent_.push_front({salt, std::make_shared<MatchFinder>(kRecentTokens)});
    if (recent_.size() > kMaxSalts) recent_.pop_back();
  }
  return recent_.front().answers;
}

void Speculation::remember(std::span<const int32_t> answer, uint64_t salt) {
  if (options_.max_draft == 0 || answer.empty()) return;
  const size_t n = std::min(answer.size(), kRecentTokens / 4);
  MatchFinder& answers = *recent(salt);
  for (const int32_t token : answer.first(n)) answers.add(token);
  answers.add_border();
}

}  // namespace billow::engine
