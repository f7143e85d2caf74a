#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "cpu/cores.h"
#include "engine/batcher.h"

namespace billow::engine {
namespace {

// Flat rows of one step, in the form that arch::Batch views.
struct StepRows {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sequences;
  std::vector<const kv::BlockTable*> tables;
  std::vector<uint32_t> logit_rows;

  // The last n tokens that `context` has taken blocks for.
  void add(const SequenceContext& context, size_t n, std::span<const int32_t> all_tokens) {
    for (size_t position = context.n_held() - n; position < context.n_held(); ++position) {
      tokens.push_back(all_tokens[context.index_of(position)]);
      positions.push_back(static_cast<uint32_t>(context.slot_of(position)));
      sequences.push_back(static_cast<uint32_t>(tables.size()));
    }
    tables.push_back(&context.blocks());
  }
  arch::Batch view() const { return {tokens, positions, sequences, tables, logit_rows}; }
};

size_t context_of(const gguf::File& file, const EngineOptions& options) {
  const std::string key =
      std::string(file.require_string("general.architecture")) + ".context_length";
  const size_t most = file.get_uint(key).value_or(0);
  return options.max_context == 0 ? most : std::min(most, options.max_context);
}

size_t context_cap(const ContextOptions& wanted, size_t max_context) {
  return wanted.max_context == 0 ? max_context : std::min(wanted.max_context, max_context);
}

// The course of a sequence's context. Throws Error when the sizes make no sense, or the prompt
// could not be kept by a compaction that the answer asked for may need.
context::Course course_of(size_t n_prompt, const SequenceOptions& options, size_t max_context) {
  const ContextOptions& wanted = options.context;
  const size_t top = context_cap(wanted, max_context);
  context::Course course = {
      wanted.sizes.empty() ? context::Ladder(top) : context::Ladder(wanted.sizes, top),
      wanted.policy, wanted.compaction, n_prompt};
  const size_t most = course.ladder.top();
  const bool may_overflow =
      options.max_new_tokens > 0 &&
      static_cast<size_t>(options.max_new_tokens) > most - std::min(n_prompt, most);
  if (wanted.policy != context::OverflowPolicy::kStop && may_overflow &&
      n_prompt > context::longest_anchor(most)) {
    throw Error(ErrorCode::kTooLarge,
                "the prompt has " + std::to_string(n_prompt) +
                    " tokens, more than half of the context of " + std::to_string(most) +
                    ", so the answer asked for cannot go on past it; shorten the prompt, ask for "
                    "fewer tokens or allow a larger context");
  }
  return course;
}

// Of one sequence: whole blocks, and one more at each end of a gap.
size_t most_positions(size_t n) {
  constexpr size_t kBlock = kv::kBlockPositions;
  return ((n + kBlock - 1) / kBlock + 2) * kBlock;
}

}  // namespace

const char* finish_reason_name(FinishReason reason) noexcept {
  return reason == FinishReason::kStop ? "stop" : "length";
}

Engine::Engine(const std::string& path, const EngineOptions& options)
    : Engine(gguf::File::open(path), options) {}

Engine::Engine(gguf::File file, const EngineOptions& options)
    : file_(std::move(file)),
      max_context_(context_of(file_, options)),
      kernels_(options.kernels != nullptr ? options.kernels : &kernels::select_table()),
      team_(options.n_threads > 0 ? options.n_threads : cpu::usable_cores()),
      packed_(*kernels_, options.pack_weights ? arch::most_packed_bytes(file_) : 0,
              [this](std::span<const std::byte> bytes) { file_.release(bytes); }),
      model_(arch::load_model(file_, {.max_context = max_context_,
                                      .packed = options.pack_weights ? &packed_ : nullptr})),
      cache_(model_->info().kv, most_positions(max_context_) * options.max_sequences,
             options.kv_type),
      n_batch_(std::max<size_t>(1, options.n_batch)),
      max_sequences_(options.max_sequences) {
  prepare();
  const auto n_tokens = static_cast<size_t>(tokenizer_->n_tokens());
  if (n_tokens > model_->info().n_vocab) {
    throw Error(ErrorCode::kInvalidInput, file_.path() + ": the vocabulary has " +
                                              std::to_string(n_tokens) +
                                              " tokens, but tensor token_embd.weight only " +
                                              std::to_string(model_->info().n_vocab));
  }
}

// One thread reads the vocabulary while the others begin to pack.
void Engine::prepare() {
  std::exception_ptr error;
  team_.run([&](int member) {
    try {
      if (member == 0) tokenizer_.emplace(tokenizer::Tokenizer::load(file_));
    } catch (...) {
      error = std::current_exception();
    }
    packed_.pack();
  });
  if (error) std::rethrow_exception(error);
}

MemoryUse Engine::memory() const noexcept {
  return {.file = file_.n_bytes(),
          .packed = packed_.n_bytes(),
          .kv_reserved = cache_.bytes_reserved(),
          .kv_in_use = cache_.bytes_in_use(),
          .kv_most = cache_.most_bytes_in_use(),
          .scratch = arena_.n_bytes()};
}

void Engine::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.empty())
    throw Error(ErrorCode::kInvalidInput, "the prompt is empty; give at least one token");
  for (const int32_t token : tokens) {
    if (!tokenizer_->has(token)) {
      throw Error(ErrorCode::kInvalidInput, "token id " + std::to_string(token) +
                                                " is not in the vocabulary of " +
                                                std::to_string(tokenizer_->n_tokens()) + " tokens");
    }
  }
}

