// The classifier of decoders that rank (Qwen3-Reranker): one row of weights per label, multiplied
// with the last token's hidden state. Immutable; thread-safe.
#pragma once

#include <span>
#include <vector>

#include "gguf/file.h"

namespace billow::engine {

class Relevance {
 public:
  // Reads tensor cls.output.weight, whose rows have n_embd values. Throws Error with the missing
  // part, and kUnsupported for labels other than one, or "yes" and "no".
  Relevance(const gguf::File& file, size_t n_embd);

  // Returns the label's logit, or the logit of "yes" minus that of "no". The sigmoid of that
  // difference is the softmax probability of "yes". Sums in double, in sequence. REQUIRES: n_embd
  // values.
  float score(std::span<const float> hidden) const noexcept;

 private:
  std::vector<double> weights_;  // of "yes" minus those of "no"
  double bias_ = 0.0;
};

}  // namespace billow::engine
