#include "api/llama/prompts.h"

#include <algorithm>
#include <string_view>

#include "api/error_texts.h"
#include "base/base64.h"
#include "base/json.h"
#include "scheduler/sampling.h"

namespace billow::api::llama {
namespace {

using tokenizer::TokenId;
using tokenizer::Tokenizer;

constexpr const char* kPromptForm =
    "field \"prompt\" must be a string, a list of token ids, a list of ids and strings, or a list "
    "of "
    "such prompts";

PromptPiece piece_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_integer()) refuse(kPromptForm);
  const int64_t id = scheduler::whole_number(value);
  if (id < 0 || id > INT32_MAX)
    refuse("field \"prompt\" has the id " + value.dump() + ", which is not a token");
  return static_cast<int32_t>(id);
}

// Returns true if the list is one prompt: it has at least one id, and only ids and texts.
bool is_one_prompt(const Json& list) {
  const auto is_piece = [](const Json& one) { return one.is_number() || one.is_string(); };
  return std::ranges::all_of(list, is_piece) &&
         std::ranges::any_of(list, [](const Json& one) { return one.is_number(); });
}

PromptPieces pieces_of(const Json& prompt) {
  if (prompt.is_string()) return {prompt.get<std::string>()};
  if (!prompt.is_array()) refuse(kPromptForm);
  PromptPieces pieces;
  for (const Json& one : prompt) pieces.push_back(piece_of(one));
  return pieces;
}

void append(std::vector<int32_t>& tokens, const std::vector<int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

}  // namespace

std::vector<PromptPieces> prompts_of(const Json* prompt) {
  if (prompt == nullptr) refuse("field \"prompt\" is missing");
  if (!prompt->is_array() || is_one_prompt(*prompt)) return {pieces_of(*prompt)};
  if (prompt->empty()) refuse("field \"prompt\" is empty");
  std::vector<PromptPieces> prompts;
  for (const Json& one : *prompt) prompts.push_back(pieces_of(one));
  return prompts;
}

std::optional<MediaPrompt> media_prompt_of(const Json* prompt) {
  if (prompt == nullptr || !prompt->is_object()) return std::nullopt;
  const auto text = prompt->find("prompt_string");
  if (text == prompt->end() || !text->is_string())
    refuse("field \"prompt\" is an object without a string \"prompt_string\"");
  const auto data = prompt->find("multimodal_data");
  MediaPrompt media{.text = text->get<std::string>(), .images = {}};
  if (data != prompt->end() && !data->is_array())
    refuse("field \"prompt.multimodal_data\" must be a list of strings in base64");
  if (data != prompt->end()) {
    for (const Json& entry : *data) {
      auto bytes =
          entry.is_string() ? base64_decoded(entry.get_ref<const std::string&>()) : std::nullopt;
      if (!bytes) refuse("field \"prompt.multimodal_data\" must be a list of strings in base64");
      media.images.push_back(*std::move(bytes));
    }
  }
  size_t n_markers = 0;
  for (size_t at = media.text.find(kMediaMarker); at != std::string::npos;
       at = media.text.find(kMediaMarker, at + kMediaMarker.size()))
    ++n_markers;
  if (n_markers != media.images.size())
    refuse("field \"prompt\" has " + std::to_string(n_markers) + " markers " +
           std::string(kMediaMarker) + " and " + std::to_string(media.images.size()) + " images");
  return media;
}

std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const PromptPieces& pieces) {
  std::vector<int32_t> tokens;
  for (const PromptPiece& piece : pieces) {
    const bool is_first = &piece == &pieces.front();
    if (const auto* text = std::get_if<std::string>(&piece))
      append(tokens, tokenizer.encode(*text, {.add_special = is_first, .parse_special = true}));
    else
      tokens.push_back(std::get<int32_t>(piece));
  }
  if (tokens.empty()) refuse("field \"prompt\" is empty");
  return tokens;
}

Gap gap_of(const Fields& fields) {
  Gap gap{.prefix = fields.text("input_prefix"),
          .suffix = fields.text("input_suffix"),
          .begun = fields.text("prompt")};
  if (!fields.has("input_prefix") && !fields.has("input_suffix"))
    refuse("fields \"input_prefix\" and \"input_suffix\" are missing; give one of them");
  for (const Fields& file : fields.objects("input_extra")) {
    if (!file.has("text")) refuse("field \"input_extra\" has a file without \"text\"");
    gap.extra.push_back({.name = file.text("filename"), .text = file.text("text")});
  }
  return gap;
}

std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const Gap& gap) {
  const tokenizer::TokenRoles& roles = tokenizer.roles();
  const struct {
    TokenId id;
    const char* name;
  } kNeeded[] = {
      {roles.fim_prefix, "prefix"}, {roles.fim_suffix, "suffix"}, {roles.fim_middle, "middle"}};
  for (const auto& one : kNeeded)
    if (one.id == tokenizer::kNoToken)
      refuse("the model cannot fill gaps: its vocabulary has no token for the " +
             std::string(one.name));
  const auto encoded = [&](const std::string& text) {
    return tokenizer.encode(text, {.add_special = false});
  };
  std::vector<int32_t> tokens;
  if (tokenizer.add_bos()) tokens.push_back(tokenizer.bos());
  const bool has_files = roles.fim_separator != tokenizer::kNoToken;
  if (!gap.extra.empty() && roles.fim_repository != tokenizer::kNoToken) {
    tokens.push_back(roles.fim_repository);
    append(tokens, encoded("project\n"));
  }
  for (const ExtraFile& file : gap.extra) {
    if (has_files) tokens.push_back(roles.fim_separator);
    append(tokens, encoded((has_files ? file.name + "\n" : "\n\n") + file.text));
  }
  if (has_files && !gap.extra.empty()) {
    tokens.push_back(roles.fim_separator);
    append(tokens, encoded("this file\n"));
  }
  tokens.push_back(roles.fim_prefix);
  append(tokens, encoded(gap.prefix));
  tokens.push_back(roles.fim_suffix);
  append(tokens, encoded(gap.suffix));
  tokens.push_back(roles.fim_middle);
  append(tokens, encoded(gap.begun));
  return tokens;
}

}  // namespace billow::api::llama
