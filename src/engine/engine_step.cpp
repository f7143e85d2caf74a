// The part of the engine that runs passes: chooses their rows and uses their results.
#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/saturating.h"
#include "engine/engine.h"
#include "engine/sampling/sampler.h"
#include "engine/step_rows.h"

namespace billow::engine {

// Returns the max rows of a sequence in a pass. If all logits of several prompts are wanted, these
// prompts share the logit rows that scratch was granted for. Each other sequence needs one row.
size_t Engine::max_rows_of(const Sequence& sequence) const {
  if (!sequence.wants_scores()) return SIZE_MAX;
  const auto n_scoring =
      static_cast<size_t>(std::ranges::count_if(running_, &Sequence::wants_scores));
  return 1 + (max_sequences_ - running_.size()) / n_scoring;
}

// Returns the pending rows of each sequence, after granting memory for them. All queued texts
// together count as one more sequence at the end.
std::vector<size_t> Engine::pending_rows() {
  std::vector<size_t> n_pending;
  for (const auto& sequence : running_) {
    sequence->waiting_ = !sequence->held_ && !make_room(*sequence);
    const bool runs = !sequence->held_ && !sequence->waiting_;
    const size_t n = std::min(sequence->n_pending(), max_rows_of(*sequence));
    const size_t n_rows = runs ? sequence->context_.rows_of_pass(n) : 0;
    n_pending.push_back(rows_before_picture(*sequence, n_rows));
  }
  if (!embeds_.empty()) {
    n_pending.push_back(embeds_.admit(
        n_batch_, [this](SequenceContext& context, size_t n) { return grant_context(context, n); },
        [this](const std::shared_ptr<Adapters::Entry>& entry) { return use_adapter(entry); }));
  }
  return n_pending;
}

// Returns the max rows of prompts and texts in a pass. They depend on whether sequences generate
// whose clients wait for each token.
size_t Engine::max_read_rows(std::span<const size_t> n_pending) const {
  for (size_t i = 0; i < running_.size(); ++i)
    if (!running_[i]->options_.is_bulk && running_[i]->n_generated() > 0 && n_pending[i] > 0 &&
        n_pending[i] <= kMaxWritten)
      return pacing_.max_read_rows();
  return SIZE_MAX;
}

// Returns the parts of a pass of at most max_rows rows.
std::vector<Engine::PassPart> Engine::plan_parts(std::span<const size_t> n_pending,
                                                 size_t max_rows) {
  std::vector<PassPart> parts;
  const BatchLimits limits = {.n_rows = max_rows, .n_read_rows = max_read_rows(n_pending)};
  std::vector<Pending> pending;
  for (size_t i = 0; i < running_.size(); ++i)
    pending.push_back({n_pending[i], running_[i]->options_.is_bulk});
  if (n_pending.size() > running_.size()) pending.push_back({n_pending.back(), embeds_.is_bulk()});
  for (const ScheduledChunk& chunk : plan_batch(pending, limits, n_steps_++)) {
    PassPart part = {.n_rows = chunk.n_rows};
    if (chunk.sequence < running_.size()) {
      part.sequence = running_[chunk.sequence];
      part.complete = chunk.n_rows == part.sequence->n_pending();
      part.writes = part.sequence->n_generated() > 0 && chunk.n_rows <= kMaxWritten &&
                    !part.sequence->refill_start_;
    }
    parts.push_back(std::move(part));
  }
  if (model().sees_whole_pictures)
    for (size_t i = 0; i < parts.size(); ++i) take_whole_tiles(parts, i, max_rows);
  std::erase_if(parts, [](const PassPart& part) { return part.n_rows == 0; });
  // Rows that are written go first, so that the rows of each kind are adjacent.
  std::vector<PassPart> ordered;
  std::vector<PassPart> reading;
  for (PassPart& part : parts) {
    const bool writes =
        part.sequence != nullptr &&
        part.sequence->n_dropped() + part.sequence->n_evaluated() >= part.sequence->n_read_;
    (writes ? ordered : reading).push_back(std::move(part));
  }
  std::ranges::move(reading, std::back_inserter(ordered));
  return ordered;
}

// Changes the rows of a part so that the pass does not separate the tokens of a tile. If the part
// begins with a tile that does not fit, the other parts lose rows.
void Engine::take_whole_tiles(std::span<PassPart> parts, size_t index, size_t max_rows) {
  PassPart& part = parts[index];
  if (part.sequence == nullptr || part.n_rows == 0) return;
  const Sequence& sequence = *part.sequence;
  const SequenceContext& context = sequence.context_;
  const size_t next = context.index_of(context.n_held());
  const size_t n_wanted = part.n_rows;
  part.n_rows = sequence.pictures_.whole_tiles(next, n_wanted);
  if (part.n_rows == n_wanted) return;
  part.complete = part.n_rows == sequence.n_pending();
  size_t n_rows = 0;
  for (const PassPart& other : parts) n_rows += other.n_rows;
  for (size_t i = parts.size(); i-- > 0 && n_rows > max_rows;) {
    if (i == index) continue;
    n_rows -= parts[i].n_rows;
    parts[i].n_rows = 0;
  }
}

// Collects the rows of a pass.
void Engine::take_rows(std::span<PassPart> parts, StepRows& rows) {
  for (const PassPart& part : parts)
    if (part.sequence != nullptr) kv_.evict_out_of_window(part.sequence->context_);
  for (PassPart& part : parts) {
    part.first_hidden = rows.hidden_rows.size();
    if (part.sequence == nullptr) {
      embeds_.take(part.n_rows, *pooling_, rows);
      part.n_hidden = rows.hidden_rows.size() - part.first_hidden;
      n_embedded_ = part.n_rows;
      continue;
    }
    Sequence& sequence = *part.sequence;
    const std::vector<int32_t>& draft = part.draft.tokens;
    kv_.take(sequence.context_, part.n_rows, draft.size(), part.complete);
    rows.add(sequence.context_, part.n_rows + draft.size(),
             {.tokens = sequence.tokens_,
              .n_read = sequence.n_read_,
              .adapter = sequence.lease_.adapter(),
              .draft = draft,
              .pictures = &sequence.pictures_});
    if (draft_model_ && draft_model_->is_head()) take_states(part, rows);
    sequence.context_.disown(draft.size());
    if (sequence.wants_scores())
      part.n_logits = part.n_rows;
    else if (part.complete)
      part.n_logits = 1 + draft.size();
    for (size_t row = rows.n() - part.n_logits; row < rows.n(); ++row)
      rows.logit_rows.push_back(static_cast<uint32_t>(row));
  }
}

// Asks for the states that the predicting head may read: those of the last tokens of the text.
void Engine::take_states(PassPart& part, StepRows& rows) const {
  const Sequence& sequence = *part.sequence;
  const size_t end = sequence.context_.index_of(sequence.context_.n_held() - 1) + 1;
  const size_t n_rows = part.n_rows + part.draft.tokens.size();
  const size_t n_left = sequence.tokens_.size() - std::min(sequence.tokens_.size(), end);
  part.n_hidden = std::min(n_rows, saturating_subtract(kKeptStates, n_left));
  if (sequence.n_dropped() > 0)  // only rows of adjacent tokens
    part.n_hidden = std::min(
        part.n_hidden,
        saturating_subtract(sequence.context_.n_held(), sequence.context_.context_plan().n_anchor));
  part.first_state = end - part.n_hidden;
  for (size_t row = rows.n() - part.n_hidden; row < rows.n(); ++row)
    rows.hidden_rows.push_back(static_cast<uint32_t>(row));
}

// Keeps the states of the tokens that are part of the text.
void Engine::keep_states(const PassPart& part, tensor::Matrix hidden) {
  Sequence& sequence = *part.sequence;
  if (part.n_hidden == 0 || sequence.finished()) return;
  if (!sequence.read_text_) sequence.read_text_.emplace(*draft_model_);
  const size_t end = sequence.n_dropped() + sequence.n_evaluated();
  const size_t n = std::min(part.n_hidden, saturating_subtract(end, part.first_state));
  sequence.read_text_->keep_states(part.first_state,
                                   {hidden.row(part.first_hidden), n, hidden.n_cols});
}

std::vector<Engine::Token> Engine::step(size_t max_rows) {
  n_embedded_ = 0;
  guess_time_ = {};
  load_adapters();
  std::vector<size_t> n_pending = pending_rows();
  if (read_pictures(n_pending)) n_pending = pending_rows();
  const Clock::time_point start = Clock::now();
  if (!idle() && std::ranges::all_of(n_pending, [](size_t n) { return n == 0; })) {
    if (picture_reader_ != nullptr && picture_reader_->busy()) return {};
    if (std::ranges::none_of(running_, &Sequence::held) && !asking()) end_for_memory();
    return {};
  }
  ask_again();
  max_rows = std::min(n_batch_, max_rows);
  std::vector<PassPart> parts = plan_parts(n_pending, max_rows);
  std::vector<Token> out;
  if (parts.empty()) return out;
  add_drafts(parts, max_rows);
  StepRows rows(model());
  take_rows(parts, rows);
  const tensor::ArenaScope scope(arena_);
  const tensor::Matrix logits = arena_.matrix(rows.logit_rows.size(), model().n_vocab);
  const tensor::Matrix hidden = arena_.matrix(rows.hidden_rows.size(), model().n_embd);
  {
    const MaskWorker::Task masks = prepare_masks(parts);
    model_->forward(compute(), &kv_.cache(), rows.view(), {logits, hidden});
  }
  for (const PassPart& part : parts) {
    if (part.sequence == nullptr) {
      embeds_.pool(*pooling_, {hidden.row(part.first_hidden), part.n_hidden, hidden.n_cols});
      continue;
    }
    Sequence& sequence = *part.sequence;
    note_time(sequence, part.n_rows, start);
    if (sequence.n_generated() == 0)  // for other requests with the same prompt
      kv_.insert(sequence.context_, sequence.tokens_);
  }
  sample_all(parts, logits, out);
  for (const PassPart& part : parts)
    if (part.sequence != nullptr) keep_states(part, hidden);
  note_pass(parts, Clock::now() - start);
  return out;
}

// The rows of logits have the order of the parts.
void Engine::sample_all(std::span<const PassPart> parts, tensor::Matrix logits,
                        std::vector<Token>& out) {
  size_t row = 0;
  for (const PassPart& part : parts) {
    if (part.n_logits == 0) continue;
    size_t first = row;
    row += part.n_logits;
    Sequence& sequence = *part.sequence;
    if (sequence.wants_scores()) {
      if (!score_prompt(sequence, {logits.row(first), part.n_logits, logits.n_cols})) continue;
      first = row - 1;
    }
    if (part.complete) sample_part(part, {logits.row(first), row - first, logits.n_cols}, out);
  }
}

// Returns false if the logits are not finite; then the sequence has ended.
bool Engine::score_prompt(Sequence& sequence, tensor::Matrix logits) {
  std::vector<Sampled>& scores = sequence.prompt_scores_;
  if (scores.empty())
    scores.push_back(
        {.token = sequence.tokens_.front(), .logprob = -std::numeric_limits<float>::infinity()});
  try {
    for (size_t i = 0; i < logits.n_rows && scores.size() < sequence.n_prompt(); ++i) {
      scores.push_back(
          sequence.sampler_.score({logits.row(i), static_cast<size_t>(tokenizer_->n_tokens())},
                                  sequence.tokens_[scores.size()]));
    }
  } catch (const NoFiniteLogits& error) {
    fail(sequence, error.what());
    kv_.forget_cached();  // shared KV may be wrong, too
    return false;
  } catch (const Error& error) {
    fail(sequence, error.what());
    return false;
  }
  return true;
}

// Records measurements that plan later passes.
void Engine::note_pass(std::span<const PassPart> parts, std::chrono::nanoseconds time) {
  Pacing::Pass pass = {.time = time};
  for (const PassPart& part : parts)
    (part.writes ? pass.n_writing : pass.n_reading) += part.n_rows + part.draft.tokens.size();
  pacing_.note(pass);
  if (pass.n_reading == 0) speculation_.note_pass(pass.n_writing, time - guess_time_);
}

void Engine::note_time(Sequence& sequence, size_t n_rows, Clock::time_point start) {
  const Clock::time_point now = Clock::now();
  if (sequence.refill_start_) {
    if (sequence.n_pending() > 0) return;
    sequence.events_.back().time = now - *sequence.refill_start_;
    sequence.refill_start_.reset();
  } else if (sequence.n_generated() > 0) {
    sequence.n_decoded_ += n_rows;
    sequence.decode_time_ += now - start;
  }
}

}  // namespace billow::engine
