#include "context/sizing.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace billow::context {
namespace {

// Returns a + b rounded up to kSizeStep, at most `max`. Neither step can wrap.
size_t rounded_sum(size_t a, size_t b, size_t max) {
  if (a >= max || b >= max - a) return max;
  const size_t sum = a + b;
  const size_t beyond = sum % kSizeStep;
  const size_t missing = beyond == 0 && sum > 0 ? 0 : kSizeStep - beyond;
  return missing >= max - sum ? max : sum + missing;
}

}  // namespace

Size right_size(const SizeRequest& request) {
  if (request.num_predict < kFillContext) {
    throw Error(
        ErrorCode::kInvalidInput,
        "num_predict is " + std::to_string(request.num_predict) +
            "; it may be a number of tokens, 0 to evaluate the prompt alone, -1 for no limit, "
            "or -2 to fill the context");
  }
  Size size;
  size.max_context =
      request.num_ctx_cap == 0
          ? request.max_context
          : std::min(request.max_context, std::max(request.num_ctx_cap, kMinNumCtxCap));
  const size_t max = size.max_context;
  const size_t left = request.n_prompt < max ? max - request.n_prompt : 0;
  const auto asked = static_cast<size_t>(std::max<int64_t>(0, request.num_predict));
  size.n_answer = std::min(max, request.num_predict < 0 ? std::max(left, kSizeStep) : asked);
  size.context = rounded_sum(request.n_prompt, size.n_answer, max);
  return size;
}

size_t embedding_context(size_t n_tokens, size_t max_context) {
  return rounded_sum(n_tokens, 0, max_context);
}

size_t expected_context(size_t n_prompt, size_t max_context) {
  return rounded_sum(n_prompt, kSizeStep, max_context);
}

}  // namespace billow::context
