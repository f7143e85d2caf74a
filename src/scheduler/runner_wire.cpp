#include "scheduler/runner_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_string.h"
#include "base/utf8.h"
#include "http/status.h"
#include "scheduler/messages.h"

namespace billow::scheduler {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent without conversion");

[[noreturn]] void malformed(const std::string& what) {
  throw http::StatusError(kServerError, "the model runner sent a malformed response: " + what);
}

Json parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) malformed("not a JSON object");
  return json;
}

// Returns null if the field is absent.
const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

[[noreturn]] void wrong_kind(const char* name, const char* wanted) {
  malformed(fmt::format("field \"{}\" must be {}", name, wanted));
}

std::string text_of(const Json& value, const char* name) {
  if (!value.is_string()) wrong_kind(name, "a string");
  return value.get<std::string>();
}

std::string text_field(const Json& object, const char* name) {
  const Json* value = find(object, name);
  return value == nullptr ? std::string() : text_of(*value, name);
}

bool flag_field(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) wrong_kind(name, "true or false");
  return value->get<bool>();
}

uint64_t count_of(const Json& value, const char* name, uint64_t max) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > max) wrong_kind(name, "a count");
  return value.get<uint64_t>();
}

uint64_t count_field(const Json& object, const char* name,
                     uint64_t max = std::numeric_limits<uint64_t>::max()) {
  const Json* value = find(object, name);
  return value == nullptr ? 0 : count_of(*value, name, max);
}

std::chrono::nanoseconds duration_field(const Json& object, const char* name) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return std::chrono::nanoseconds(static_cast<int64_t>(count_field(object, name, kMax)));
}

int64_t seed_field(const Json& object) {
  const Json* value = find(object, "seed");
  if (value == nullptr) return 0;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > kMax))
    wrong_kind("seed", "a 64-bit integer");
  return value->get<int64_t>();
}

// Returns an array field. Returns an empty array if the field is absent.
const Json& list_field(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  const Json* value = find(object, name);
  if (value == nullptr) return kNone;
  if (!value->is_array()) wrong_kind(name, "a list");
  return *value;
}

std::vector<int32_t> token_list(const Json& object) {
  std::vector<int32_t> tokens;
  for (const Json& value : list_field(object, "tokens"))
    tokens.push_back(
        static_cast<int32_t>(count_of(value, "tokens", std::numeric_limits<int32_t>::max())));
  return tokens;
}

float number_of(const Json& value, const char* name) {
  // JSON has no form for infinity, so that null stands for it.
  if (value.is_null()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) wrong_kind(name, "a number");
  const double number = value.get<double>();
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(number, -kMax, kMax));
}

TokenLogprob logprob_of(const Json& entry) {
  if (!entry.is_object()) wrong_kind("logprobs", "a list of objects");
  TokenLogprob logprob;
  logprob.token = text_field(entry, "token");
  if (const Json* value = find(entry, "logprob")) logprob.logprob = number_of(*value, "logprob");
  for (const Json& byte : list_field(entry, "bytes"))
    logprob.bytes += static_cast<char>(static_cast<unsigned char>(count_of(byte, "bytes", 255)));
  if (const Json* value = find(entry, "id"))
    logprob.id = static_cast<int32_t>(count_of(*value, "id", std::numeric_limits<int32_t>::max()));
  return logprob;
}

std::vector<TokenLogprob> logprobs_of(const Json& line, const char* name) {
  std::vector<TokenLogprob> logprobs;
  for (const Json& entry : list_field(line, name)) {
    TokenLogprob& logprob = logprobs.emplace_back(logprob_of(entry));
    for (const Json& other : list_field(entry, "top_logprobs"))
      logprob.top.push_back(logprob_of(other));
  }
  return logprobs;
}

// Checks that the marks ascend without overlap and are inside the text.
std::vector<TextMark> marks_of(const Json& line, size_t n_bytes) {
  std::vector<TextMark> marks;
  size_t begin = 0;
  for (const Json& entry : list_field(line, "marks")) {
    if (!entry.is_array() || entry.size() != 2) wrong_kind("marks", "a list of pairs");
    const auto offset = static_cast<size_t>(count_of(entry[0], "marks", n_bytes));
    const auto length = static_cast<size_t>(count_of(entry[1], "marks", n_bytes - offset));
    if (offset < begin) malformed("field \"marks\" is not in order");
    marks.push_back({offset, length});
    begin = offset + length;
  }
  return marks;
}

