// The classifier of decoders that rank (Qwen3-Reranker): a row of weights for each label, which the
// last token's hidden state is multiplied with. Immutable; any thread.
#pragma once

#include <span>
#include <vector>

#include "gguf/file.h"

namespace billow::engine {

class Relevance {
 public:
  // Reads tensor cls.output.weight of rows of n_embd values. Throws Error naming what is missing,
  // and kUnsupported for labels other than one, or "yes" and "no".
  Relevance(const gguf::File& file, size_t n_embd);

  // The label's logit, or that of "yes" less that of "no": the sigmoid of it is the softmax's share
  // of "yes". Summed in double, in order. REQUIRES: n_embd values.
  float score(std::span<const float> hidden) const noexcept;

 private:
  std::vector<double> weights_;  // of "yes" less those of "no"
  double bias_ = 0.0;
};

}  // namespace billow::engine
