#include "api/tei/tokens_codec.h"

#include <cstdint>
#include <variant>
#include <vector>

#include "api/embed_fields.h"
#include "api/json_text.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/status.h"

namespace billow::api::tei {
namespace {

using http::StatusError;
using tokenizer::Tokenizer;
using Ids = std::vector<int32_t>;

[[noreturn]] void refuse(const std::string& text) { throw StatusError(400, text); }

// Appends `parts`, separated by commas, in brackets.
template <typename List, typename Append>
void append_list(std::string& text, const List& parts, const Append& append) {
  text += '[';
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text += ',';
    is_first = false;
    append(part);
  }
  text += ']';
}

void append_piece(std::string& text, std::string_view piece) {
  if (utf8::is_valid(piece)) return append_string(text, piece);
  append_list(text, piece,
              [&](char byte) { text += std::to_string(static_cast<unsigned char>(byte)); });
}

std::string content_tokens(const Tokenizer& tokenizer, const Fields& fields) {
  const Ids ids = tokenizer.encode(fields.text("content"),
                                   {.add_special = fields.flag("add_special").value_or(false),
                                    .parse_special = fields.flag("parse_special").value_or(true)});
  const bool has_pieces = fields.flag("with_pieces").value_or(false);
  std::string text = "{\"tokens\":";
  append_list(text, ids, [&](int32_t id) {
    if (!has_pieces) {
      text += std::to_string(id);
      return;
    }
    text += "{\"id\":" + std::to_string(id) + ",\"piece\":";
    append_piece(text, tokenizer.piece(id, true));
    text += '}';
  });
  return text + '}';
}

void append_token(std::string& text, const Tokenizer& tokenizer, int32_t id) {
  text += "{\"id\":" + std::to_string(id) + ",\"text\":";
  append_string(text, tokenizer.piece(id, true));
  text += tokenizer.is_control(id) ? ",\"special\":true" : ",\"special\":false";
  text += ",\"start\":null,\"stop\":null}";
}

Ids checked(const Tokenizer& tokenizer, Ids ids) {
  for (const int32_t id : ids) {
    if (!tokenizer.has(id))
      refuse("token id " + std::to_string(id) + " is not in the vocabulary of " +
             std::to_string(tokenizer.n_tokens()) + " tokens");
  }
  return ids;
}

// Parses one list of ids, or several.
std::vector<Ids> lists_of(const Tokenizer& tokenizer, const Json& value) {
  std::vector<Ids> lists;
  for (const EmbedInput& input : embed_inputs(value, InputKinds::kTextsAndTokens, false)) {
    const Ids* ids = std::get_if<Ids>(&input);
    if (ids == nullptr) refuse("ids must be numbers");
    lists.push_back(checked(tokenizer, *ids));
  }
  return lists;
}

}  // namespace

std::string tokenize_json(const Tokenizer& tokenizer, const Fields& fields) {
  if (fields.has("content")) return content_tokens(tokenizer, fields);
  const Json* inputs = fields.value("inputs");
  if (inputs == nullptr) refuse("give inputs or content");
  const bool add_special = fields.flag("add_special_tokens").value_or(true);
  std::string text;
  append_list(text, embed_inputs(*inputs, InputKinds::kTexts, false), [&](const EmbedInput& input) {
    const Ids ids = tokenizer.encode(std::get<std::string>(input), {.add_special = add_special});
    append_list(text, ids, [&](int32_t id) { append_token(text, tokenizer, id); });
  });
  return text;
}

std::string prompt_tokens_json(const Tokenizer& tokenizer, const Fields& fields,
                               const std::string& text, bool adds_special, size_t max_context) {
  const bool add_special = fields.flag("add_special_tokens").value_or(adds_special);
  const Ids ids = tokenizer.encode(text, {.add_special = add_special, .parse_special = true});
  std::string made = "{\"count\":" + std::to_string(ids.size()) +
                     ",\"max_model_len\":" + std::to_string(max_context) + ",\"tokens\":";
  append_list(made, ids, [&](int32_t id) { made += std::to_string(id); });
  made += ",\"token_strs\":";
  if (fields.flag("return_token_strs").value_or(false))
    append_list(made, ids, [&](int32_t id) { append_string(made, tokenizer.piece(id, true)); });
  else
    made += "null";
  return made + '}';
}

std::string detokenize_json(const Tokenizer& tokenizer, const Fields& fields) {
  std::string text;
  if (fields.has("tokens")) {
    const Ids ids = checked(tokenizer, fields.integers("tokens"));
    const std::string content = tokenizer.decode(ids, {.render_special = true});
    append_string(text += "{\"content\":", content);
    append_string(text += ",\"prompt\":", content);
    return text + '}';
  }
  const Json* given = fields.value("ids");
  if (given == nullptr) refuse("give tokens or ids");
  const bool skips_special = fields.flag("skip_special_tokens").value_or(true);
  append_list(text, lists_of(tokenizer, *given), [&](const Ids& ids) {
    append_string(text, tokenizer.decode(ids, {.render_special = !skips_special}));
  });
  return text;
}

}  // namespace billow::api::tei
