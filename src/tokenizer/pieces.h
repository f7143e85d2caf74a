// The bytes that each token stands for. Immutable; any thread may read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/settings.h"
#include "tokenizer/token.h"
#include "tokenizer/vocabulary.h"

namespace billow::tokenizer {

class Pieces {
 public:
  Pieces(const Settings& settings, const Vocabulary& vocabulary);

  // The bytes of a token, special ones with their text. REQUIRES: the vocabulary has the id.
  std::string_view operator[](TokenId id) const noexcept {
    const auto i = static_cast<size_t>(id);
    return {bytes_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }

 private:
  std::string bytes_;           // all pieces, one after the other
  std::vector<size_t> begins_;  // n_tokens + 1 places in bytes_
};

// Removes the space before ? ! . and ,, the spaces around a lone apostrophe, and the space before
// 's 'm 're 've.
std::string clean_up_spaces(std::string_view text);

}  // namespace billow::tokenizer
