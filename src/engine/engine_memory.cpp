// The memory of sequences: the budget, rungs and scratch memory, growth, compaction, and the end of
// sequences that get none.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/error.h"
#include "base/saturating.h"
#include "engine/engine.h"

namespace billow::engine {

uint64_t Engine::set_memory_budget(uint64_t bytes, uint64_t ceiling) {
  ledger_.set_budget(bytes);
  kv_.fit_budget();
  for (const std::shared_ptr<Sequence>& sequence : running_)
    if (budget_wanted(*sequence) > ceiling) sequence->denied_ = true;
  if (embeds_.waiting() && budget_wanted_by_texts() > ceiling) embeds_.deny();
  return ledger_.account().total;
}

bool Engine::asking() const noexcept {
  const auto asks = [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->waiting_ && !sequence->denied_;
  };
  return asks_for_memory_ && (std::ranges::any_of(running_, asks) || embeds_.asking());
}

MemoryUse Engine::memory() const {
  const context::Ledger::Account account = ledger_.account();
  MemoryUse use = {.file = file_.n_bytes(),
                   .packed = packed_.n_bytes(),
                   .weights = account.of(context::MemoryClass::kWeights),
                   .kv_block = kv_.cache().layout().block_bytes(),
                   .kv_state = kv_.cache().layout().state_bytes(),
                   .kv_granted = account.of(context::MemoryClass::kKvInUse),
                   .adapters = account.of(context::MemoryClass::kAdapters) +
                               account.of(context::MemoryClass::kAdaptersCached),
                   .adapters_cached = account.of(context::MemoryClass::kAdaptersCached),
                   .pictures_cached = picture_reader_ ? picture_reader_->idle_bytes() : 0,
                   .kv_cached = account.of(context::MemoryClass::kKvCached),
                   .kv_evicted = kv_.evicted_bytes(),
                   .adapters_evicted = adapters_.evicted_bytes(),
                   .scratch = arena_.n_bytes(),
                   .scratch_granted = account.of(context::MemoryClass::kScratch),
                   .budget = account.budget,
                   .wanted = wanted_bytes(),
                   .asking = asking()};
  const auto add = [&use](const kv::Cache& cache) {
    use.kv_reserved += cache.bytes_reserved();
    use.kv_in_use += cache.bytes_in_use();
    use.kv_backed += cache.bytes_backed();
    use.kv_max += cache.max_bytes_in_use();
  };
  add(kv_.cache());
  if (picture_reader_) {
    use.file += picture_reader_->file_bytes();
    use.packed += picture_reader_->packed_bytes();
  }
  if (draft_model_) {
    add(draft_model_->cache());
    if (const DraftModel::Own* const own = draft_model_->own()) {
      use.file += own->file.n_bytes();
      use.packed += own->packed.n_bytes();
    }
  }
  return use;
}

// Returns the scratch of a step with a sequence of n_positions and the sequences that were granted
// scratch before. At least the bytes that the arena has from earlier passes.
uint64_t Engine::step_scratch_bytes(size_t n_positions) const {
  return std::max(step_need_.scratch_bytes(std::max(n_positions, step_positions_)),
                  scratch_granted_);
}

// REQUIRES: n_bytes is not below the granted bytes.
bool Engine::grant_scratch(uint64_t n_bytes) {
  if (!kv_.grant(context::MemoryClass::kScratch, n_bytes - scratch_granted_)) return false;
  scratch_granted_ = n_bytes;
  return true;
}

bool Engine::grant_step_scratch(size_t n_positions) {
  if (!grant_scratch(step_scratch_bytes(n_positions))) return false;
  step_positions_ = std::max(step_positions_, n_positions);
  return true;
}

// Throws Error if a sequence alone could not get its first rung, and the caller cannot raise the
// budget. `n_more`: additional bytes that the sequence needs.
void Engine::check_fits(const context::ContextPlan& context_plan, size_t rung,
                        uint64_t n_more) const {
  if (asks_for_memory_) return;
  const context::Ledger::Account account = ledger_.account();
  const uint64_t weights = account.of(context::MemoryClass::kWeights);
  const uint64_t left = account.budget - std::min(account.budget, weights);
  const uint64_t wanted = kv_.bytes_for(context_plan, rung) + step_scratch_bytes(rung) + n_more;
  if (wanted <= left) return;
  throw Error(ErrorCode::kOutOfMemory,
              "a context of " + std::to_string(rung) + " tokens takes " + format_byte_size(wanted) +
                  " of KV" + (n_more == 0 ? "" : ", adapters") +
                  " and scratch memory, but the budget of " + format_byte_size(account.budget) +
                  " leaves " + format_byte_size(left) +
                  " for them; shorten the prompt or allow more memory");
}

// Returns, for example, "only 13.5 MiB of the memory budget of 2.0 GiB are left".
std::string Engine::budget_left() const {
  const context::Ledger::Account account = ledger_.account();
  return "only " + format_byte_size(account.left()) + " of the memory budget of " +
         format_byte_size(account.budget) + " are left";
}

// Grants a rung and the scratch memory of its steps, or nothing.
bool Engine::grant_context(SequenceContext& context, size_t rung) {
  const uint64_t scratch = scratch_granted_;
  const size_t positions = step_positions_;
  if (!grant_step_scratch(rung)) return false;
  if (kv_.grant_rung(context, rung)) return true;
  ledger_.give_back(context::MemoryClass::kScratch, scratch_granted_ - scratch);
  scratch_granted_ = scratch;
  step_positions_ = positions;
  return false;
}

bool Engine::grant_rung(Sequence& sequence, size_t rung) {
  const bool granted = grant_context(sequence.context_, rung);
  sequence.refused_rung_ = granted ? 0 : rung;
  if (granted) sequence.denied_ = false;
  return granted;
}

// Returns the budget with which a sequence with this plan, which has n_granted bytes, could have
// the rung together with all running sequences. Assumes that all cached memory is evicted.
uint64_t Engine::budget_for(const context::ContextPlan& context_plan, size_t rung,
                            uint64_t n_granted) const {
  const context::Ledger::Account account = ledger_.account();
  const uint64_t kv = kv_.bytes_for(context_plan, rung);
  return account.total - account.of(context::MemoryClass::kKvCached) -
         account.of(context::MemoryClass::kAdaptersCached) + saturating_subtract(kv, n_granted) +
         step_scratch_bytes(rung) - scratch_granted_;
}

// Returns 0 if the sequence was refused nothing.
uint64_t Engine::budget_wanted(const Sequence& sequence) const {
  if (sequence.refused_rung_ == 0 && sequence.refused_picture_bytes_ == 0) return 0;
  const SequenceContext& context = sequence.context_;
  const size_t rung = sequence.refused_rung_ != 0 ? sequence.refused_rung_ : context.rung();
  const uint64_t kv = budget_for(context.context_plan(), rung, context.granted_bytes()) +
                      sequence.refused_picture_bytes_ -
                      (picture_reader_ ? picture_reader_->idle_bytes() : 0);
  return kv + (sequence.lacks_adapter() ? adapters_.wanted_bytes(*sequence.adapter_) : 0);
}

uint64_t Engine::budget_wanted_by_texts() const {
  if (!embeds_.waiting()) return 0;
  const Embedding& first = embeds_.first_waiting();
  const uint64_t kv = budget_for(first.context_plan(), first.tokens().size(), 0);
  return kv + (first.adapter() == nullptr ? 0 : adapters_.wanted_bytes(*first.adapter()));
}

// Returns how many bytes the budget lacks for the largest refused request.
uint64_t Engine::wanted_bytes() const {
  uint64_t wanted = budget_wanted_by_texts();
  for (const std::shared_ptr<Sequence>& sequence : running_)
    wanted = std::max(wanted, budget_wanted(*sequence));
  return saturating_subtract(wanted, ledger_.account().budget);
}

// Sequences that wait while others run may ask again before they end, because the others may free
// memory.
void Engine::ask_again() {
  for (const std::shared_ptr<Sequence>& sequence : running_) sequence->denied_ = false;
  embeds_.ask_again();
}

// Starts a sequence after the cached prefix of its prompt. Returns false if there is too little
// memory now.
bool Engine::admit(Sequence& sequence) {
  SequenceContext& context = sequence.context_;
  if (sequence.lacks_adapter()) {
    sequence.refused_rung_ = context.rung();
    return false;
  }
  if (is_long_text(sequence.n_pending())) context.set_long();
  if (!sequence.options_.scores_prompt)
    sequence.n_shared_ = kv_.match_prefix(context, sequence.tokens_);
  if (grant_rung(sequence, context.rung())) return true;
  kv_.release_shared(context);
  return false;
}

// Prepares a sequence for the evaluation of its pending tokens: grants memory, or changes the rung,
// or compacts. Returns false if there is too little memory now.
bool Engine::make_room(Sequence& sequence) {
  const Clock::time_point start = Clock::now();
  SequenceContext& context = sequence.context_;
  if (context.granted_bytes() == 0 && !admit(sequence)) return false;
  const context::Decision next = context.next(sequence.n_pending());
  if (next.step == context::Step::kWrite) {
    restart_if_long(sequence, start);
    return true;
  }
  BILLOW_CHECK(next.step != context::Step::kStop);  // sample() has ended it
  SequenceEvent event;
  event.event = {next.step,        context.rung(),         next.rung,
                 context.n_held(), sequence.n_generated(), next.compaction};
  const double seconds = std::chrono::duration<double>(sequence.decode_time_).count();
  event.decode_rate = seconds > 0.0 ? static_cast<double>(sequence.n_decoded_) / seconds : 0.0;
  if (next.step == context::Step::kGrow && !grant_rung(sequence, next.rung)) {
    if (asks_for_memory_ && !sequence.denied_) return false;
    const std::optional<context::Compaction> compaction = context.next_without_growth();
    if (!compaction) return false;
    event.event.step = context::Step::kCompact;
    event.event.to = context.rung();
    event.event.compaction = *compaction;
  }
  if (event.event.step == context::Step::kCompact) {
    kv_.compact(context, event.event.compaction);
    sequence.denied_ = false;
    event.refills = context.context_plan().policy == context::OverflowPolicy::kRefill;
    if (event.refills) {
      begin_refill(sequence, start);
      context.set_long(is_long_text(sequence.n_pending()));
    }
  }
  event.time = Clock::now() - start;
  sequence.events_.push_back(event);
  restart_if_long(sequence, start);
  return true;
}

bool Engine::is_long_text(size_t n_tokens) const { return !model().rotates_alike(n_tokens); }

// If a text becomes a long one, it is evaluated again from its beginning: a compaction that drops
// nothing.
void Engine::restart_if_long(Sequence& sequence, Clock::time_point start) {
  SequenceContext& context = sequence.context_;
  const size_t n_held = context.n_held();
  if (context.is_long() || !is_long_text(n_held + sequence.n_pending())) return;
  const context::Compaction nothing = {
      .anchor = context.context_plan().n_anchor, .keep = n_held, .drop = 0};
  kv_.release_shared(context);
  context.set_long();
  SequenceEvent event = {.event = {context::Step::kCompact, context.rung(), context.rung(), n_held,
                                   sequence.n_generated(), nothing},
                         .refills = true};
  begin_refill(sequence, start);
  sequence.events_.push_back(event);
}

void Engine::begin_refill(Sequence& sequence, Clock::time_point start) {
  sequence.refill_start_ = start;
  sequence.n_read_ = sequence.tokens_.size();
}

// All wait for memory, and none of them will free any: ends the one whose picture lacks most, or
// the last one that has memory.
void Engine::end_for_memory() {
  if (running_.empty()) return embeds_.fail_next("no memory for a text; " + budget_left());
  const auto holds = [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->context_.granted_bytes() != 0;
  };
  const auto last = std::ranges::find_if(running_.rbegin(), running_.rend(), holds);
  const auto largest = std::ranges::max_element(
      running_, {}, [](const auto& one) { return one->refused_picture_bytes_; });
  const std::shared_ptr<Sequence> sequence = (*largest)->refused_picture_bytes_ != 0 ? *largest
                                             : last != running_.rend()               ? *last
                                                                       : running_.front();
  const SequenceContext& context = sequence->context_;
  const size_t rung =
      context.granted_bytes() != 0 ? context.next(sequence->n_pending()).rung : context.rung();
  if (sequence->refused_picture_bytes_ != 0) {
    sequence->error_ = "no memory to encode a picture: it takes " +
                       format_byte_size(sequence->refused_picture_bytes_) + ", but " +
                       budget_left() + "; allow more memory, or give a smaller picture";
    return end(*sequence, FinishReason::kNoMemory);
  }
  sequence->error_ =
      "no memory for a context of " + std::to_string(rung) + " tokens: it takes " +
      format_byte_size(kv_.bytes_for(context.context_plan(), rung) - context.granted_bytes()) +
      " more, but " + budget_left() + "; allow more memory, or fewer parallel requests";
  end(*sequence, FinishReason::kNoMemory);
}

}  // namespace billow::engine
