// Divides the log probabilities of an answer's tokens among its texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"

namespace billow::api::openai {

// Tokens and texts come in the order of the answer. A text can come later than its tokens. Tokens
// of markers belong to no text.
class TokensOfTexts {
 public:
  void add(const std::vector<Logprob>& logprobs);
  // Returns the tokens of `text`, the next text of the answer, and drops the tokens before them. A
  // token at an end of the text may have more blanks than the text. If the tokens do not have the
  // text, for example because a reader wrote it in another form, returns none and drops none.
  std::vector<Logprob> take(std::string_view text);
  void clear();

 private:
  // Consecutive tokens that have whole characters together.
  struct Group {
    size_t begin = 0;
    size_t end = 0;
    std::string text{};
  };
  struct Found {
    std::vector<size_t> groups{};
    std::string rest{};  // of the last group, after the end of the text
  };
  std::vector<Group> groups() const;

  std::vector<Logprob> waiting_;
  std::string rest_;  // text of the last taken token that was not taken
};

}  // namespace billow::api::openai
