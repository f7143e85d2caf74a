// Chooses the next token of one sequence from its logits. The chain is that of llama.cpp: logit
// bias, penalties, top_k, typical_p, top_p, min_p, temperature, draw. With mirostat: logit bias,
// penalties (llama.cpp skips them then), temperature, mirostat and its draw. Owns its random
// numbers, penalty window and scratch. So the same seed gives the same tokens, independent of other
// sequences. A copy continues independently. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/sampling/filters.h"
#include "engine/sampling/logit_scan.h"
#include "engine/sampling/mirostat.h"
#include "engine/sampling/options.h"
#include "engine/sampling/penalties.h"
#include "engine/sampling/random.h"

namespace billow::engine {

// The model's logits have no finite value. Its KV may be wrong, too.
class NoFiniteLogits : public Error {
 public:
  NoFiniteLogits()
      : Error(ErrorCode::kInvalidInput,
              "the model produced no finite logits: its file may be damaged; check or fetch it "
              "again") {}
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // natural logarithm, <= 0
};

// Log probabilities are the log softmax of the model's own logits, before bias, penalties, filters
// and temperature.
struct Sampled {
  int32_t token = 0;
  float logprob = 0.0f;  // 0 without options.logprobs
  // The options.top_logprobs best tokens, best first; fewer if fewer are possible.
  std::vector<TokenLogprob> top = {};
};

class Sampler {
 public:
  // `prompt` fills the window of the penalties. Throws Error(kInvalidInput) for options outside
  // their ranges or a logit_bias token outside the vocabulary. REQUIRES: n_vocab > 0.
  Sampler(const SamplingOptions& options, int32_t n_vocab, std::span<const int32_t> prompt = {});

  // Chooses one of the `allowed` tokens from `logits` (n_vocab of them, only read). `allowed` has
  // 32 tokens per element, lowest bit first; empty: all tokens. If only one token is allowed, draws
  // nothing and changes neither the random numbers nor mirostat. The caller must call accept() with
  // this token or another one. Throws NoFiniteLogits, or another Error(kInvalidInput) if bias,
  // penalties and `allowed` leave no token.
  Sampled sample(std::span<const float> logits, std::span<const uint32_t> allowed = {});

  // Adds a token of the output to the window of the penalties.
  void accept(int32_t token) { penalties_.accept(token); }

  // Returns the seed in use: that of the options, or the random one (below 2^53, which JSON readers
  // keep exactly).
  int64_t seed() const noexcept { return options_.seed; }

  // Returns the model's log probability of a token, and the best tokens. Chooses nothing and
  // ignores all options except top_logprobs. Throws NoFiniteLogits.
  Sampled score(std::span<const float> logits, int32_t token);

 private:
  std::span<const float> adjusted(std::span<const float> logits, std::span<const uint32_t> allowed);
  int32_t choose();
  int32_t choose_filtered();
  int32_t choose_mirostat();
  void collect_without_top_k();
  void report_logprobs(std::span<const float> logits, Sampled& sampled);
  [[noreturn]] void fail(std::span<const float> logits);

  SamplingOptions options_;
  size_t n_vocab_;
  Random random_;
  Penalties penalties_;
  Mirostat mirostat_;
  LogitScan scan_;
  std::vector<float> adjusted_;
  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
};

}  // namespace billow::engine
