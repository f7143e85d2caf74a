#include "engine/sampling/options.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "base/error.h"

namespace billow::engine {
namespace {

struct Rule {
  const char* field;
  double value;
  bool holds;
  const char* range;
};

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

void require(const Rule& rule) {
  if (rule.holds) return;
  throw Error(ErrorCode::kInvalidInput, std::string("option ") + rule.field + " is " +
                                            number_text(rule.value) + ", but must be " +
                                            rule.range);
}

// Returns false for NaN.
bool within(double value, double low, double high) noexcept {
  return value >= low && value <= high;
}

}  // namespace

void SamplingOptions::validate() const {
  constexpr const char* kFraction = "from 0 to 1";
  constexpr const char* kFinite = "a finite number";
  const Rule rules[] = {
      {"temperature", temperature, std::isfinite(temperature), kFinite},
      {"top_k", static_cast<double>(top_k), top_k >= -1, "-1 or 0 (off) or a positive number"},
      {"top_p", top_p, within(top_p, 0, 1), kFraction},
      {"min_p", min_p, within(min_p, 0, 1), kFraction},
      {"typical_p", typical_p, within(typical_p, 0, 1), kFraction},
      {"repeat_last_n", static_cast<double>(repeat_last_n), repeat_last_n >= -1,
       "-1 (the whole context), 0 (off) or a positive number"},
      {"repeat_penalty", repeat_penalty, std::isfinite(repeat_penalty) && repeat_penalty > 0,
       "a finite number above 0"},
      {"presence_penalty", presence_penalty, std::isfinite(presence_penalty), kFinite},
      {"frequency_penalty", frequency_penalty, std::isfinite(frequency_penalty), kFinite},
      {"mirostat", static_cast<double>(mirostat), within(mirostat, 0, 2), "0 (off), 1 or 2"},
      {"mirostat_tau", mirostat_tau, within(mirostat_tau, 0, 100), "from 0 to 100"},
      {"mirostat_eta", mirostat_eta, within(mirostat_eta, 0, 1), kFraction},
      {"top_logprobs", static_cast<double>(top_logprobs), within(top_logprobs, 0, 20),
       "from 0 to 20"},
  };
  for (const Rule& rule : rules) require(rule);
  for (const LogitBias& entry : logit_bias) {
    require({"logit_bias (token)", static_cast<double>(entry.token), entry.token >= 0,
             "a token of the vocabulary"});
    const bool holds = std::isfinite(entry.bias) || (std::isinf(entry.bias) && entry.bias < 0);
    require({"logit_bias (bias)", entry.bias, holds, "a finite number or -infinity"});
  }
}

}  // namespace billow::engine
