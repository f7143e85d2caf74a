// How the next token is chosen: the request's options under Ollama's names and defaults. A plain
// value; whoever fills it from a request calls validate() once, and everything behind relies on
// that.
#pragma once

#include <cstdint>
#include <vector>

namespace billow::engine {

// Added to the raw logit of one token; -infinity bans the token. Entries for the same token add up.
struct LogitBias {
  int32_t token = 0;
  float bias = 0.0f;
};

struct SamplingOptions {
  // Any finite number; 0 or less: always the best token (greedy).
  float temperature = 0.8f;
  // Keep the k best; 0 or -1: off.
  int32_t top_k = 40;
  // [0, 1]. Keep the best whose probabilities together reach p; 1: off, 0: one token.
  float top_p = 0.9f;
  // [0, 1]. Keep what has at least min_p times the greatest probability; 0: off.
  float min_p = 0.0f;
  // [0, 1]. Locally typical sampling; 1: off.
  float typical_p = 1.0f;

  // How many tokens of prompt and output the penalties look at; 0: none, -1: all of them.
  int32_t repeat_last_n = 64;
  // Above 0. Divides a positive and multiplies a negative logit of a token seen; 1: off.
  float repeat_penalty = 1.0f;
  // Any finite number. Subtracted once from every token seen.
  float presence_penalty = 0.0f;
  // Any finite number. Subtracted once per occurrence.
  float frequency_penalty = 0.0f;

  // 0: off; 1 or 2: that version, in place of top_k, typical_p, top_p and min_p.
  int32_t mirostat = 0;
  // [0, 100]. The surprise aimed at, in bits.
  float mirostat_tau = 5.0f;
  // [0, 1]. How fast mirostat corrects itself.
  float mirostat_eta = 0.1f;

  // Of the random numbers; negative: a random one, chosen once per sampler.
  int64_t seed = -1;

  // Report the chosen token's log probability.
  bool logprobs = false;
  // [0, 20]. With logprobs: report so many of the best tokens as well.
  int32_t top_logprobs = 0;

  std::vector<LogitBias> logit_bias = {};

  bool is_greedy() const noexcept { return temperature <= 0.0f; }

  // Throws Error(kInvalidInput) that names the first field out of its range, its value and the
  // range.
  void validate() const;
};

}  // namespace billow::engine
