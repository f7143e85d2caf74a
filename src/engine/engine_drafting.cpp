// The part of the engine that drafts tokens of answers, from texts and with a draft model.
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/saturating.h"
#include "engine/engine.h"

namespace billow::engine {
namespace {

double sum_of(std::span<const double> chances) {
  return std::accumulate(chances.begin(), chances.end(), 0.0);
}

// Texts that drafts come from may have pictures. No sequence chooses their tokens.
void end_before_picture(Draft& draft) {
  const auto found = std::ranges::find_if(draft.tokens, is_picture_token);
  const auto n = static_cast<size_t>(found - draft.tokens.begin());
  if (n == draft.tokens.size()) return;
  draft.tokens.resize(n);
  draft.chances.resize(n);
  draft.grades.resize(std::min(draft.grades.size(), n));
}

}  // namespace

// Returns the max drafted tokens of a sequence after its pending ones. A draft never makes memory
// grow, and has no token that could not become part of the answer.
size_t Engine::draft_room(const Sequence& sequence) const {
  const SequenceContext& context = sequence.context_;
  const SequenceOptions& options = sequence.options_;
  if (sequence.n_generated() == 0) return 0;
  const size_t n_used = context.n_held() + sequence.n_pending();
  size_t room = std::min({options.max_draft, saturating_subtract(context.rung(), n_used),
                          context.draft_room(sequence.n_pending())});
  if (options.max_new_tokens >= 0) {
    const size_t n_left =
        saturating_subtract(static_cast<size_t>(options.max_new_tokens), sequence.n_generated());
    room = std::min(room, saturating_subtract(n_left, 1));
  }
  if (model().short_text != 0 && !context.is_long())
    room = std::min(room, saturating_subtract(model().short_text, n_used));
  return room;
}

// Adds drafts to the parts of generating sequences. A pass has at most max_rows rows in total.
void Engine::add_drafts(std::span<PassPart> parts, size_t max_rows) {
  if (speculation_.max_draft() == 0) return;
  DraftRoom room = {.max_rows = max_rows};
  std::vector<Speculation::Writer> writers;
  std::vector<PassPart*> of_writer;
  std::vector<Sequence*> sequences;
  for (PassPart& part : parts) {
    room.n_rows += part.n_rows;
    if (!part.complete) continue;
    ++room.n_writing;
    Sequence& sequence = *part.sequence;
    const size_t max_tokens = draft_room(sequence);
    if (max_tokens == 0) continue;
    if (!sequence.drafter_)
      sequence.drafter_.emplace(
          speculation_.make_drafter(sequence.options_.prediction, sequence.options_.salt));
    writers.push_back({&*sequence.drafter_, sequence.tokens_, max_tokens});
    of_writer.push_back(&part);
    sequences.push_back(&sequence);
  }
  room.max_rows = saturating_subtract(max_rows, room.n_rows);
  std::vector<Draft> drafts = speculation_.propose(writers, room);
  if (draft_model_) add_guesses(writers, sequences, room, drafts);
  for (Draft& draft : drafts) end_before_picture(draft);
  speculation_.limit(writers, room, drafts);
  for (size_t i = 0; i < drafts.size(); ++i) of_writer[i]->draft = std::move(drafts[i]);
}

// Lets the draft model guess for sequences whose texts give no likelier draft. It first reads the
// tokens that it lacks, in chunks. Then it guesses token after token, for all sequences together,
// as long as that is worth the time.
void Engine::add_guesses(std::span<const Speculation::Writer> writers,
                         std::span<Sequence* const> sequences, const DraftRoom& room,
                         std::span<Draft> drafts) {
  constexpr size_t kMaxGuesses = 16;
  std::vector<size_t> hopeful;
  std::vector<double> chances;
  for (size_t i = 0; i < writers.size(); ++i) {
    const double chance = writers[i].drafter->chance_of_guess();
    if (!drafts[i].chances.empty() && drafts[i].chances.front() >= chance) continue;
    hopeful.push_back(i);
    chances.push_back(chance);
  }
  const std::vector<bool> worth = speculation_.worth_guessing(chances, room);
  std::vector<Guessing> all;
  size_t n_to_catch_up = speculation_.rows_to_catch_up(room);
  size_t n_left = kDraftBatch;
  for (size_t i = 0; i < hopeful.size() && n_left > 0; ++i) {
    if (!worth[i] || !sequences[hopeful[i]]->pictures_.empty()) continue;  // it sees no pictures
    Sequence& sequence = *sequences[hopeful[i]];
    const std::span<const int32_t> text = sequence.tokens_;
    if (!sequence.read_text_) sequence.read_text_.emplace(*draft_model_);
    const size_t n_max = draft_model_->max_positions(sequence.rung());
    const size_t n_lacking = sequence.read_text_->follow(text, n_max);
    if (n_lacking == 0) continue;
    const size_t n_read = sequence.read_text_->n_read();
    size_t n = std::min(n_lacking, n_left);
    if (n_lacking > kMaxWritten) n_to_catch_up -= n = std::min(n, n_to_catch_up);
    if (n == 0) continue;
    n_left -= n;
    const std::span<const int32_t> tokens = text.last(n_lacking).first(n);
    all.push_back({.writer = hopeful[i],
                   .text = &*sequence.read_text_,
                   .tokens = {tokens.begin(), tokens.end()},
                   .catches_up = n < n_lacking,
                   .max_tokens = std::min({writers[hopeful[i]].max_tokens, kMaxGuesses,
                                           n_max + 1 - (n_read + n_lacking)})});
  }
  while (guess_next(all)) {
    chances.clear();
    for (const Guessing& one : all)
      chances.push_back(one.tokens.empty() ? 0.0
                                           : one.draft.chances.back() *
                                                 writers[one.writer].drafter->chance_of_guess());
    const std::vector<bool> goes_on = speculation_.worth_guessing(chances, room);
    for (size_t i = 0; i < all.size(); ++i)
      if (!goes_on[i]) all[i].tokens.clear();
  }
  for (Guessing& one : all) {
    Draft& found = drafts[one.writer];
    if (sum_of(one.draft.chances) > sum_of(found.chances)) found = std::move(one.draft);
  }
}

// Runs one pass of the draft model. Returns false if no sequence takes part.
bool Engine::guess_next(std::span<Guessing> all) {
  std::vector<DraftModel::Reading> readings;
  size_t n_rows = 0;
  for (const Guessing& one : all) {
    if (one.tokens.empty()) continue;
    readings.push_back({one.text, one.tokens, !one.catches_up});
    n_rows += one.tokens.size();
  }
  if (readings.empty()) return false;
  const Clock::time_point start = Clock::now();
  const std::vector<DraftModel::Guess> guesses = draft_model_->read(
      {*kernels_, team_, arena_}, readings, static_cast<size_t>(tokenizer_->n_tokens()));
  const std::chrono::nanoseconds time = Clock::now() - start;
  speculation_.note_guess_pass(n_rows, time);
  guess_time_ += time;
  size_t n_guesses = 0;
  for (Guessing& one : all) {
    if (one.tokens.empty()) continue;
    one.tokens.clear();
    if (one.catches_up) continue;
    const DraftModel::Guess& guess = guesses[n_guesses++];
    // No draft continues after an end token, and nobody needs logits after it.
    if (guess.probability == 0.0f || tokenizer_->is_end_of_generation(guess.token)) continue;
    speculation_.add_guess(one.draft, guess.token, static_cast<double>(guess.probability));
    const bool goes_on =
        one.draft.tokens.size() < one.max_tokens && one.draft.chances.back() >= kMinDraftChance;
    if (goes_on) one.tokens = {guess.token};
  }
  return true;
}

}  // namespace billow::engine
