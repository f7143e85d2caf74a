// Sampling options of a request and its model. Plain data, and its JSON with Ollama's names. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_fwd.h"

namespace billow::scheduler {

// A bias for a token's logit. Unset: the token is banned.
struct LogitBias {
  int32_t token = 0;
  std::optional<float> bias{};
  bool operator==(const LogitBias&) const = default;
};

// Unset fields mean the runner's default: see engine/sampling/options.h, which also has the ranges.
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

// Converts a number to an integer: truncates fractions and clamps to the range of the type.
// REQUIRES: value is a number.
int64_t whole_number(const Json& value);
// Parses the fields that it knows. Ignores other fields, nulls and values that are not numbers.
// Truncates fractions of integer fields. Does not read `logit_bias`.
Sampling sampling_of(const Json& options);
// Returns an object of all set fields, in the form of the runner's protocol.
Json to_json(const Sampling& sampling);
// Returns `base` with the set fields of `over`.
Sampling overlaid(const Sampling& base, const Sampling& over);

}  // namespace billow::scheduler
