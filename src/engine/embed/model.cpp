#include "engine/embed/model.h"

#include <utility>

#include "engine/embed/pool_rows.h"

namespace billow::engine {

std::string token_refusal(const EmbedModelInfo& info, const std::vector<int32_t>& tokens) {
  if (tokens.empty()) return "the text has no tokens";
  if (tokens.size() > info.max_tokens) {
    return "the text has " + std::to_string(tokens.size()) +
           " tokens, but the model takes at most " + std::to_string(info.max_tokens) +
           "; shorten or truncate it";
  }
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<size_t>(token) >= info.n_vocab) {
      return "token id " + std::to_string(token) + " is not in the vocabulary of " +
             std::to_string(info.n_vocab) + " tokens";
    }
  }
  return "";
}

EmbedVector checked_vector(std::vector<float> values) {
  if (all_finite(values)) return {.values = std::move(values), .error = ""};
  return {.values = {},
          .error = "the model returned values that are not finite; its file may be damaged"};
}

}  // namespace billow::engine
