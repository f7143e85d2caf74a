#include "cli/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/json.h"
#include "engine/event_text.h"

namespace billow::cli {
namespace {

// Returns n per second; 0 if nothing was done.
double rate(size_t n, std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return n > 0 && seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0;
}

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double decode_rate(const Answer& answer) {
  RungUse all;
  for (const RungUse& use : answer.rungs) {
    all.n_decoded += use.n_decoded;
    all.decode_time += use.decode_time;
  }
  return rate(all.n_decoded, all.decode_time);
}

// Returns the rate of all tokens after the first, including the time of events.
double rate_with_events(const Answer& answer) {
  return rate(answer.tokens.empty() ? 0 : answer.tokens.size() - 1, answer.answer_time);
}

size_t all_evaluated_again(const Answer& answer) {
  size_t n = 0;
  for (const engine::SequenceEvent& event : answer.events) n += evaluated_again(event);
  return n;
}

double evaluated_again_per_token(const Answer& answer) {
  return static_cast<double>(all_evaluated_again(answer)) /
         static_cast<double>(std::max<size_t>(1, answer.tokens.size()));
}

std::string list_of_events(const char* name, const Answer& answer, context::Step step) {
  std::string lines;
  for (const engine::SequenceEvent& event : answer.events) {
    if (event.event.step == step) lines += "  " + event_summary(event) + "\n";
  }
  return lines.empty() ? fmt::format("{}: (none)\n", name) : fmt::format("{}:\n{}", name, lines);
}

}  // namespace

std::string summary_text(const Answer& answer, size_t kv_max) {
  std::string out = "=== Summary ===\n";
  out += fmt::format("prompt_tokens={}\nstop_reason={}\n", answer.n_prompt, answer.stop_reason);
  out += fmt::format("prefill={:.1f}ms ({:.1f} t/s) context={}\n", milliseconds(answer.prompt_time),
                     rate(answer.n_prefilled, answer.prompt_time), answer.rungs.front().rung);
  out += fmt::format("decode_tokens={} decode_tps={:.1f} final_context={}\n", answer.tokens.size(),
                     decode_rate(answer), answer.rungs.back().rung);
  out += list_of_events("transitions", answer, context::Step::kGrow);
  out += list_of_events("compactions", answer, context::Step::kCompact);
  out += fmt::format("decode_tps_with_events={:.1f}\n", rate_with_events(answer));
  out += "tokens_per_context:\n";
  for (const RungUse& use : answer.rungs) {
    out += fmt::format("  ctx{} tokens={} decode_tps={:.1f}\n", use.rung, use.n_tokens,
                       rate(use.n_decoded, use.decode_time));
  }
  out += fmt::format("tokens_evaluated_again={} per_generated_token={:.3f}\n",
                     all_evaluated_again(answer), evaluated_again_per_token(answer));
  out += fmt::format("peak_kv_memory={}\n", format_byte_size(kv_max));
  out += fmt::format("drafted_tokens={} accepted={}\n", answer.n_drafted, answer.n_draft_accepted);
  return out;
}

Json summary_json(const Answer& answer, size_t kv_max) {
  Json rungs = Json::array();
  for (const RungUse& use : answer.rungs) {
    rungs.push_back({{"context", use.rung},
                     {"tokens", use.n_tokens},
                     {"decode_tps", rate(use.n_decoded, use.decode_time)}});
  }
  const auto n_events = [&](context::Step step) {
    return std::ranges::count_if(answer.events, [&](const engine::SequenceEvent& event) {
      return event.event.step == step;
    });
  };
  return {{"prompt_tokens", answer.n_prompt},
          {"stop_reason", answer.stop_reason},
          {"prefill_ms", milliseconds(answer.prompt_time)},
          {"prefill_tps", rate(answer.n_prefilled, answer.prompt_time)},
          {"context", answer.rungs.front().rung},
          {"decode_tokens", answer.tokens.size()},
          {"decode_tps", decode_rate(answer)},
          {"final_context", answer.rungs.back().rung},
          {"drafted_tokens", answer.n_drafted},
          {"draft_tokens_accepted", answer.n_draft_accepted},
          {"transitions", n_events(context::Step::kGrow)},
          {"compactions", n_events(context::Step::kCompact)},
          {"decode_tps_with_events", rate_with_events(answer)},
          {"tokens_per_context", std::move(rungs)},
          {"tokens_evaluated_again", all_evaluated_again(answer)},
          {"tokens_evaluated_again_per_token", evaluated_again_per_token(answer)},
          {"peak_kv_bytes", kv_max}};
}

}  // namespace billow::cli
