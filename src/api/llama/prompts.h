// Prompts of llama-server's requests as tokens: texts and ids mixed, and gaps to be filled. Pure
// functions; any thread. All throw http::StatusError (400).
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

// A prompt: texts and token ids, one behind the other.
using PromptPiece = std::variant<std::string, int32_t>;
using PromptPieces = std::vector<PromptPiece>;

// The prompts of a field "prompt": a text, a list of ids, a list of ids and texts, or a list of
// such prompts.
std::vector<PromptPieces> prompts_of(const Json* prompt);

// What stands for an image in the text of a prompt with images, as /props tells.
inline constexpr std::string_view kMediaMarker = "<__media__>";

// A prompt {"prompt_string":"...","multimodal_data":["<base64>",...]}.
struct MediaPrompt {
  std::string text;
  std::vector<std::string> images;  // decoded from base64; as many as `text` has markers
};

// Nullopt where the field is none.
std::optional<MediaPrompt> media_prompt_of(const Json* prompt);

// With what the model begins texts with, and control tokens that are written in the texts.
std::vector<int32_t> tokens_of(const tokenizer::Tokenizer& tokenizer, const PromptPieces& pieces);

struct ExtraFile {
  std::string name;
  std::string text;
};
// A gap between two texts.
struct Gap {
  std::string prefix;
  std::string suffix;
  std::string begun;               // what the filling begins with
  std::vector<ExtraFile> extra{};  // other files of the same project
};

Gap gap_of(const Fields& fields);

// Between the tokens that the vocabulary has for this; refuses where it has none.
std::vector<int32_t> tokens_of(const tokenizer::Tokenizer& tokenizer, const Gap& gap);

}  // namespace billow::api::llama
