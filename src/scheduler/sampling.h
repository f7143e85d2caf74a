// How a runner is to choose tokens, as a request and its model say. Plain data and its form as
// JSON, under Ollama's names; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_fwd.h"

namespace billow::scheduler {

// Added to a token's logit. Unset: the token is banned.
struct LogitBias {
  int32_t token = 0;
  std::optional<float> bias{};
  bool operator==(const LogitBias&) const = default;
};

// What is unset is the runner's default: see engine/sampling/options.h, which also has the ranges.
struct Sampling {
  std::optional<double> temperature{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> typical_p{};
  std::optional<double> repeat_penalty{};
  std::optional<double> presence_penalty{};
  std::optional<double> frequency_penalty{};
  std::optional<double> mirostat_tau{};
  std::optional<double> mirostat_eta{};
  std::optional<int64_t> top_k{};
  std::optional<int64_t> repeat_last_n{};
  std::optional<int64_t> mirostat{};
  std::optional<int64_t> seed{};
  std::vector<LogitBias> logit_bias{};
  bool operator==(const Sampling&) const = default;
};

// A number as a whole one: without its fraction, and within the range of the type.
// REQUIRES: value is a number.
int64_t whole_number(const Json& value);
// Reads the members that it knows; others, nulls and what is no number are disregarded. Whole
// numbers may come with a fraction, which does not count. `logit_bias` is not read.
Sampling sampling_of(const Json& options);
// An object of what is set, as the runner's protocol has it.
Json to_json(const Sampling& sampling);
// `base`, and over it, field by field, what `over` sets.
Sampling overlaid(const Sampling& base, const Sampling& over);

}  // namespace billow::scheduler
