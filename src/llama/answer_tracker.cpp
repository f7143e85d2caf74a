#include "llama/answer_tracker.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/base64.h"
#include "base/error.h"

namespace billow::llama {
namespace {

context::Ladder ladder_of(const engine::ContextOptions& options, size_t max_context) {
  const size_t top =
      options.max_context == 0 ? max_context : std::min(options.max_context, max_context);
  return options.sizes.empty() ? context::Ladder(top) : context::Ladder(options.sizes, top);
}

int64_t seed_of(int64_t wanted) {
  return wanted >= 0 ? wanted : static_cast<int64_t>(std::random_device{}());
}

size_t rows_of(const std::vector<context::PromptImage>& images) {
  size_t n = 0;
  for (const context::PromptImage& image : images) n += image.n_rows;
  return n;
}

std::vector<WireImage> wire_images(std::vector<context::PromptImage>& images) {
  std::vector<WireImage> out;
  for (context::PromptImage& image : images)
    out.push_back(
        {.text_at = image.text_at, .base64 = base64_encoded(std::exchange(image.png, {}))});
  return out;
}

void check(const runner::AnswerRequest& request) {
  if (request.options.scores_prompt) {
    throw Error(ErrorCode::kUnsupported,
                "log probabilities of the prompt are not available: this model runs on "
                "llama-server");
  }
  if (request.constraint) check_grammar(request.constraint->grammar);
}

}  // namespace

AnswerTracker::AnswerTracker(runner::AnswerRequest request, const tokenizer::Tokenizer& tokenizer,
                             size_t max_context)
    : request_(std::move(request)),
      tokenizer_(tokenizer),
      context_plan_{.ladder = ladder_of(request_.options.context, max_context),
                    .policy = context::possible_policy(request_.options.context.policy, false),
                    .compaction = request_.options.context.compaction,
                    .n_anchor = request_.prompt.size() + rows_of(request_.images)},
      text_(tokenizer, request_.stop, request_.max_repeats, request_.markers),
      rung_(context_plan_.ladder.first(context_plan_.n_anchor)),
      max_context_(max_context),
      n_rows_(rows_of(request_.images)),
      images_(wire_images(request_.images)),
      context_(request_.prompt),
      seed_(seed_of(request_.options.sampling.seed)),
      phase_(first_phase()) {
  check(request_);
  if (request_.prompt.empty() && images_.empty())
    throw Error(ErrorCode::kInvalidInput, "the prompt has no tokens");
  for (const int32_t token : request_.prompt) {
    if (!tokenizer.has(token))
      throw Error(ErrorCode::kInvalidInput,
                  "token " + std::to_string(token) + " of the prompt is not in the vocabulary");
  }
  context::check_anchor(context_plan_, request_.options.max_new_tokens);
  if (request_.ends_repetition) text_.end_repetition();
  if (phase_ == Phase::kConstrained) rung_ = std::max(rung_, rung_of_constrained());
}

size_t AnswerTracker::rung_of_constrained() const noexcept {
  const size_t top = context_plan_.ladder.top();
  const size_t n = std::min(n_left(), kConstrainedTokens);
  return context_plan_.ladder.holding(std::min(top, length() + n));
}

AnswerTracker::Phase AnswerTracker::first_phase() const {
  if (!request_.constraint) return Phase::kPlain;
  if (request_.constraint->starts_after.empty()) return Phase::kConstrained;
  return request_.constraint->opens_with.empty() ? Phase::kFree : Phase::kOpening;
}

size_t AnswerTracker::n_left() const noexcept {
  const int64_t max = request_.options.max_new_tokens;
  if (max < 0) return SIZE_MAX;
  const size_t n_written = answer_.size() + opening_.size();
  return static_cast<size_t>(max) - std::min(static_cast<size_t>(max), n_written);
}

WireText AnswerTracker::wire_text(std::string_view media_marker) const {
  std::string text = request_.prompt_text;
  for (size_t i = request_.prompt.size(); i < context_.size(); ++i)
    text += tokenizer_.piece(context_[i], true);
  return {.text = std::move(text), .images = images_, .marker = media_marker};
}

Stretch AnswerTracker::stretch(std::string_view media_marker) const {
  const size_t room = rung_ - std::min(rung_, length()) + 1;
  const bool may_not_end =
      (phase_ == Phase::kFree || phase_ == Phase::kOpening) && !request_.constraint->may_not_start;
  return {.tokens = context_,
          .text = images_.empty() ? std::nullopt : std::optional(wire_text(media_marker)),
          .n_predict = std::min(room, n_left()),
          .sampling = &request_.options.sampling,
          .seed = static_cast<int64_t>(static_cast<uint64_t>(seed_) + n_stretches_),
          .ignore_eos = request_.options.ignore_eos || may_not_end,
          .grammar = phase_ == Phase::kConstrained ? &request_.constraint->grammar : nullptr,
          // llama-server's cache has no salts. Later stretches continue the text of this answer.
          .reads_cache = request_.options.salt == 0 || n_stretches_ > 0};
}

bool AnswerTracker::learn_length(size_t n_tokens) {
  if (images_.empty() || n_tokens < context_.size()) return false;
  if (!answer_.empty()) {
    const size_t before = std::exchange(n_extra_, 0);
    n_extra_ = n_tokens - std::min(n_tokens, length());
    if (length() > rung_) breaks_ = true;
    return n_extra_ != before;
  }
  n_prompt_reported_ = n_tokens;
  if (n_tokens == length()) return false;
  const size_t n_rows = n_tokens - context_.size();
  size_t& limit = request_.options.context.max_context;
  if (n_rows > n_rows_ && limit > 0) {
    // The context limit of the request assumed fewer rows, so the limit grows by the difference.
    limit = std::min(max_context_, limit) + (n_rows - n_rows_);
    context_plan_.ladder = ladder_of(request_.options.context, max_context_);
  }
  n_rows_ = n_rows;
  context_plan_.n_anchor = n_prompt();
  if (length() > context_plan_.ladder.top())
    throw Error(ErrorCode::kTooLarge, "the prompt has " + std::to_string(length()) +
                                          " tokens with its images, but the context has only " +
                                          std::to_string(context_plan_.ladder.top()));
  if (length() > rung_) breaks_ = true;
  return true;
}

runner::Chunk AnswerTracker::take(StretchEvent event) {
  runner::Chunk piece;
  if (breaks_off()) return piece;
  if (event.n_prompt && n_of_stretch_ == 0) {
    learn_length(*event.n_prompt);
    if (breaks_off()) return piece;
  }
  if (event.n_evaluated && n_stretches_ == 0) {
    n_cached_ = event.n_cached;
    piece.prefill.push_back({*event.n_evaluated, Clock::now() - begun_});
  }
  if (event.token) {
    if (event.n_tokens > n_of_stretch_ + 1)
      take_missing(event.text, event.n_tokens - n_of_stretch_ - 1, piece);
    n_of_stretch_ = std::max(event.n_tokens, n_of_stretch_ + 1);
    const int32_t token = event.token->token;
    if (!breaks_off()) take_token(token, *std::move(event.token), piece);
  }
  if (event.end && !breaks_off()) {
    n_unreported_ = event.n_tokens - std::min(n_of_stretch_, event.n_tokens);
    const bool is_silent = n_of_stretch_ + n_unreported_ == 0;
    if (event.end->is_end_token) {
      if (leaves_grammar(piece)) return piece;
      has_end_token_ = true;
      reason_ = engine::FinishReason::kStop;
    } else if (n_left() <= n_unreported_) {
      reason_ = engine::FinishReason::kLength;
    } else if (is_silent) {
      fail(engine::FinishReason::kFailed, "llama-server ended the answer before the first token");
    }
    if (ended())
      for (const engine::Sampled& sampled : std::exchange(opening_, {}))
        write(sampled.token, sampled, piece);
  }
  return piece;
}

// Finds tokens without an event. llama-server sends no event for a token that completes no
// character. The text of the token that completes the character begins with the missing bytes.
void AnswerTracker::take_missing(std::string_view text, size_t n, runner::Chunk& piece) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const std::string name = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    const int32_t token = tokenizer_.find(name);
    if (!tokenizer_.has(token)) break;
    tokens.push_back(token);
  }
  if (tokens.size() == text.size() && tokens.size() == n + 1) {
    tokens.pop_back();
  } else {
    tokens.clear();
    // The last token has at least one byte of the character.
    for (size_t n_bytes = text.size(); n_bytes-- > 1;) {
      tokens = tokenizer_.encode(text.substr(0, n_bytes), {.add_special = false});
      if (tokens.size() == n) break;
    }
  }
  for (const int32_t token : tokens) {
    if (breaks_off()) return;
    take_token(token, {.token = token}, piece);
  }
}

