#include "runner/protocol.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_string.h"
#include "base/utf8.h"
#include "engine/event_text.h"

namespace billow::runner {
namespace {

using engine::SamplingOptions;

struct FloatOption {
  const char* name;
  float SamplingOptions::* field;
};
struct IntOption {
  const char* name;
  int32_t SamplingOptions::* field;
};
constexpr FloatOption kFloats[] = {
    {"temperature", &SamplingOptions::temperature},
    {"top_p", &SamplingOptions::top_p},
    {"min_p", &SamplingOptions::min_p},
    {"typical_p", &SamplingOptions::typical_p},
    {"repeat_penalty", &SamplingOptions::repeat_penalty},
    {"presence_penalty", &SamplingOptions::presence_penalty},
    {"frequency_penalty", &SamplingOptions::frequency_penalty},
    {"mirostat_tau", &SamplingOptions::mirostat_tau},
    {"mirostat_eta", &SamplingOptions::mirostat_eta},
};
constexpr IntOption kInts[] = {
    {"top_k", &SamplingOptions::top_k},
    {"repeat_last_n", &SamplingOptions::repeat_last_n},
    {"mirostat", &SamplingOptions::mirostat},
};

[[noreturn]] void refuse(const std::string& field, const char* wanted) {
  throw Error(ErrorCode::kInvalidInput, "field \"" + field + "\" must be " + wanted);
}

int64_t integer(const Json& head, const char* field, int64_t fallback, int64_t min, int64_t max) {
  const auto found = head.find(field);
  if (found == head.end()) return fallback;
  const bool fits = found->is_number_unsigned()
                        ? found->get<uint64_t>() <= static_cast<uint64_t>(std::max<int64_t>(0, max))
                        : found->is_number_integer();
  const int64_t value = fits ? found->get<int64_t>() : 0;
  if (!fits || value < min || value > max)
    refuse(field,
           ("an integer from " + std::to_string(min) + " to " + std::to_string(max)).c_str());
  return value;
}

bool boolean(const Json& head, const char* field) {
  const auto found = head.find(field);
  if (found == head.end()) return false;
  if (!found->is_boolean()) refuse(field, "true or false");
  return found->get<bool>();
}

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxTokens = int64_t{1} << 30;

std::vector<engine::LogitBias> logit_bias(const Json& options) {
  std::vector<engine::LogitBias> biases;
  const auto found = options.find("logit_bias");
  if (found == options.end()) return biases;
  if (!found->is_array()) refuse("logit_bias", "an array of [token, bias]");
  for (const Json& pair : *found) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                         pair[0].get<uint64_t>() <= static_cast<uint64_t>(kMaxInt32) &&
                         (pair[1].is_number() || pair[1].is_null());
    if (!is_pair) refuse("logit_bias", "an array of [token, bias]; a bias of null bans the token");
    biases.push_back({pair[0].get<int32_t>(), pair[1].is_null()
                                                  ? -std::numeric_limits<float>::infinity()
                                                  : pair[1].get<float>()});
  }
  return biases;
}

SamplingOptions sampling(const Json& head) {
  SamplingOptions sampling;
  const Json options = head.value("options", Json::object());
  if (!options.is_object()) refuse("options", "an object");
  for (const FloatOption& option : kFloats) {
    const auto found = options.find(option.name);
    if (found == options.end()) continue;
    if (!found->is_number()) refuse(option.name, "a number");
    sampling.*option.field = found->get<float>();
  }
  for (const IntOption& option : kInts) {
    sampling.*option.field =
        static_cast<int32_t>(integer(options, option.name, sampling.*option.field, -1, kMaxInt32));
  }
  sampling.seed = integer(options, "seed", sampling.seed, std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::max());
  sampling.logit_bias = logit_bias(options);
  sampling.logprobs = boolean(head, "logprobs");
  sampling.top_logprobs = static_cast<int32_t>(integer(head, "top_logprobs", 0, 0, 20));
  sampling.validate();
  return sampling;
}

engine::ContextOptions context_options(const Json& head) {
  engine::ContextOptions options;
  options.max_context = static_cast<size_t>(integer(head, "max_context", 0, 0, kMaxTokens));
  const Json sizes = head.value("sizes", Json::array());
  if (!sizes.is_array()) refuse("sizes", "an array of integers");
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(kMaxTokens))
      refuse("sizes", "an array of integers");
    options.sizes.push_back(size.get<size_t>());
  }
  const Json policy = head.value("overflow_policy", Json("stop"));
  if (policy == "refill")
    options.policy = context::OverflowPolicy::kRefill;
  else if (policy == "shift")
    options.policy = context::OverflowPolicy::kShift;
  else if (policy != "stop")
    refuse("overflow_policy", "\"refill\", \"shift\" or \"stop\"");
  const context::CompactionOptions usual;
  options.compaction = {
      static_cast<size_t>(integer(head, "reserve_batches",
                                  static_cast<int64_t>(usual.reserve_batches), 0, kMaxTokens)),
      static_cast<size_t>(
          integer(head, "overflow_batch", static_cast<int64_t>(usual.batch), 1, kMaxTokens))};
  return options;
}

