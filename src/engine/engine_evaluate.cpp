// The part of the engine that calculates the logits of whole texts.
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/scratch.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/step_rows.h"

namespace billow::engine {
namespace {

// Frees the memory of a sequence at the end of the scope, even after an error.
struct Release {
  KvMemory& memory;
  SequenceContext& context;
  ~Release() { memory.release(context); }
};

}  // namespace

void Engine::evaluate(std::span<const int32_t> given_tokens, size_t first,
                      const std::function<void(size_t i, std::span<const float> logits)>& each,
                      const TextOptions& options) {
  std::vector<int32_t> tokens(given_tokens.begin(), given_tokens.end());
  const PlacedPictures pictures = place_pictures(tokens, options.pictures);
  encode_now(options.pictures);
  const size_t top = options.context.cap(max_context_);
  if (tokens.size() > top && options.context.policy == context::OverflowPolicy::kStop) {
    throw Error(ErrorCode::kTooLarge, std::to_string(tokens.size()) +
                                          " tokens exceed the context of " + std::to_string(top) +
                                          "; give fewer");
  }
  // Few rows at a time, because a row of logits may have a megabyte.
  constexpr size_t kRowsAtOnce = 128;
  size_t max_rows = std::min(kRowsAtOnce, n_batch_);
  for (const std::shared_ptr<Picture>& picture : options.pictures)
    for (const vision::Tile& tile : picture->tiles)
      if (model().sees_whole_pictures) max_rows = std::max(max_rows, tile.n_tokens());
  const size_t n_held = std::min(tokens.size(), top);
  const std::shared_ptr<Adapters::Entry> adapter = adapter_for({});
  const arch::PassLimits limits = {.n_rows = n_batch_,
                                   .n_logit_rows = max_rows,
                                   .n_positions = n_held,
                                   .n_threads = static_cast<size_t>(team_.size()),
                                   .adapter_rank = adapter == nullptr ? 0 : adapter->need().rank};
  const uint64_t scratch = arch::max_scratch_bytes(*model_, *kernels_, limits);
  if (!grant_scratch(std::max(scratch, scratch_granted_)))
    throw Error(ErrorCode::kOutOfMemory, "no scratch memory for a text; " + budget_left());
  const bool rotates_by_grid = model().has_grid && !pictures.empty();
  const bool can_shift = model().can_shift(top) && !rotates_by_grid;
  const context::ContextPlan context_plan = {
      context::Ladder(top), context::possible_policy(options.context.policy, can_shift),
      options.context.compaction, std::min(options.n_anchor, context::longest_anchor(top))};
  if (running_.size() == max_sequences_)
    throw Error(ErrorCode::kOutOfMemory, "all KV memory is in use by running sequences");
  SequenceContext context(kv_.cache(), context_plan, top);
  if (is_long_text(n_held)) context.set_long();
  const Adapters::Lease lease = adapter == nullptr ? Adapters::Lease() : use_adapter(adapter);
  if (adapter != nullptr && !lease)
    throw Error(ErrorCode::kOutOfMemory, "no memory for the adapter; " + budget_left());
  if (!kv_.grant_rung(context, n_held)) {
    throw Error(ErrorCode::kOutOfMemory, "the text takes " +
                                             format_byte_size(kv_.bytes_for(context_plan, n_held)) +
                                             " of KV memory, but " + budget_left());
  }
  const Release release{kv_, context};
  for (size_t done = 0; done < tokens.size();) {
    // Index of the next token to evaluate.
    const size_t next = context.n_held() + context.n_dropped();
    if (context.n_held() == top) {
      kv_.compact(context, context.next(1).compaction);
      if (context.n_held() == 0)
        context.set_long(is_long_text(std::min(tokens.size() - context.n_dropped(), top)));
      continue;
    }
    const bool wanted = next >= std::max(done, first);  // a refill evaluates tokens again
    const size_t end = wanted ? tokens.size() : std::max(done, std::min(first, tokens.size()));
    size_t n =
        std::min({wanted ? max_rows : SIZE_MAX, n_batch_, top - context.n_held(), end - next});
    if (model().sees_whole_pictures) n = pictures.whole_tiles(next, n);
    kv_.evict_out_of_window(context);
    kv_.take(context, n, 0, next + n == tokens.size());
    StepRows rows(model());
    rows.add(context, n, {.tokens = tokens, .adapter = lease.adapter(), .pictures = &pictures});
    for (size_t i = 0; i < n && wanted; ++i) rows.logit_rows.push_back(static_cast<uint32_t>(i));
    const tensor::ArenaScope scope(arena_);
    const tensor::Matrix logits = arena_.matrix(rows.logit_rows.size(), model().n_vocab);
    model_->forward(compute(), &kv_.cache(), rows.view(), {logits});
    for (size_t i = 0; i < rows.logit_rows.size(); ++i)
      each(next + i, {logits.row(i), logits.n_cols});
    done = std::max(done, next + n);
  }
}

}  // namespace billow::engine
