// Parses and tokenises the prompts of llama-server's requests: texts mixed with token ids, and gaps
// to fill. Pure functions; thread-safe. All functions throw http::StatusError (400).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/fields.h"
#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"

namespace billow::api::llama {

// A prompt: a sequence of texts and token ids.
using PromptPiece = std::variant<std::string, int32_t>;
using PromptPieces = std::vector<PromptPiece>;

// Parses a field "prompt": a text, a list of ids, a list of ids and texts, or a list of such
// prompts.
std::vector<PromptPieces> prompts_of(const Json* prompt);

// The placeholder for an image in a prompt with images. /props shows it to clients.
inline constexpr std::string_view kMediaMarker = "<__media__>";

// A prompt {"prompt_string":"...","multimodal_data":["<base64>",...]}.
struct MediaPrompt {
  std::string text;
  std::vector<std::string> images;  // decoded from base64; one for each marker in `text`
};

// Returns nullopt if the field is not such an object.
std::optional<MediaPrompt> media_prompt_of(const Json* prompt);

// Tokenises a prompt. Adds the BOS if the vocabulary does, and parses control tokens in texts.
std::vector<int32_t> tokens_of(const tokenizer::Tokenizer& tokenizer, const PromptPieces& pieces);

struct ExtraFile {
  std::string name;
  std::string text;
};
// A gap between two texts, for fill-in-the-middle.
struct Gap {
  std::string prefix;
  std::string suffix;
  std::string begun;               // the beginning of the filling
  std::vector<ExtraFile> extra{};  // other files of the same project
};

Gap gap_of(const Fields& fields);

// Tokenises a gap with the vocabulary's fill-in-the-middle tokens. Throws if it has none.
std::vector<int32_t> tokens_of(const tokenizer::Tokenizer& tokenizer, const Gap& gap);

}  // namespace billow::api::llama
