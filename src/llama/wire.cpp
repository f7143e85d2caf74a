#include "llama/wire.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::llama {
namespace {

// A grammar for any JSON object, in llama.cpp's notation.
constexpr const char* kJsonObject = R"(root ::= object
object ::= "{" ws ( pair ( "," ws pair )* )? "}" ws
pair ::= string ":" ws value
value ::= object | array | string | number | ( "true" | "false" | "null" ) ws
array ::= "[" ws ( value ( "," ws value )* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" ( ["\\bfnrt/] | "u" [0-9a-fA-F]{4} ) )* "\"" ws
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]{1,4} )? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";

constexpr size_t kMaxErrorBytes = 300;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, "llama-server sent an invalid response: " + what);
}

// Returns the non-negative integer at `name`, or nullopt.
std::optional<size_t> count_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  if (!found->is_number_unsigned() && found->get<int64_t>() < 0) return std::nullopt;
  return found->get<size_t>();
}

std::optional<int32_t> token_of(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  const auto value = json.get<int64_t>();
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(value);
}

// llama-server writes null for an infinite or undefined number.
float logprob_of(const Json& entry) {
  const auto found = entry.find("logprob");
  if (found == entry.end() || !found->is_number()) return -std::numeric_limits<float>::infinity();
  return found->get<float>();
}

void add_logprobs(const Json& json, engine::Sampled& sampled) {
  const auto list = json.find("completion_probabilities");
  if (list == json.end() || !list->is_array() || list->empty() || !list->back().is_object()) return;
  const Json& entry = list->back();
  sampled.logprob = logprob_of(entry);
  const auto top = entry.find("top_logprobs");
  if (top == entry.end() || !top->is_array()) return;
  for (const Json& other : *top) {
    if (!other.is_object() || !other.contains("id")) continue;
    if (const auto token = token_of(other["id"]))
      sampled.top.push_back({.token = *token, .logprob = logprob_of(other)});
  }
}

void add_grammar(Json& body, const constraint::Grammar& grammar) {
  switch (grammar.kind) {
    case constraint::GrammarKind::kJsonObject:
      body["grammar"] = kJsonObject;
      return;
    case constraint::GrammarKind::kJsonSchema:
      body["json_schema"] = Json::parse(grammar.text, nullptr, false);
      return;
    case constraint::GrammarKind::kGbnf:
      body["grammar"] = grammar.text;
      return;
    case constraint::GrammarKind::kRegex:
    case constraint::GrammarKind::kLark:
      break;
  }
}

// Returns the text with the marker at the places of images only.
std::string marked_text(const WireText& text) {
  BILLOW_CHECK(!text.marker.empty());
  std::string out;
  const auto add = [&](std::string_view part) {
    for (size_t at = part.find(text.marker); at != std::string_view::npos;
         at = part.find(text.marker)) {
      // A space after the marker's first character breaks a marker that a user has written.
      out.append(part.substr(0, at + 1)).append(" ");
      part.remove_prefix(at + 1);
    }
    out.append(part);
  };
  size_t from = 0;
  for (const WireImage& image : text.images) {
    add(std::string_view(text.text).substr(from, image.text_at - from));
    out.append(text.marker);
    from = image.text_at;
  }
  add(std::string_view(text.text).substr(from));
  return out;
}

Json prompt_json(const Stretch& stretch) {
  if (!stretch.text) return std::vector<int32_t>(stretch.tokens.begin(), stretch.tokens.end());
  Json prompt = {{"prompt_string", marked_text(*stretch.text)}};
  for (const WireImage& image : stretch.text->images)
    prompt["multimodal_data"].push_back(image.base64);
  return prompt;
}

}  // namespace

void check_grammar(const constraint::Grammar& grammar) {
  using constraint::GrammarKind;
  if (grammar.kind != GrammarKind::kRegex && grammar.kind != GrammarKind::kLark) return;
  throw Error(ErrorCode::kUnsupported,
              std::string("a grammar of the kind \"") +
                  constraint::grammar_kind_name(grammar.kind) +
                  "\" is not available: this model runs on llama-server, which takes JSON schemas "
                  "and GBNF");
}

