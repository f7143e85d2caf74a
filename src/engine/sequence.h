// One generation: its tokens, how far they are evaluated, where its KV lies and how its next token
// is chosen. Made by the Engine and changed by it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "kv/block_table.h"

namespace billow::engine {

enum class FinishReason : uint8_t {
  kStop,    // the model ended its answer, or a stop string was found
  kLength,  // as many tokens as were asked for, or the context is full
};

// "stop" or "length", as the APIs say it.
const char* finish_reason_name(FinishReason reason) noexcept;

struct SequenceOptions {
  SamplingOptions sampling = {};
  int64_t max_new_tokens =
      -1;  // 0: evaluate the prompt only; negative: until the model stops or the context is full
  bool ignore_eos = false;  // go on past the model's end tokens
};

class Sequence {
 public:
  Sequence(kv::Cache& cache, std::vector<int32_t> prompt, const SequenceOptions& options,
           Sampler sampler)
      : tokens_(std::move(prompt)),
        n_prompt_(tokens_.size()),
        options_(options),
        sampler_(std::move(sampler)),
        blocks_(cache) {}

  std::span<const int32_t> tokens() const noexcept { return tokens_; }  // prompt and answer
  size_t n_prompt() const noexcept { return n_prompt_; }
  size_t n_generated() const noexcept { return tokens_.size() - n_prompt_; }
  size_t n_evaluated() const noexcept { return n_evaluated_; }  // tokens whose KV is there
  size_t n_pending() const noexcept { return tokens_.size() - n_evaluated_; }
  bool finished() const noexcept { return finish_reason_.has_value(); }
  FinishReason finish_reason() const { return finish_reason_.value(); }
  int64_t seed() const noexcept { return sampler_.seed(); }

 private:
  friend class Engine;

  std::vector<int32_t> tokens_;
  size_t n_prompt_;
  size_t n_evaluated_ = 0;
  SequenceOptions options_;
  Sampler sampler_;
  kv::BlockTable blocks_;
  std::optional<FinishReason> finish_reason_;
};

}  // namespace billow::engine
