#include "runner/meter.h"

#include <algorithm>

namespace billow::runner {
namespace {

using std::chrono::nanoseconds;

double per_second(size_t n, nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0;
}

}  // namespace

int64_t Meter::index_of(Clock::time_point time) const {
  return std::chrono::floor<std::chrono::seconds>(time - began_).count();
}

// Returns the entry of a second. Clears it first if it has an older second.
Meter::Second& Meter::second(Seconds& seconds, int64_t index) const {
  Second& found = seconds[static_cast<size_t>(index % kSeconds)];
  if (found.index != index) found = {.index = index};
  return found;
}

// Splits a busy period into seconds. Ignores seconds that are too old.
void Meter::add_busy(Seconds& seconds, Clock::time_point begin, Clock::time_point end) const {
  const int64_t last = index_of(end);
  for (int64_t i = std::max(index_of(begin), last - kSeconds + 1); i <= last; ++i) {
    const Clock::time_point from = began_ + std::chrono::seconds(i);
    second(seconds, i).busy +=
        std::min(end, from + std::chrono::seconds(1)) - std::max(begin, from);
  }
}

void Meter::end_pass(Clock::time_point now, size_t n_prompt, size_t n_decoded) {
  in_pass_ = false;
  add_busy(seconds_, pass_began_, now);
  Second& last = second(seconds_, index_of(now));
  last.n_prompt += n_prompt;
  last.n_decoded += n_decoded;
  if (n_prompt != 0) last.prompt_time += now - pass_began_;
  if (n_decoded != 0) last.decode_time += now - pass_began_;
}

LoopRates Meter::rates(Clock::time_point now) const {
  Seconds seconds = seconds_;
  if (in_pass_) add_busy(seconds, pass_began_, now);
  Second sum;
  const int64_t first = std::max<int64_t>(0, index_of(now) - kSeconds + 1);
  for (const Second& one : seconds) {
    if (one.index < first) continue;
    sum.busy += one.busy;
    sum.prompt_time += one.prompt_time;
    sum.decode_time += one.decode_time;
    sum.n_prompt += one.n_prompt;
    sum.n_decoded += one.n_decoded;
  }
  const nanoseconds observed = now - (began_ + std::chrono::seconds(first));
  LoopRates rates;
  if (observed.count() > 0) {
    rates.busy = std::min(
        1.0, static_cast<double>(sum.busy.count()) / static_cast<double>(observed.count()));
  }
  rates.prompt_tokens = per_second(sum.n_prompt, sum.prompt_time);
  rates.decoded_tokens = per_second(sum.n_decoded, sum.decode_time);
  return rates;
}

}  // namespace billow::runner