std::vector<std::string> texts_of(const Json& head, const char* field) {
  const Json list = head.value(field, Json::array());
  std::vector<std::string> strings;
  if (!list.is_array()) refuse(field, "an array of strings");
  for (const Json& text : list) {
    if (!text.is_string()) refuse(field, "an array of strings");
    strings.push_back(text.get<std::string>());
  }
  return strings;
}

engine::AdapterFiles adapters_of(const Json& head) {
  engine::AdapterFiles adapters;
  for (std::string& path : texts_of(head, "adapters"))
    adapters.push_back({.path = std::move(path)});
  return adapters;
}

std::string string_of(const Json& head, const char* field) {
  const auto found = head.find(field);
  if (found == head.end()) return "";
  if (!found->is_string()) refuse(field, "a string");
  return found->get<std::string>();
}

std::optional<constraint::Constraint> constraint_of(const Json& head) {
  const auto found = head.find("constraint");
  if (found == head.end()) return std::nullopt;
  if (!found->is_object()) refuse("constraint", "an object");
  constexpr std::string_view kFields[] = {"kind",          "text",         "starts_after",
                                          "forced_next",   "opens_with",   "starts_within",
                                          "may_not_start", "repeats_after"};
  for (const auto& [name, value] : found->items())
    if (std::ranges::find(kFields, name) == std::end(kFields))
      throw Error(ErrorCode::kInvalidInput, "field \"constraint\" has no field \"" + name + "\"");
  const auto kind = constraint::find_grammar_kind(string_of(*found, "kind"));
  if (!kind) refuse("kind", "\"json_object\", \"json_schema\", \"regex\", \"lark\" or \"gbnf\"");
  constraint::Constraint constraint = {
      .grammar = {*kind, string_of(*found, "text")},
      .starts_after = string_of(*found, "starts_after"),
      .forced_next = string_of(*found, "forced_next"),
      .opens_with = string_of(*found, "opens_with"),
      .starts_within = static_cast<size_t>(integer(*found, "starts_within", 0, 0, kMaxTokens)),
      .may_not_start = boolean(*found, "may_not_start"),
      .repeats_after = string_of(*found, "repeats_after")};
  constraint::check_start(constraint);
  return constraint;
}

// Parses n token ids. `field` is the field that contains n, for the error message.
std::vector<int32_t> token_ids(std::string_view bytes, size_t n, const char* field) {
  if (bytes.size() != n * sizeof(int32_t)) {
    throw Error(ErrorCode::kInvalidInput,
                "field \"" + std::string(field) + "\" announces " + std::to_string(n) +
                    " tokens, but " + std::to_string(bytes.size()) + " bytes of token ids follow");
  }
  std::vector<int32_t> ids(n);
  if (n > 0) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

// Parses the images after the token ids. Their positions must ascend and be inside the prompt.
std::vector<context::PromptImage> images_of(const Json& head, size_t n_prompt, size_t n_text,
                                            std::string_view bytes) {
  std::vector<context::PromptImage> images;
  const Json list = head.value("images", Json::array());
  if (!list.is_array()) refuse("images", "an array of objects");
  int64_t at = 0;
  int64_t text_at = 0;
  for (const Json& entry : list) {
    if (!entry.is_object()) refuse("images", "an array of objects");
    at = integer(entry, "at", 0, at, static_cast<int64_t>(n_prompt));
    text_at = integer(entry, "text_at", 0, text_at, static_cast<int64_t>(n_text));
    const auto n_rows = integer(entry, "n_rows", 0, 0, kMaxTokens);
    const auto n_bytes =
        static_cast<size_t>(integer(entry, "n_bytes", 0, 0, static_cast<int64_t>(bytes.size())));
    images.push_back({.at = static_cast<size_t>(at),
                      .text_at = static_cast<size_t>(text_at),
                      .n_rows = static_cast<size_t>(n_rows),
                      .png = std::string(bytes.substr(0, n_bytes))});
    bytes.remove_prefix(n_bytes);
  }
  if (!bytes.empty())
    throw Error(ErrorCode::kInvalidInput,
                std::to_string(bytes.size()) + " bytes follow after the last image");
  return images;
}

Json logprob_json(int32_t token, float logprob, const tokenizer::Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.has(token) ? tokenizer.piece(token, true) : "";
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"id", token},
          {"token", utf8::sanitized(bytes)},
          {"logprob", logprob},
          {"bytes", std::move(list)}};
}