// Parses a line that is a string: a chunk with only text.
std::string text_line(std::string_view line) {
  if (line.size() >= 2 && line.ends_with('"')) {
    const std::string_view text = line.substr(1, line.size() - 2);
    if (is_plain_json_string(text)) return std::string(text);
  }
  return text_of(Json::parse(line, nullptr, false), "text");
}

CompletionPiece piece_of(const Json& line) {
  CompletionPiece piece;
  piece.text = text_field(line, "text");
  piece.marks = marks_of(line, piece.text.size());
  piece.logprobs = logprobs_of(line, "logprobs");
  piece.prompt_logprobs = logprobs_of(line, "prompt_logprobs");
  for (const Json& event : list_field(line, "events")) {
    if (!event.is_object()) wrong_kind("events", "a list of objects");
    piece.events.push_back(json_text(event));
  }
  for (const Json& chunk : list_field(line, "prefill")) {
    if (!chunk.is_object()) wrong_kind("prefill", "a list of objects");
    piece.prefill.push_back({count_field(chunk, "n"), duration_field(chunk, "duration")});
  }
  piece.is_asking = flag_field(line, "asking");
  return piece;
}

CompletionEnd end_of(const Json& line) {
  CompletionEnd end;
  end.done_reason = text_field(line, "done_reason");
  end.stop_string = text_field(line, "stop_string");
  end.error = text_field(line, "error");
  end.seed = seed_field(line);
  end.n_prompt = count_field(line, "prompt_eval_count");
  end.n_cached = count_field(line, "prompt_cached_count");
  end.n_generated = count_field(line, "eval_count");
  end.tokens = token_list(line);
  end.queued = duration_field(line, "queue_duration");
  end.prompted = duration_field(line, "prompt_eval_duration");
  end.written = duration_field(line, "eval_duration");
  end.masked = duration_field(line, "mask_duration");
  end.pictures_prepared = duration_field(line, "picture_prepare_duration");
  end.pictures_encoded = duration_field(line, "picture_encode_duration");
  end.n_forced = count_field(line, "forced_count");
  end.n_drafted = count_field(line, "drafted_count");
  end.n_draft_accepted = count_field(line, "draft_accepted_count");
  return end;
}

void append_tokens(std::string& body, const std::vector<int32_t>& tokens) {
  const size_t at = body.size();
  body.resize(at + tokens.size() * sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(body.data() + at, tokens.data(), body.size() - at);
}

RunnerStatus status_of_runner(const std::string& name) {
  if (name == "ready") return RunnerStatus::kReady;
  if (name == "failed") return RunnerStatus::kFailed;
  if (name == "loading") return RunnerStatus::kLoading;
  malformed("status \"" + name + "\"");
}

}  // namespace

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

Json constraint_json(const constraint::Constraint& constraint) {
  return {{"kind", constraint::grammar_kind_name(constraint.grammar.kind)},
          {"text", constraint.grammar.text},
          {"starts_after", constraint.starts_after},
          {"forced_next", constraint.forced_next},
          {"opens_with", constraint.opens_with},
          {"starts_within", constraint.starts_within},
          {"may_not_start", constraint.may_not_start},
          {"repeats_after", constraint.repeats_after}};
}

}  // namespace

std::string completion_body(const Completion& request) {
  Json head = {{"n_prompt", request.prompt.size()},
               {"options", to_json(request.sampling)},
               {"stop", request.stop},
               {"num_predict", request.num_predict},
               {"ignore_eos", request.ignore_eos},
               {"logprobs", request.logprobs},
               {"top_logprobs", request.top_logprobs},
               {"prompt_logprobs", request.prompt_logprobs},
               {"max_context", request.max_context},
               {"sizes", request.sizes},
               {"overflow_policy", request.overflow_policy},
               {"reserve_batches", request.reserve_batches},
               {"overflow_batch", request.overflow_batch},
               {"max_repeats", request.max_repeats},
               {"ends_repetition", request.ends_repetition},
               {"markers", request.markers}};
  if (!request.adapters.empty()) head["adapters"] = request.adapters;
  if (request.salt != 0) head["salt"] = request.salt;
  if (request.max_draft) head["max_draft"] = *request.max_draft;
  if (!request.prediction.empty()) head["prediction"] = request.prediction;
  if (request.may_begin_again) head["whole"] = true;
  if (request.is_bulk) head["bulk"] = true;
  if (request.constraint) head["constraint"] = constraint_json(*request.constraint);
  if (!request.images.empty()) head["prompt_text"] = request.prompt_text;
  for (const context::PromptImage& image : request.images)
    head["images"].push_back({{"at", image.at},
                              {"text_at", image.text_at},
                              {"n_rows", image.n_rows},
                              {"n_bytes", image.png.size()}});
  std::string body = json_text(head) + "\n";
  append_tokens(body, request.prompt);
  for (const context::PromptImage& image : request.images) body += image.png;
  return body;
}

