// Notices that an answer goes round in a circle: the same tokens again and again. One answer, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::engine {

// So many tokens must be one short text over and over.
inline constexpr size_t kRepetitionWindow = 1024;
// And hold it at least so often: its longest is 128 tokens.
inline constexpr size_t kMinRepetitions = 8;

// Whether the tokens have a period of at most size / kMinRepetitions: each is equal to the one so
// many before it. (By the prefix function of Knuth, Morris and Pratt: the longest proper border of
// n tokens has n - period of them.)
bool is_repetition(const std::vector<int32_t>& tokens);

class RepetitionWatch {
 public:
  // Takes the next token. True: the last kRepetitionWindow tokens are a repetition. It is looked
  // for each 64 tokens, so the result depends on the tokens alone.
  bool add(int32_t token);

 private:
  static constexpr size_t kStride = 64;
  std::vector<int32_t> tokens_;  // the latest, at most the window and a stride
  size_t n_since_ = 0;
};

}  // namespace billow::engine