std::shared_ptr<const Sequence> Engine::start(std::vector<int32_t> prompt,
                                              const SequenceOptions& options) {
  check_tokens(prompt);
  context::Course course = course_of(prompt.size(), options, max_context_);
  const size_t rung = course.ladder.first(prompt.size());
  if (running_.size() == max_sequences_) {
    throw Error(ErrorCode::kTooLarge,
                std::to_string(max_sequences_) + " sequences are running, which is the limit");
  }
  SamplingOptions sampling = options.sampling;
  for (const int32_t token : tokenizer_->suppressed()) {
    sampling.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  Sampler sampler(sampling, tokenizer_->n_tokens(), prompt);
  auto sequence = std::make_shared<Sequence>(cache_, std::move(prompt), options, std::move(sampler),
                                             std::move(course), rung);
  running_.push_back(sequence);
  return sequence;
}

void Engine::finish(const Sequence& sequence, FinishReason reason) {
  for (const std::shared_ptr<Sequence>& candidate : running_) {
    if (candidate.get() != &sequence) continue;
    const std::shared_ptr<Sequence> kept = candidate;
    return end(*kept, reason);
  }
}

void Engine::end(Sequence& sequence, FinishReason reason) {
  sequence.finish_reason_ = reason;
  sequence.context_.clear();
  std::erase_if(running_, [&](const std::shared_ptr<Sequence>& candidate) {
    return candidate.get() == &sequence;
  });
  if (running_.empty()) cache_.trim();
}

// Before the sequence's waiting tokens are evaluated: another rung, or a compaction.
void Engine::make_room(Sequence& sequence) {
  const Clock::time_point start = Clock::now();
  SequenceContext& context = sequence.context_;
  const context::Decision next = context.next(sequence.n_pending());
  if (next.step == context::Step::kWrite) return;
  BILLOW_CHECK(next.step != context::Step::kStop);  // sample() has ended it
  SequenceEvent event;
  event.event = {next.step,        context.rung(),         next.rung,
                 context.n_held(), sequence.n_generated(), next.compaction};
  const double seconds = std::chrono::duration<double>(sequence.decode_time_).count();
  event.decode_rate = seconds > 0.0 ? static_cast<double>(sequence.n_decoded_) / seconds : 0.0;
  context.grow(next.rung);
  if (next.step == context::Step::kCompact) {
    context.compact(next.compaction);
    if (context.n_held() == 0) sequence.refill_start_ = start;
  }
  event.time = Clock::now() - start;
  sequence.events_.push_back(event);
}

std::vector<Engine::Token> Engine::step(size_t max_rows) {
  const Clock::time_point start = Clock::now();
  std::vector<size_t> n_pending;
  for (const auto& sequence : running_) {
    make_room(*sequence);
    n_pending.push_back(sequence->n_pending());
  }
  const std::vector<Share> shares = plan_batch(n_pending, std::min(n_batch_, max_rows), n_steps_++);
  StepRows rows;
  std::vector<std::shared_ptr<Sequence>>
      complete;  // those whose tokens are all evaluated after this step
  for (const Share& share : shares) {
    const std::shared_ptr<Sequence>& sequence = running_[share.sequence];
    const bool taken = sequence->context_.take(share.n_rows);
    BILLOW_CHECK(taken);  // the cache has room for max_sequences_ of max_context_
    rows.add(sequence->context_, share.n_rows, sequence->tokens_);
    if (sequence->n_pending() > 0) continue;
    complete.push_back(sequence);
    rows.logit_rows.push_back(static_cast<uint32_t>(rows.tokens.size() - 1));
  }
  std::vector<Token> out;
  if (shares.empty()) return out;
  const tensor::ArenaScope scope(arena_);
  const tensor::Matrix logits = arena_.matrix(rows.logit_rows.size(), model().n_vocab);
  model_->forward(compute(), cache_, rows.view(), logits);
  for (const Share& share : shares) note_time(*running_[share.sequence], share.n_rows, start);
  for (size_t i = 0; i < complete.size(); ++i)
    sample(complete[i], {logits.row(i), logits.n_cols}, out);
  return out;
}

void Engine::note_time(Sequence& sequence, size_t n_rows, Clock::time_point start) {
  const Clock::time_point now = Clock::now();
  if (sequence.refill_start_) {
    if (sequence.n_pending() > 0) return;
    sequence.events_.back().time = now - *sequence.refill_start_;
    sequence.refill_start_.reset();
  } else if (n_rows == 1 && sequence.n_generated() > 0) {
    ++sequence.n_decoded_;
    sequence.decode_time_ += now - start;
  }
}

void Engine::sample(const std::shared_ptr<Sequence>& sequence, std::span<const float> logits,
                    std::vector<Token>& out) {
  const SequenceOptions& options = sequence->options_;
  if (options.max_new_tokens == 0) return end(*sequence, FinishReason::kLength);
  // Rows of the embedding beyond the vocabulary are padding.
  Sampled sampled =
      sequence->sampler_.sample(logits.first(static_cast<size_t>(tokenizer_->n_tokens())));
  const int32_t token = sampled.token;
  const bool is_end = !options.ignore_eos && tokenizer_->is_end_of_generation(token);
  out.push_back({sequence, std::move(sampled), is_end});
  if (is_end) return end(*sequence, FinishReason::kStop);
  sequence->sampler_.accept(token);
  sequence->tokens_.push_back(token);
  const bool enough = options.max_new_tokens > 0 &&
                      sequence->n_generated() >= static_cast<size_t>(options.max_new_tokens);
  const bool full = sequence->context_.next(1).step == context::Step::kStop;
  if (enough || full) end(*sequence, FinishReason::kLength);
}

void Engine::evaluate(std::span<const int32_t> tokens, size_t first,
                      const std::function<void(size_t i, std::span<const float> logits)>& each,
                      const TextOptions& options) {
  check_tokens(tokens);
  const size_t top = context_cap(options.context, max_context_);
  if (tokens.size() > top && options.context.policy == context::OverflowPolicy::kStop) {
    throw Error(ErrorCode::kTooLarge, std::to_string(tokens.size()) +
                                          " tokens exceed the context of " + std::to_string(top));
  }
  const size_t n_anchor = std::min(options.n_anchor, context::longest_anchor(top));
  SequenceContext context(
      cache_, {context::Ladder(top), options.context.policy, options.context.compaction, n_anchor},
      top);
  // Few rows at a time: a row of logits may be a megabyte.
  constexpr size_t kRowsAtOnce = 128;
  for (size_t done = 0; done < tokens.size();) {
    const size_t next = context.n_held() + context.n_dropped();  // of what is to be evaluated
    if (context.n_held() == top) {
      context.compact(context.next(1).compaction);
      continue;
    }
    const bool wanted = next >= std::max(done, first);  // a refill evaluates what is done again
    const size_t end = wanted ? tokens.size() : std::max(done, std::min(first, tokens.size()));
    const size_t n =
        std::min({wanted ? kRowsAtOnce : SIZE_MAX, n_batch_, top - context.n_held(), end - next});
    if (!context.take(n))
      throw Error(ErrorCode::kOutOfMemory, "all KV memory is in use by running sequences");
    StepRows rows;
    rows.add(context, n, tokens);
    for (size_t i = 0; i < n && wanted; ++i) rows.logit_rows.push_back(static_cast<uint32_t>(i));
    const tensor::ArenaScope scope(arena_);
    const tensor::Matrix logits = arena_.matrix(rows.logit_rows.size(), model().n_vocab);
    model_->forward(compute(), cache_, rows.view(), logits);
    for (size_t i = 0; i < rows.logit_rows.size(); ++i)
      each(next + i, {logits.row(i), logits.n_cols});
    done = std::max(done, next + n);
  }
}

}  // namespace billow::engine