CompletionLine parse_completion_line(std::string_view line) {
  CompletionLine parsed;
  if (line.starts_with('"')) {
    parsed.piece.text = text_line(line);
    return parsed;
  }
  const Json json = parse_object(line);
  parsed.is_end = flag_field(json, "done");
  if (parsed.is_end) {
    parsed.end = end_of(json);
  } else if (find(json, "error") != nullptr) {
    throw http::StatusError(kServerError, text_field(json, "error"));
  } else {
    parsed.piece = piece_of(json);
  }
  return parsed;
}

std::string embed_body(const EmbedJob& job) {
  Json lengths = Json::array();
  Json firsts = Json::array();
  bool has_pairs = false;
  for (const EmbedInput& input : job.inputs) {
    lengths.push_back(input.tokens.size());
    firsts.push_back(input.n_first);
    has_pairs |= input.n_first > 0;
  }
  Json head = {{"n", std::move(lengths)}};
  if (has_pairs) head["first"] = std::move(firsts);
  if (!job.pooling.empty()) head["pooling"] = job.pooling;
  if (job.is_bulk) head["bulk"] = true;
  if (!job.client.empty()) head["client"] = job.client;
  if (!job.adapters.empty()) head["adapters"] = job.adapters;
  std::string body = json_text(head) + "\n";
  for (const EmbedInput& input : job.inputs) append_tokens(body, input.tokens);
  return body;
}

namespace {

// Returns the number of values per vector: "size" for all, or the numbers in "sizes".
std::vector<uint64_t> vector_sizes(const Json& head, size_t n_vectors) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 32;
  if (count_field(head, "n_vectors") != n_vectors)
    malformed(fmt::format("expected {} vectors", n_vectors));
  const Json* sizes = find(head, "sizes");
  if (sizes == nullptr)
    return std::vector<uint64_t>(n_vectors, count_field(head, "size", kMaxSize));
  if (!sizes->is_array() || sizes->size() != n_vectors) wrong_kind("sizes", "a list of sizes");
  std::vector<uint64_t> out;
  for (const Json& size : *sizes) out.push_back(count_of(size, "sizes", kMaxSize));
  return out;
}

void add_errors(const Json& head, EmbedOutputs& outputs) {
  const Json* errors = find(head, "errors");
  if (errors == nullptr) return;
  if (!errors->is_array()) wrong_kind("errors", "a list of objects");
  for (const Json& entry : *errors) {
    if (!entry.is_object()) wrong_kind("errors", "a list of objects");
    const uint64_t index = count_field(entry, "index");
    if (index >= outputs.size()) malformed("an error for an unknown input");
    outputs[index].error = text_field(entry, "error");
    outputs[index].status = static_cast<int>(count_field(entry, "status", 599));
  }
}

}  // namespace

EmbedOutputs parse_vectors(std::string_view body, size_t n_vectors) {
  const size_t end = body.find('\n');
  if (end == std::string_view::npos) malformed("missing line before the vectors");
  const Json head = parse_object(body.substr(0, end));
  std::string_view bytes = body.substr(end + 1);
  EmbedOutputs outputs(n_vectors);
  add_errors(head, outputs);
  const std::vector<uint64_t> sizes = vector_sizes(head, n_vectors);
  for (size_t i = 0; i < n_vectors; ++i) {
    if (sizes[i] > bytes.size() / sizeof(float)) malformed("wrong size of the vectors");
    if (sizes[i] == 0 && outputs[i].error.empty()) malformed("a vector without values");
    outputs[i].values.resize(sizes[i]);
    if (sizes[i] == 0) continue;
    std::memcpy(outputs[i].values.data(), bytes.data(), sizes[i] * sizeof(float));
    bytes.remove_prefix(sizes[i] * sizeof(float));
  }
  if (!bytes.empty()) malformed("wrong size of the vectors");
  return outputs;
}

