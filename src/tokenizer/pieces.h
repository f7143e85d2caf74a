// The bytes of each token. Immutable; thread-safe.
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

  // Returns the bytes of a token; the text of a special token. REQUIRES: the vocabulary has the id.
  std::string_view operator[](TokenId id) const noexcept {
    const auto i = static_cast<size_t>(id);
    return {bytes_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }

 private:
  std::string bytes_;           // all pieces, one after the other
  std::vector<size_t> begins_;  // n_tokens + 1 offsets into bytes_
};

// Removes some spaces: before ? ! . and , (comma); around a lone apostrophe; and before 's 'm 're
// 've.
std::string clean_up_spaces(std::string_view text);

}  // namespace billow::tokenizer