std::string stretch_body(const Stretch& stretch) {
  const engine::SamplingOptions& sampling = *stretch.sampling;
  Json body = {{"prompt", prompt_json(stretch)},
               {"n_predict", stretch.n_predict},
               {"stream", true},
               {"return_tokens", true},
               {"return_progress", true},
               {"cache_prompt", stretch.reads_cache},
               {"ignore_eos", stretch.ignore_eos},
               {"seed", static_cast<uint32_t>(stretch.seed)},
               {"temperature", sampling.temperature},
               {"top_k", std::max(sampling.top_k, 0)},
               {"top_p", sampling.top_p},
               {"min_p", sampling.min_p},
               {"typical_p", sampling.typical_p},
               {"repeat_last_n", sampling.repeat_last_n},
               {"repeat_penalty", sampling.repeat_penalty},
               {"presence_penalty", sampling.presence_penalty},
               {"frequency_penalty", sampling.frequency_penalty},
               {"mirostat", sampling.mirostat},
               {"mirostat_tau", sampling.mirostat_tau},
               {"mirostat_eta", sampling.mirostat_eta}};
  if (sampling.logprobs) body["n_probs"] = std::max(1, sampling.top_logprobs);
  for (const engine::LogitBias& bias : sampling.logit_bias) {
    Json value = false;  // the token is never sampled
    if (std::isfinite(bias.bias)) value = bias.bias;
    body["logit_bias"].push_back(Json::array({bias.token, std::move(value)}));
  }
  if (stretch.grammar != nullptr) add_grammar(body, *stretch.grammar);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StretchEvent parse_event(std::string_view data) {
  const Json json = Json::parse(data, nullptr, false);
  if (!json.is_object()) refuse("no JSON object");
  if (json.contains("error")) throw Error(ErrorCode::kIo, error_text(data));
  StretchEvent event;
  if (const auto progress = json.find("prompt_progress");
      progress != json.end() && progress->is_object()) {
    event.n_evaluated = count_at(*progress, "processed").value_or(0);
    event.n_cached = count_at(*progress, "cache").value_or(0);
    event.n_prompt = count_at(*progress, "total");
    return event;
  }
  event.n_tokens = count_at(json, "tokens_predicted").value_or(0);
  const auto stop = json.find("stop");
  if (stop != json.end() && stop->is_boolean() && stop->get<bool>()) {
    StretchEnd end;
    const auto type = json.find("stop_type");
    end.is_end_token = type != json.end() && *type == "eos";
    event.end = end;
    event.n_prompt = count_at(json, "tokens_evaluated");
    return event;
  }
  const auto content = json.find("content");
  if (content != json.end() && content->is_string()) event.text = content->get<std::string>();
  const auto tokens = json.find("tokens");
  if (tokens == json.end() || !tokens->is_array() || tokens->empty())
    refuse("a piece without a token; llama-server may be too old");
  const auto token = token_of(tokens->back());
  if (!token) refuse("a token that is not a number");
  event.token = engine::Sampled{.token = *token};
  add_logprobs(json, *event.token);
  return event;
}

std::string error_text(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) return utf8::sanitized(error.get<std::string>());
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return utf8::sanitized(error["message"].get<std::string>());
  }
  return utf8::sanitized(body.substr(0, kMaxErrorBytes));
}

std::optional<size_t> length_in_error(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object())
    return std::nullopt;
  return count_at(json["error"], "n_prompt_tokens");
}

std::string media_marker_of(std::string_view props) {
  const Json json = Json::parse(props, nullptr, false);
  const auto found = json.is_object() ? json.find("media_marker") : json.end();
  const bool is_given = json.is_object() && found != json.end() && found->is_string();
  const std::string marker = is_given ? found->get<std::string>() : "";
  return marker.empty() ? "<__media__>" : marker;
}

std::string embedding_body(std::span<const std::vector<int32_t>> texts) {
  Json input = Json::array();
  for (const std::vector<int32_t>& text : texts) input.push_back(text);
  return Json{{"content", std::move(input)}, {"embd_normalize", -1}}.dump();
}

std::vector<std::vector<float>> parse_embeddings(std::string_view body, size_t n_texts) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_array() || json.size() != n_texts) refuse("a wrong number of vectors");
  std::vector<std::vector<float>> vectors(n_texts);
  for (const Json& entry : json) {
    const auto index = entry.is_object() ? count_at(entry, "index") : std::nullopt;
    if (!index || *index >= n_texts || !entry.contains("embedding")) refuse("no vector");
    const Json* values = &entry["embedding"];
    // A vector is the only row of a matrix.
    if (values->is_array() && values->size() == 1 && values->front().is_array())
      values = &values->front();
    if (!values->is_array()) refuse("no vector");
    std::vector<float>& vector = vectors[*index];
    vector.clear();
    for (const Json& value : *values) {
      if (!value.is_number()) refuse("a value that is not a number");
      vector.push_back(value.get<float>());
    }
  }
  return vectors;
}

}  // namespace billow::llama