void AnswerTracker::take_token(int32_t token, engine::Sampled sampled, runner::Chunk& piece) {
  if (!tokenizer_.has(token)) {
    fail(engine::FinishReason::kFailed, "llama-server wrote a token that is not in the vocabulary");
    return;
  }
  if (!request_.options.ignore_eos && tokenizer_.is_end_of_generation(token)) {
    if (leaves_grammar(piece)) return;
    has_end_token_ = true;
    reason_ = engine::FinishReason::kStop;
    return;
  }
  if (phase_ == Phase::kOpening) {
    opening_.push_back(std::move(sampled));
    if (!is_opening()) return;
    for (const engine::Sampled& held : std::exchange(opening_, {})) {
      if (!ended()) write(held.token, held, piece);
      if (!breaks_off()) watch_for_start(held.token, piece);
    }
    return;
  }
  write(token, sampled, piece);
  if (phase_ == Phase::kFree && !ended()) watch_for_start(token, piece);
}

// Returns whether the answer has begun with `opens_with`. If the answer begins with other text,
// drops the text and restarts the answer with the grammar.
bool AnswerTracker::is_opening() {
  std::string text;
  for (const engine::Sampled& sampled : opening_) text += tokenizer_.piece(sampled.token, true);
  const std::string& wanted = request_.constraint->opens_with;
  if (text.size() >= wanted.size() && text.starts_with(wanted)) {
    phase_ = Phase::kFree;
    return true;
  }
  if (wanted.starts_with(text)) return false;
  opening_.clear();
  constrain();
  return false;
}

