// The part of the engine that chooses tokens of answers.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/saturating.h"
#include "engine/engine.h"

namespace billow::engine {

// Starts to calculate, in parallel with the model, which tokens these parts' grammars allow next.
MaskWorker::Task Engine::prepare_masks(std::span<const PassPart> parts) {
  std::vector<constraint::Guide*> guides;
  for (const PassPart& part : parts) {
    if (!part.complete) continue;
    if (constraint::Guide* guide = part.sequence->options_.guide.get()) guides.push_back(guide);
  }
  return masks_.prepare(std::move(guides));
}

void Engine::fail(Sequence& sequence, const std::string& error) {
  sequence.error_ = error;
  end(sequence, FinishReason::kFailed);
}

// Chooses the token after the evaluated ones. While a chosen token equals the drafted one, the
// logits after it are known, too. Then chooses the next token.
void Engine::sample_part(const PassPart& part, tensor::Matrix logits, std::vector<Token>& out) {
  Sequence& sequence = *part.sequence;
  const std::vector<int32_t>& draft = part.draft.tokens;
  const size_t n_before = sequence.tokens_.size();
  size_t n_accepted = 0;
  do {
    sample(part.sequence, {logits.row(n_accepted), logits.n_cols}, out);
    // A grammar may have added forced tokens.
    const std::span<const int32_t> written = std::span(sequence.tokens_).subspan(n_before);
    const size_t n_known = n_accepted;
    while (n_accepted < std::min(draft.size(), written.size()) &&
           written[n_accepted] == draft[n_accepted])
      ++n_accepted;
    if (!sequence.finished()) sequence.context_.own(n_accepted - n_known);
  } while (!sequence.finished() && sequence.n_pending() == 0);
  sequence.n_decoded_ += n_accepted - sequence.context_.settle_draft();
  learn_from(part, sequence.tokens_.size() - n_before, n_accepted);
}

void Engine::learn_from(const PassPart& part, size_t n_written, size_t n_accepted) {
  if (part.draft.tokens.empty()) return;
  Sequence& sequence = *part.sequence;
  sequence.n_drafted_ += part.draft.tokens.size();
  sequence.n_draft_accepted_ += n_accepted;
  if (!sequence.drafter_) return;  // the sequence has ended
  const size_t n_compared = std::min({part.draft.tokens.size(), n_written, n_accepted + 1});
  speculation_.learn(*sequence.drafter_, part.draft, n_compared, n_accepted == n_compared);
}

// Ends the drafts of a sequence. Later sequences may draft from its answer.
void Engine::forget_draft(Sequence& sequence) {
  constexpr size_t kBefore = 8;  // tokens of the prompt directly before the answer
  sequence.drafter_.reset();
  sequence.read_text_.reset();
  if (sequence.n_generated() == 0) return;
  const size_t begin = saturating_subtract(sequence.n_prompt(), kBefore);
  speculation_.remember(std::span<const int32_t>(sequence.tokens_).subspan(begin),
                        sequence.options_.salt);
}

void Engine::sample(const std::shared_ptr<Sequence>& sequence, std::span<const float> logits,
                    std::vector<Token>& out) {
  const SequenceOptions& options = sequence->options_;
  if (options.max_new_tokens == 0) return end(*sequence, FinishReason::kLength);
  std::span<const uint32_t> allowed;
  try {
    if (options.guide) {
      options.guide->prepare();  // after a drafted token, the mask is not prepared yet
      allowed = options.guide->allowed();
    }
  } catch (const Error& error) {
    return fail(*sequence, error.what());
  }
  Sampled sampled;
  try {
    // Logits above the vocabulary come from padding rows of the embedding.
    sampled = sequence->sampler_.sample(logits.first(static_cast<size_t>(tokenizer_->n_tokens())),
                                        allowed);
  } catch (const NoFiniteLogits& error) {
    fail(*sequence, error.what());
    return kv_.forget_cached();  // shared KV may be wrong, too
  } catch (const Error& error) {
    return fail(*sequence, error.what());
  }
  const int32_t token = sampled.token;
  const bool ends = tokenizer_->is_end_of_generation(token);
  const bool is_held = options.guide && options.guide->begun();
  const bool is_end = ends && (!options.ignore_eos || is_held);
  out.push_back({sequence, std::move(sampled), is_end});
  if (is_end) return end(*sequence, FinishReason::kStop);
  if (write(*sequence, token) && options.guide) follow_grammar(sequence, token, out);
}

// Appends a token to the answer. Returns false if that ends the sequence.
bool Engine::write(Sequence& sequence, int32_t token) {
  sequence.sampler_.accept(token);
  sequence.tokens_.push_back(token);
  const int64_t max = sequence.options_.max_new_tokens;
  const bool enough = max > 0 && sequence.n_generated() >= static_cast<size_t>(max);
  const bool full = sequence.context_.next(sequence.n_pending()).step == context::Step::kStop;
  if (enough || full) end(sequence, FinishReason::kLength);
  return !enough && !full;
}

// Advances the grammar by the token and the forced tokens after it, as far as the granted positions
// allow; with logprobs, only by the token. The sampler chooses further tokens one by one.
void Engine::follow_grammar(const std::shared_ptr<Sequence>& sequence, int32_t token,
                            std::vector<Token>& out) {
  constraint::Guide& guide = *sequence->options_.guide;
  const size_t n_used = sequence->n_evaluated() + sequence->n_pending();
  const size_t room = saturating_subtract(sequence->rung(), n_used);
  std::vector<int32_t> forced;
  try {
    forced = guide.accept(token, tokenizer_->piece(token, true),
                          sequence->options_.sampling.logprobs ? 0 : room);
  } catch (const Error& error) {
    return fail(*sequence, error.what());
  }
  for (const int32_t next : forced) {
    out.push_back({sequence, Sampled{.token = next}, false});
    if (!write(*sequence, next)) return;
  }
  if (guide.done()) end(*sequence, FinishReason::kStop);
}

}  // namespace billow::engine
