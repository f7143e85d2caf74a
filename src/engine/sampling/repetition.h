// Detects that an answer loops: the same tokens again and again. One object per answer; one thread
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::engine {

// Number of last tokens that are checked.
inline constexpr size_t kRepetitionWindow = 1024;
// Min number of repetitions of a text in the window. So the text has at most 128 tokens.
inline constexpr size_t kMinRepetitions = 8;

// Returns whether the tokens have a period of at most size / kMinRepetitions: each token equals the
// token one period before. Uses the prefix function of Knuth, Morris and Pratt: the longest proper
// border of n tokens has n - period tokens.
bool is_repetition(const std::vector<int32_t>& tokens);

class RepetitionWatch {
 public:
  // Adds the next token. Returns true if the last kRepetitionWindow tokens are a repetition. Checks
  // after every 64 tokens, so the result depends on the tokens only.
  bool add(int32_t token);

 private:
  static constexpr size_t kStride = 64;
  std::vector<int32_t> tokens_;  // the last ones, at most kRepetitionWindow + kStride
  size_t n_since_ = 0;
};

}  // namespace billow::engine