void add_logprobs(Json& out, const char* name, const std::vector<engine::Sampled>& tokens,
                  const tokenizer::Tokenizer& tokenizer) {
  for (const engine::Sampled& sampled : tokens) {
    Json entry = logprob_json(sampled.token, sampled.logprob, tokenizer);
    for (const engine::TokenLogprob& other : sampled.top)
      entry["top_logprobs"].push_back(logprob_json(other.token, other.logprob, tokenizer));
    out[name].push_back(std::move(entry));
  }
}

// All text should be valid UTF-8 here. If some text is not, U+FFFD replaces the invalid bytes.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_only_text(const Chunk& chunk) {
  return chunk.marks.empty() && chunk.sampled.empty() && chunk.prompt.empty() &&
         chunk.events.empty() && chunk.prefill.empty() && !chunk.asking;
}

// Encodes a chunk with only text, which is nearly every chunk. Text without escapes skips the JSON
// library.
std::string text_line(const std::string& text) {
  if (!is_plain_json_string(text)) return line(text);
  std::string out;
  out.reserve(text.size() + 3);
  return out.append("\"").append(text).append("\"\n");
}

struct Parts {
  Json head;
  std::string_view ids;
};

Parts parts_of(std::string_view body) {
  const size_t end = body.find('\n');
  if (end == std::string_view::npos)
    throw Error(ErrorCode::kInvalidInput, "the body must be a line of JSON and token ids");
  Json head = Json::parse(body.substr(0, end), nullptr, false);
  if (!head.is_object())
    throw Error(ErrorCode::kInvalidInput, "the body's first line must be a JSON object");
  return {std::move(head), body.substr(end + 1)};
}

std::vector<int32_t> prediction_of(const Json& head) {
  std::vector<int32_t> tokens;
  const auto found = head.find("prediction");
  if (found == head.end()) return tokens;
  if (!found->is_array()) refuse("prediction", "a list of token ids");
  for (const Json& token : *found) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() > static_cast<uint64_t>(kMaxInt32))
      refuse("prediction", "a list of token ids");
    tokens.push_back(token.get<int32_t>());
  }
  return tokens;
}

}  // namespace

AnswerRequest parse_completion(std::string_view body) {
  const auto [head, ids] = parts_of(body);
  AnswerRequest request;
  const auto n_prompt = static_cast<size_t>(integer(head, "n_prompt", 0, 0, kMaxTokens));
  const size_t n_id_bytes = head.contains("images") ? n_prompt * sizeof(int32_t) : ids.size();
  request.prompt = token_ids(ids.substr(0, n_id_bytes), n_prompt, "n_prompt");
  request.prompt_text = string_of(head, "prompt_text");
  if (head.contains("images"))
    request.images = images_of(head, n_prompt, request.prompt_text.size(), ids.substr(n_id_bytes));
  request.options.sampling = sampling(head);
  request.options.max_new_tokens =
      integer(head, "num_predict", -1, -2, std::numeric_limits<int64_t>::max());
  request.options.ignore_eos = boolean(head, "ignore_eos");
  request.options.scores_prompt = boolean(head, "prompt_logprobs");
  if (head.contains("max_draft"))
    request.options.max_draft = static_cast<size_t>(integer(head, "max_draft", 0, 0, kMaxTokens));
  request.options.prediction = prediction_of(head);
  request.options.context = context_options(head);
  request.stop = texts_of(head, "stop");
  request.markers = texts_of(head, "markers");
  request.ends_repetition = boolean(head, "ends_repetition");
  request.max_repeats = static_cast<size_t>(integer(head, "max_repeats", 0, 0, kMaxTokens));
  request.constraint = constraint_of(head);
  request.whole = boolean(head, "whole");
  request.options.is_bulk = boolean(head, "bulk");
  request.options.adapters = adapters_of(head);
  request.options.salt =
      static_cast<uint64_t>(integer(head, "salt", 0, 0, static_cast<int64_t>(kv::kMaxSalt)));
  return request;
}

std::string piece_line(const Chunk& chunk, const tokenizer::Tokenizer& tokenizer) {
  if (is_only_text(chunk)) return text_line(chunk.text);
  Json out = Json::object();
  if (!chunk.text.empty()) out["text"] = chunk.text;
  for (const engine::TextMark& mark : chunk.marks)
    out["marks"].push_back({mark.offset, mark.length});
  add_logprobs(out, "logprobs", chunk.sampled, tokenizer);
  add_logprobs(out, "prompt_logprobs", chunk.prompt, tokenizer);
  for (const engine::SequenceEvent& event : chunk.events) {
    Json entry = engine::event_json(event);
    entry["text"] = engine::event_line(event);
    out["events"].push_back(std::move(entry));
  }
  for (const Prefill& part : chunk.prefill)
    out["prefill"].push_back({{"n", part.n_done}, {"duration", part.time.count()}});
  if (chunk.asking) out["asking"] = true;
  return line(out);
}

