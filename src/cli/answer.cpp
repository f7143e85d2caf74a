#include "cli/answer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/interrupt.h"
#include "engine/event_text.h"
#include "engine/generation.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

class AnswerWriter {
 public:
  AnswerWriter(engine::Engine& engine, std::vector<int32_t> prompt, const AnswerSettings& settings,
               Console& console, Trace* trace)
      : engine_(engine),
        settings_(settings),
        console_(console),
        trace_(trace),
        generation_(engine, std::move(prompt), options_of(engine, settings), settings.stop),
        sequence_(generation_.sequence()) {
    answer_.rungs.push_back({.rung = sequence_.rung()});
  }

  Answer write() {
    while (!generation_.finished()) {
      const std::vector<engine::Engine::Token> made = engine_.step();
      note_step(!made.empty());
      for (const engine::Engine::Token& token : made) take(token);
      show_progress();
      if (!generation_.finished()) end_if_due();
    }
    show_events();
    show(generation_.finish());
    complete();
    return std::move(answer_);
  }

 private:
  static engine::SequenceOptions options_of(const engine::Engine& engine,
                                            const AnswerSettings& settings) {
    engine::SequenceOptions options = settings.sequence;
    if (settings.constraint)
      options.guide =
          std::make_shared<constraint::Guide>(engine.vocabulary(), *settings.constraint);
    return options;
  }

  void note_step(bool chose_token) {
    now_ = Clock::now();
    if (!first_ && (chose_token || generation_.finished())) first_ = now_;
    if (answer_.rungs.back().rung != sequence_.rung())
      answer_.rungs.push_back({.rung = sequence_.rung()});
    if (sequence_.decode_time() == decode_time_) return;  // this step decoded nothing
    RungUse& use = answer_.rungs.back();
    use.n_decoded += sequence_.n_decoded() - n_decoded_;
    n_decoded_ = sequence_.n_decoded();
    use.decode_time += sequence_.decode_time() - decode_time_;
    decode_time_ = sequence_.decode_time();
  }

  void take(const engine::Engine::Token& token) {
    show_events();
    if (generation_.has_ended()) return;
    if (token.is_end) {
      is_end_of_text_ = true;
    } else {
      ++answer_.rungs.back().n_tokens;
      if (settings_.sequence.sampling.logprobs) answer_.sampled.push_back(token.sampled);
      if (trace_ != nullptr) {
        // A step can return several tokens. The tokens before this one are already evaluated.
        const size_t n_before =
            sequence_.n_prompt() + generation_.tokens().size() - sequence_.n_dropped();
        trace_->add({now_ - *first_, std::min(sequence_.n_evaluated(), n_before), sequence_.rung(),
                     engine_.memory()});
      }
    }
    show(generation_.accept(token));
  }

  // Shows new events. Call it after a step that chose a token: such a step has completed a refill,
  // so the time of its event is known.
  void show_events() {
    for (; n_shown_ < sequence_.events().size(); ++n_shown_) {
      if (settings_.live_events) console_.event(event_line(sequence_.events()[n_shown_]));
    }
  }

  void show(const std::string& text) {
    answer_.text += text;
    console_.text(text);
  }

  void show_progress() {
    const Clock::time_point since = first_.value_or(start_);
    const size_t n = first_ ? sequence_.n_generated() : sequence_.n_evaluated();
    const double seconds = std::chrono::duration<double>(now_ - since).count();
    console_.progress({sequence_.n_evaluated(), sequence_.rung(),
                       seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0, engine_.kv_bytes()});
  }

  void end_if_due() {
    answer_.signal = interrupt_.signal();
    if (answer_.signal != 0) cut_short_ = "interrupted";
    if (!cut_short_ && settings_.max_time && now_ - start_ >= *settings_.max_time)
      cut_short_ = "max-time";
    if (cut_short_) engine_.finish(sequence_, engine::FinishReason::kLength);
  }

  const char* stop_reason() const {
    if (cut_short_) return cut_short_;
    if (generation_.finish_reason() == engine::FinishReason::kStop) {
      const bool is_complete = sequence_.guide() != nullptr && sequence_.guide()->done();
      if (is_complete && !generation_.has_ended()) return "grammar-complete";
      return is_end_of_text_ ? "end-of-text" : "stop-string";
    }
    if (generation_.finish_reason() == engine::FinishReason::kNoMemory) return "out-of-memory";
    if (generation_.finish_reason() == engine::FinishReason::kFailed) return "failed";
    const int64_t max = settings_.sequence.max_new_tokens;
    const bool enough = max >= 0 && sequence_.n_generated() >= static_cast<size_t>(max);
    return enough ? "max-tokens" : "context-full";
  }

  void complete() {
    const Clock::time_point end = Clock::now();
    const Clock::time_point first = first_.value_or(end);
    answer_.n_prompt = sequence_.n_prompt();
    answer_.n_prefilled = first_ ? answer_.n_prompt : sequence_.n_evaluated();
    answer_.tokens.assign(generation_.tokens().begin(), generation_.tokens().end());
    answer_.seed = sequence_.seed();
    answer_.done_reason = engine::finish_reason_name(generation_.finish_reason());
    answer_.stop_reason = stop_reason();
    answer_.error = generation_.error();
    answer_.n_drafted = sequence_.n_drafted();
    answer_.n_draft_accepted = sequence_.n_draft_accepted();
    if (sequence_.guide() != nullptr) answer_.guide = sequence_.guide()->stats();
    answer_.prompt_time = first - start_;
    answer_.answer_time = end - first;
    answer_.events.assign(sequence_.events().begin(), sequence_.events().end());
  }

  engine::Engine& engine_;
  const AnswerSettings& settings_;
  Console& console_;
  Trace* trace_;
  Interrupt interrupt_;
  Clock::time_point start_ = Clock::now();
  engine::Generation generation_;
  const engine::Sequence& sequence_;
  Answer answer_;
  Clock::time_point now_ = start_;
  std::optional<Clock::time_point> first_;  // when the first token arrived
  std::chrono::nanoseconds decode_time_{};  // of the sequence after the last step
  size_t n_decoded_ = 0;                    // of the sequence after the last step
  size_t n_shown_ = 0;                      // events shown so far
  bool is_end_of_text_ = false;
  const char* cut_short_ = nullptr;  // why the answer was cut short; null: it was not
};

}  // namespace

Answer write_answer(engine::Engine& engine, std::vector<int32_t> prompt,
                    const AnswerSettings& settings, Console& console, Trace* trace) {
  return AnswerWriter(engine, std::move(prompt), settings, console, trace).write();
}

}  // namespace billow::cli