void AnswerTracker::watch_for_start(int32_t token, runner::Chunk& piece) {
  const constraint::Constraint& constraint = *request_.constraint;
  free_text_ += tokenizer_.piece(token, true);
  ++n_free_;
  const bool is_found = free_text_.find(constraint.starts_after) != std::string::npos;
  const bool is_late = constraint.starts_within != 0 && n_free_ >= constraint.starts_within;
  if (is_found || is_late) {
    if (!is_found) force(constraint.starts_after, piece);
    force(constraint.forced_next, piece);
    if (!ended()) constrain();
    return;
  }
  const size_t max = 2 * constraint::kMaxMarkerBytes;
  if (free_text_.size() > max) free_text_.erase(0, free_text_.size() - constraint::kMaxMarkerBytes);
}

void AnswerTracker::force(const std::string& text, runner::Chunk& piece) {
  for (const int32_t forced :
       tokenizer_.encode(text, {.add_special = false, .parse_special = true}))
    if (!ended()) write(forced, {.token = forced}, piece);
}

void AnswerTracker::constrain() {
  phase_ = Phase::kConstrained;
  n_constrained_ = 0;
  breaks_ = true;
}

// Called when the model ends its text. If the grammar may repeat, writes the text after it, and the
// next stretch is free. Returns false if the answer ends.
bool AnswerTracker::leaves_grammar(runner::Chunk& piece) {
  if (phase_ != Phase::kConstrained || n_constrained_ == 0) return false;
  const std::string& closer = request_.constraint->repeats_after;
  const std::vector<int32_t> tokens =
      tokenizer_.encode(closer, {.add_special = false, .parse_special = true});
  const auto is_end = [this](int32_t token) { return tokenizer_.is_end_of_generation(token); };
  if (tokens.empty() || std::ranges::any_of(tokens, is_end)) return false;
  phase_ = Phase::kFree;
  free_text_.clear();
  n_unreported_ = 0;
  force(closer, piece);
  breaks_ = true;
  return true;
}

void AnswerTracker::write(int32_t token, const engine::Sampled& sampled, runner::Chunk& piece) {
  if (!first_) first_ = Clock::now();
  context_.push_back(token);
  answer_.push_back(token);
  if (phase_ == Phase::kConstrained) ++n_constrained_;
  const std::string text = text_.accept(token);
  for (const engine::TextMark& mark : text_.marks())
    piece.marks.push_back({piece.text.size() + mark.offset, mark.length});
  piece.text += text;
  if (request_.options.sampling.logprobs) {
    engine::Sampled score = sampled;
    const auto max = static_cast<size_t>(request_.options.sampling.top_logprobs);
    if (score.top.size() > max) score.top.resize(max);
    scores_.add(std::move(score));
    scores_.take(text_.n_shown(), piece.sampled);
  }
  if (text_.end()) reason_ = text_.end();
  if (n_left() == 0 && !reason_) reason_ = engine::FinishReason::kLength;
}

