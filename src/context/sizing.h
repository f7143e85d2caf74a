// How much context a request is given, from the exact length of its prompt and what it may answer:
// pure arithmetic. It belongs to the request: it is never multiplied by the number of requests that
// run at once, and no value of it has a model loaded anew.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

inline constexpr size_t kSizeStep = 1024;     // contexts are multiples of it, or the maximum
inline constexpr size_t kMinNumCtxCap = 256;  // a num_ctx below is taken for this

// Values of num_predict that are no counts.
inline constexpr int64_t kUnlimited = -1;    // until the model stops; compaction keeps it going
inline constexpr int64_t kFillContext = -2;  // until the model stops or the context is full

struct SizeRequest {
  size_t n_prompt = 0;  // tokens of the rendered prompt, special ones included
  int64_t num_predict = kUnlimited;
  size_t max_context = 0;  // of the model, or a lower limit of the server
  size_t num_ctx_cap = 0;  // the request's num_ctx where it is to be a cap; 0: none
};

struct Size {
  size_t context = 0;      // N
  size_t n_answer = 0;     // R: what is reserved for the answer
  size_t max_context = 0;  // after the cap
  bool operator==(const Size&) const = default;
};

// R = num_predict, or what the prompt leaves (at least 1024) where it is no count; at most the
// maximum. N = prompt + R, rounded up to 1024, at most the maximum. A num_predict of 0 evaluates
// the prompt alone. Throws Error (kInvalidInput) for one below -2.
Size right_size(const SizeRequest& request);

// An embedding input: no answer, so its own length rounded up, at most the maximum.
size_t embedding_context(size_t n_tokens, size_t max_context);

// What an answer without a limit is reckoned with before it is there, where memory is estimated:
// the prompt and 1024 tokens, rounded up, at most the maximum. Growth does the rest.
size_t expected_context(size_t n_prompt, size_t max_context);

}  // namespace billow::context