std::string end_line(const AnswerEnd& end) {
  Json out = {{"done", true},
              {"done_reason", engine::finish_reason_name(end.reason)},
              {"seed", end.seed},
              {"prompt_eval_count", end.n_prompt},
              {"prompt_cached_count", end.n_shared},
              {"queue_duration", end.queued.count()},
              {"prompt_eval_duration", end.prompted.count()},
              {"eval_count", end.n_sampled},
              {"eval_duration", end.written.count()},
              {"tokens", end.tokens}};
  if (end.pictures_prepared.count() > 0) {
    out["picture_prepare_duration"] = end.pictures_prepared.count();
    out["picture_encode_duration"] = end.pictures_encoded.count();
  }
  if (end.guide.n_masks > 0) {
    out["mask_duration"] = end.guide.mask_time.count();
    out["forced_count"] = end.guide.n_forced;
  }
  if (end.n_drafted > 0) {
    out["drafted_count"] = end.n_drafted;
    out["draft_accepted_count"] = end.n_draft_accepted;
  }
  if (!end.stop_string.empty()) out["stop_string"] = end.stop_string;
  if (!end.error.empty()) out["error"] = end.error;
  return line(out);
}

namespace {

// Returns a number of tokens for each text, each at most kMaxTokens.
std::vector<size_t> counts_of(const Json& head, const char* field) {
  const Json list = head.value(field, Json());
  const auto is_count = [](const Json& n) {
    return n.is_number_unsigned() && n.get<uint64_t>() <= static_cast<uint64_t>(kMaxTokens);
  };
  if (!list.is_array() || !std::ranges::all_of(list, is_count))
    refuse(field, "an array of token counts");
  return list.get<std::vector<size_t>>();
}

void append_values(std::string& out, const std::vector<float>& values) {
  const size_t at = out.size();
  out.resize(at + values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(out.data() + at, values.data(), out.size() - at);
}

}  // namespace

engine::EmbedRequest parse_embed(std::string_view body) {
  const auto [head, ids] = parts_of(body);
  const std::vector<size_t> lengths = counts_of(head, "n");
  std::vector<size_t> firsts(lengths.size());
  if (head.contains("first")) firsts = counts_of(head, "first");
  if (firsts.size() != lengths.size()) refuse("first", "of the same length as \"n\"");
  const std::string pooling = string_of(head, "pooling");
  const engine::AdapterFiles adapters = adapters_of(head);
  const std::vector<int32_t> all =
      token_ids(ids, std::accumulate(lengths.begin(), lengths.end(), size_t{0}), "n");
  engine::EmbedRequest request;
  request.client = string_of(head, "client");
  request.is_bulk = boolean(head, "bulk");
  auto begin = all.begin();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto end = begin + static_cast<std::ptrdiff_t>(lengths[i]);
    engine::EmbedText& text = request.texts.emplace_back();
    text.tokens.assign(begin, end);
    text.n_first = firsts[i];
    text.adapters = adapters;
    if (!pooling.empty()) text.pooling = engine::find_pooling(pooling);
    if (!pooling.empty() && !text.pooling) refuse("pooling", "a pooling name");
    if (text.n_first > lengths[i]) refuse("first", "at most the number in \"n\"");
    begin = end;
  }
  return request;
}

std::string embed_answer(const Vectors& vectors) {
  std::string out =
      line({{"n_vectors", vectors.n}, {"size", vectors.size}, {"duration", vectors.time.count()}});
  append_values(out, vectors.values);
  return out;
}

std::string embed_answer(const engine::EmbedAnswers& answers) {
  Json sizes = Json::array();
  Json errors = Json::array();
  size_t size = 0;
  size_t n_values = 0;
  bool are_alike = true;
  for (size_t i = 0; i < answers.texts.size(); ++i) {
    const engine::EmbedAnswer& answer = answers.texts[i];
    if (i == 0) size = answer.values.size();
    are_alike = are_alike && answer.values.size() == size;
    n_values += answer.values.size();
    sizes.push_back(answer.values.size());
    if (!answer.error.empty())
      errors.push_back(
          {{"index", i}, {"status", answer.status}, {"error", utf8::sanitized(answer.error)}});
  }
  Json head = {
      {"n_vectors", answers.texts.size()}, {"size", size}, {"duration", answers.time.count()}};
  if (!are_alike) head["sizes"] = std::move(sizes);
  if (!errors.empty()) head["errors"] = std::move(errors);
  std::string out = line(head);
  out.reserve(out.size() + n_values * sizeof(float));
  for (const engine::EmbedAnswer& answer : answers.texts) append_values(out, answer.values);
  return out;
}

std::string error_line(std::string_view message) {
  return line({{"error", utf8::sanitized(message)}});
}

}  // namespace billow::runner