context::Decision AnswerTracker::next() const {
  if (length() > rung_ && answer_.empty())  // the images have more rows than estimated
    return {.step = context::Step::kGrow,
            .rung = context_plan_.ladder.holding(length()),
            .compaction = {}};
  if (phase_ == Phase::kConstrained) {
    if (n_constrained_ > 0) return {.step = context::Step::kStop, .rung = rung_, .compaction = {}};
    const size_t rung = std::max(rung_, rung_of_constrained());
    if (rung > rung_) return {.step = context::Step::kGrow, .rung = rung, .compaction = {}};
  }
  return context::decide(context_plan_, rung_, length() - 1 + n_unreported_);
}

context::Decision AnswerTracker::without_growth() const {
  if (length() > rung_ && answer_.empty())
    throw Error(ErrorCode::kOutOfMemory, "not enough memory for the prompt, which has " +
                                             std::to_string(length()) + " tokens with its images");
  context::ContextPlan context_plan = context_plan_;
  context_plan.ladder = context::Ladder(rung_);
  return context::decide(context_plan, rung_, length() - 1 + n_unreported_);
}

runner::Chunk AnswerTracker::apply(const context::Decision& decision, std::chrono::nanoseconds time,
                                   bool restarts) {
  runner::Chunk piece;
  ++n_stretches_;
  n_of_stretch_ = n_unreported_ = 0;
  breaks_ = false;
  if (decision.step == context::Step::kWrite) return piece;
  if (decision.step == context::Step::kStop) {
    reason_ = engine::FinishReason::kLength;
    return piece;
  }
  const bool compacts = decision.step == context::Step::kCompact;
  engine::SequenceEvent event = {.event = {.step = decision.step,
                                           .from = rung_,
                                           .to = decision.rung,
                                           .n_held = length() - 1,
                                           .n_generated = answer_.size(),
                                           .compaction = decision.compaction},
                                 .time = time,
                                 .decode_rate = decode_rate(),
                                 .refills = compacts,
                                 .restarts = restarts};
  if (compacts) {
    // The anchor is the prompt with the rows of its images. context_ has no such rows. The latest
    // token always stays.
    const size_t begin = decision.compaction.anchor - n_rows_;
    const size_t n_max = context_.size() - std::min(context_.size(), begin + 1);
    const size_t n_dropped = std::min(decision.compaction.drop, n_max);
    if (n_dropped == 0) reason_ = engine::FinishReason::kLength;  // there is no room
    const auto first = context_.begin() + static_cast<std::ptrdiff_t>(begin);
    context_.erase(first, first + static_cast<std::ptrdiff_t>(n_dropped));
    n_extra_ = 0;
  }
  rung_ = decision.rung;
  piece.events.push_back(event);
  return piece;
}

runner::Chunk AnswerTracker::finish() {
  runner::Chunk piece;
  piece.text = text_.finish();
  scores_.take(text_.n_shown(), piece.sampled);
  return piece;
}

void AnswerTracker::fail(engine::FinishReason reason, std::string error) {
  reason_ = reason;
  error_ = std::move(error);
}

double AnswerTracker::decode_rate() const {
  if (!first_) return 0;
  const double seconds = std::chrono::duration<double>(Clock::now() - *first_).count();
  return seconds > 0 ? static_cast<double>(answer_.size()) / seconds : 0;
}

runner::AnswerEnd AnswerTracker::end() const {
  const Clock::time_point now = Clock::now();
  const Clock::time_point first = first_.value_or(now);
  return {.reason = reason_.value_or(engine::FinishReason::kStop),
          .cancelled = false,
          .error = error_,
          .stop_string = std::string(text_.stop_string()),
          .n_prompt = n_prompt_reported_.value_or(n_prompt()),
          .n_shared = std::min(n_cached_, n_prompt()),
          .seed = seed_,
          .tokens = answer_,
          .n_sampled = answer_.size() + (has_end_token_ ? 1 : 0),
          .queued = {},
          .prompted = first - begun_,
          .written = now - first,
          .guide = {}};
}

}  // namespace billow::llama
