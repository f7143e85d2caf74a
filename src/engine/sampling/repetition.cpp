#include "engine/sampling/repetition.h"

namespace billow::engine {

bool is_repetition(const std::vector<int32_t>& tokens) {
  const size_t n = tokens.size();
  if (n < kMinRepetitions) return false;
  std::vector<size_t> border(n, 0);  // [i]: border of the first i + 1 tokens
  for (size_t i = 1; i < n; ++i) {
    size_t length = border[i - 1];
    while (length > 0 && tokens[i] != tokens[length]) length = border[length - 1];
    border[i] = tokens[i] == tokens[length] ? length + 1 : 0;
  }
  return (n - border[n - 1]) * kMinRepetitions <= n;
}

bool RepetitionWatch::add(int32_t token) {
  tokens_.push_back(token);
  if (++n_since_ < kStride) return false;
  n_since_ = 0;
  if (tokens_.size() < kRepetitionWindow) return false;
  tokens_.erase(tokens_.begin(), tokens_.end() - kRepetitionWindow);
  return is_repetition(tokens_);
}

}  // namespace billow::engine
