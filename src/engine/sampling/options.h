// Options for choosing the next token, with Ollama's names and defaults. A plain value. The code
// that fills it from a request must call validate() once; all other code relies on that.
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
  // Keeps the k best; 0 or -1: off.
  int32_t top_k = 40;
  // [0, 1]. Keeps the best whose probabilities together reach p; 1: off, 0: one token.
  float top_p = 0.9f;
  // [0, 1]. Keeps probabilities of at least min_p times the max; 0: off.
  float min_p = 0.0f;
  // [0, 1]. Keeps locally typical tokens; 1: off.
  float typical_p = 1.0f;

  // Number of last tokens of prompt and output for the penalties; 0: none, -1: all.
  int32_t repeat_last_n = 64;
  // Above 0. Divides a positive and multiplies a negative logit of a token in the window; 1: off.
  float repeat_penalty = 1.0f;
  // Any finite number. Subtracted once from the logit of every token in the window.
  float presence_penalty = 0.0f;
  // Any finite number. Subtracted once per occurrence.
  float frequency_penalty = 0.0f;

  // 0: off; 1 or 2: this version, instead of top_k, typical_p, top_p and min_p.
  int32_t mirostat = 0;
  // [0, 100]. The target surprise, in bits.
  float mirostat_tau = 5.0f;
  // [0, 1]. The speed of corrections.
  float mirostat_eta = 0.1f;

  // Of the random numbers; negative: the sampler chooses a random seed once.
  int64_t seed = -1;

  // Return the chosen token's log probability.
  bool logprobs = false;
  // [0, 20]. With logprobs: also return this many of the best tokens.
  int32_t top_logprobs = 0;

  std::vector<LogitBias> logit_bias = {};

  bool is_greedy() const noexcept { return temperature <= 0.0f; }

  // Throws Error(kInvalidInput) with the first field that is out of its range, its value and the
  // range.
  void validate() const;
};

}  // namespace billow::engine