namespace {

double number_field(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (value == nullptr) return 0.0;
  if (!value->is_number() || !(value->get<double>() >= 0.0))
    wrong_kind(name, "a non-negative number");
  return value->get<double>();
}

// Returns the time for a number of tokens at a rate, or 0 if the rate is unknown.
double seconds_of(const Json& object, const char* tokens, const char* rate) {
  const double per_second = number_field(object, rate);
  return per_second > 0.0 ? static_cast<double>(count_field(object, tokens)) / per_second : 0.0;
}

std::vector<Figure> figures_field(const Json& object) {
  const Json* list = find(object, "figures");
  if (list == nullptr) return {};
  try {
    return parse_figures(*list);
  } catch (const Error& error) {
    malformed(error.what());
  }
}

// Returns the passes of an array of [number, time_ms, texts, tokens, ms].
std::vector<PassRecord> passes_field(const Json& object) {
  constexpr const char* kName = "embed_passes";
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  std::vector<PassRecord> passes;
  for (const Json& row : list_field(object, kName)) {
    if (!row.is_array() || row.size() != 5 || !row[4].is_number())
      wrong_kind(kName, "a list of rows of five numbers");
    const auto count = [&](size_t i) { return count_of(row[i], kName, kMax); };
    passes.push_back({.number = count(0),
                      .time_ms = static_cast<int64_t>(count(1)),
                      .n_texts = count(2),
                      .n_tokens = count(3),
                      .ms = std::max(0.0, row[4].get<double>())});
    if (passes.size() > 1 && passes.back().number <= passes[passes.size() - 2].number)
      wrong_kind(kName, "in ascending order");
  }
  return passes;
}

}  // namespace

RunnerHealth parse_health(std::string_view body) {
  const Json json = parse_object(body);
  RunnerHealth health;
  health.status = status_of_runner(text_field(json, "status"));
  health.error = text_field(json, "error");
  health.out_of_memory = flag_field(json, "out_of_memory");
  health.n_loaded = count_field(json, "loaded");
  health.n_to_load = count_field(json, "to_load");
  health.n_running = count_field(json, "running");
  health.n_waiting = count_field(json, "waiting");
  health.max_context = count_field(json, "max_context");
  health.budget_version = count_field(json, "budget_version");
  health.held_bytes = count_field(json, "held");
  health.cached_bytes = count_field(json, "cached");
  health.wanted_bytes = count_field(json, "wanted");
  health.is_asking = flag_field(json, "asking");
  health.resident_bytes = count_field(json, "resident");
  health.busy_ratio = number_field(json, "busy_ratio");
  health.backlog_seconds = seconds_of(json, "pending_prompt_tokens", "prompt_tokens_per_second") +
                           seconds_of(json, "pending_decode_tokens", "decode_tokens_per_second");
  health.embed_pending_tokens = count_field(json, "embed_pending_tokens");
  health.engine = text_field(json, "engine");
  health.gpu_bytes = count_field(json, "gpu");
  health.degraded = text_field(json, "degraded");
  health.figures = figures_field(json);
  health.embed_passes = passes_field(json);
  if (const Json* memory = find(json, "memory"); memory != nullptr && memory->is_object()) {
    health.kv_used_bytes = count_field(*memory, "kv_granted_bytes");
    health.kv_block_bytes = count_field(*memory, "kv_block_bytes");
    health.kv_evicted_bytes = count_field(*memory, "kv_evicted_bytes");
    health.adapters_evicted_bytes = count_field(*memory, "adapters_evicted_bytes");
    const uint64_t fixed = saturating_add(count_field(*memory, "weights_bytes"),
                                          count_field(*memory, "scratch_granted_bytes"));
    const uint64_t budget = count_field(*memory, "budget_bytes");
    health.kv_room_bytes = budget - std::min(budget, fixed);
  }
  return health;
}

std::vector<Prefix> parse_prefixes(std::string_view body) {
  std::vector<Prefix> prefixes;
  const Json json = parse_object(body);
  for (const Json& entry : list_field(json, "prefixes")) {
    if (!entry.is_object()) wrong_kind("prefixes", "a list of objects");
    Prefix& prefix = prefixes.emplace_back();
    prefix.n_tokens = count_field(entry, "tokens");
    for (const Json& digest : list_field(entry, "digests")) {
      if (!digest.is_string()) wrong_kind("digests", "a list of strings");
      prefix.digests.push_back(digest.get<std::string>());
    }
  }
  return prefixes;
}

TextKv parse_text_kv(std::string_view body) {
  const Json json = parse_object(body);
  return {.n_tokens = count_field(json, "tokens"), .n_bytes = count_field(json, "bytes")};
}

std::string error_text(std::string_view body) {
  constexpr size_t kMaxBytes = 1000;
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object())
    if (const Json* text = find(json, "error"); text != nullptr && text->is_string())
      return text->get<std::string>();
  return utf8::sanitized(body.substr(0, kMaxBytes));
}

}  // namespace billow::scheduler
