// Calculates the context of a request from the exact length of its prompt and the limit of its
// answer: pure arithmetic. The context belongs to the request. It is never multiplied by the number
// of parallel requests, and `num_ctx` never reloads a model.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

inline constexpr size_t kSizeStep = 1024;     // contexts are multiples of this, or the maximum
inline constexpr size_t kMinNumCtxCap = 256;  // a smaller num_ctx is raised to this

// Special values of num_predict.
inline constexpr int64_t kUnlimited = -1;    // until the model stops; compaction makes space
inline constexpr int64_t kFillContext = -2;  // until the model stops or the context is full

struct SizeRequest {
  size_t n_prompt = 0;  // tokens of the rendered prompt, with special tokens
  int64_t num_predict = kUnlimited;
  size_t max_context = 0;  // of the model, or a lower limit of the server
  size_t num_ctx_cap = 0;  // the request's num_ctx if it is a cap; 0: no cap
};

struct Size {
  size_t context = 0;      // N
  size_t n_answer = 0;     // R: tokens reserved for the answer
  size_t max_context = 0;  // after the cap
  bool operator==(const Size&) const = default;
};

// Calculates R and N, both at most the maximum. R = num_predict. If num_predict is a special value,
// R is the maximum minus the prompt, at least 1024. N = prompt + R, rounded up to a multiple of
// 1024. If num_predict is 0, only the prompt is evaluated. Throws Error (kInvalidInput) if
// num_predict is below -2.
Size right_size(const SizeRequest& request);

// Returns the context of an embedding input: its length rounded up, at most the maximum. There is
// no answer.
size_t embedding_context(size_t n_tokens, size_t max_context);

// Returns the estimated context of an answer without a limit, for memory estimates before the
// answer exists: the prompt and 1024 tokens, rounded up, at most the maximum. Longer answers grow
// their context.
size_t expected_context(size_t n_prompt, size_t max_context);

}  // namespace billow::context
