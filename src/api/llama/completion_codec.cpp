#include "api/llama/completion_codec.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "api/cache_salt.h"
#include "api/choices.h"
#include "api/field_rules.h"
#include "api/fields.h"
#include "api/grammar_fields.h"
#include "api/llama/errors.h"
#include "api/llama/field_tables.h"
#include "api/openai/request_values.h"
#include "api/request_options.h"
#include "base/json.h"
#include "http/sse.h"
#include "http/status.h"

namespace billow::api::llama {
namespace {

// Requests.

// Parses n_probs, or else its alias logprobs. A flag as the alias asks for one alternative.
int n_probs_of(const Fields& fields) {
  if (fields.has("n_probs")) return openai::top_logprobs(fields, "n_probs");
  const Json* alias = fields.value("logprobs");
  if (alias != nullptr && alias->is_boolean()) return alias->get<bool>() ? 1 : 0;
  return openai::top_logprobs(fields, "logprobs");
}

CompletionRequest decode_common(const Fields& fields, const FieldTable& table) {
  CompletionRequest request;
  request.unknown_fields = check_fields(fields.all(), table.rules);
  GenerationRequest& generation = request.generation;
  generation.kind = GenerationKind::kPrompt;
  generation.model = fields.text("model");
  generation.raw = true;
  generation.options = openai::given_options(fields);
  // llama-server's random seed. Clients send back the settings that they got.
  if (fields.integer("seed") == UINT32_MAX) generation.options.sampling.seed = -1;
  if (const auto max_draft = fields.integer("speculative.n_max"); max_draft && *max_draft >= 0)
    generation.options.max_draft = static_cast<size_t>(*max_draft);
  generation.grammar = grammar_of(fields);
  generation.ignore_eos = fields.flag("ignore_eos").value_or(false);
  generation.keep_alive = keep_alive_of(fields.value("keep_alive"));
  generation.cache_salt = cache_salt_of(fields);
  generation.slot = openai::slot_of(fields);
  generation.top_logprobs = n_probs_of(fields);
  generation.logprobs = generation.top_logprobs > 0;
  request.n = openai::choices_of(fields, fields.has("n_cmpl") ? "n_cmpl" : "n");
  request.is_list = request.n > 1;
  request.stream = fields.flag("stream").value_or(false);
  request.response_fields = fields.texts("response_fields");
  return request;
}

// Answers.

Json logprob_json(const Logprob& logprob) {
  Json entry;
  entry["id"] = logprob.id;
  entry["token"] = logprob.token;
  entry["bytes"] = Json::array();
  for (const char byte : logprob.bytes) entry["bytes"].push_back(static_cast<unsigned char>(byte));
  entry["logprob"] = logprob.logprob;
  return entry;
}

Json logprobs_json(const std::vector<Logprob>& logprobs) {
  Json list = Json::array();
  for (const Logprob& logprob : logprobs) {
    Json entry = logprob_json(logprob);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& other : logprob.top) entry["top_logprobs"].push_back(logprob_json(other));
    list.push_back(std::move(entry));
  }
  return list;
}

// Adds the count, the total time in ms, the time per token in ms and the tokens per second.
void add_rate(Json& timings, const std::string& what, size_t n, std::chrono::nanoseconds time) {
  const double ms = std::chrono::duration<double, std::milli>(time).count();
  const auto count = static_cast<double>(n);
  timings[what + "_n"] = n;
  timings[what + "_ms"] = ms;
  timings[what + "_per_token_ms"] = n == 0 ? 0.0 : ms / count;
  timings[what + "_per_second"] = ms <= 0.0 ? 0.0 : count * 1000.0 / ms;
}

Json timings_json(const Ending& ending) {
  Json timings;
  timings["cache_n"] = ending.n_cached;
  add_rate(timings, "prompt", ending.n_prompt - std::min(ending.n_prompt, ending.n_cached),
           ending.prompted);
  add_rate(timings, "predicted", ending.n_generated, ending.written);
  if (ending.n_drafted > 0) {
    timings["draft_n"] = ending.n_drafted;
    timings["draft_n_accepted"] = ending.n_draft_accepted;
  }
  return timings;
}

const char* stop_type(const Ending& ending) {
  if (is_cut_off(ending)) return "limit";
  return ending.stop_string.empty() ? "eos" : "word";
}

// Returns the settings of the request.
Json settings_json(const GenerationRequest& generation, bool stream) {
  Json settings = scheduler::to_json(generation.options.sampling);
  settings["n_predict"] = generation.options.num_predict.value_or(-1);
  settings["stop"] = generation.options.stop.value_or(std::vector<std::string>());
  settings["ignore_eos"] = generation.ignore_eos;
  settings["n_probs"] = generation.top_logprobs;
  settings["stream"] = stream;
  return settings;
}

// Returns the requested members. They are at the top level; "a/b" is the member b of a.
Json picked(const Json& object, const std::vector<std::string>& paths) {
  if (paths.empty()) return object;
  Json made = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &object;
    std::string name;
    for (size_t begin = 0; at != nullptr && begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      name = path.substr(begin, end - begin);
      const auto found = at->is_object() ? at->find(name) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) made[name] = *at;
  }
  return made;
}

class CompletionAnswer : public CallAnswer {
 public:
  CompletionAnswer(Call& call, const CompletionRequest& request, std::vector<std::string> prompts,
                   SteadyNow now)
      : CallAnswer(call),
        request_(request),
        prompts_(std::move(prompts)),
        choices_(prompts_.size() * request.n),
        stream_(call, std::move(now)) {}

  void still_working() override {
    if (request_.stream) stream_.still_working();
  }
  bool holds_back() const override { return !request_.stream; }
  void restart(size_t choice) override { choices_[choice] = {}; }

  bool fail(int status, std::string_view text) override {
    return stream_.fail(status, text, http::sse_event(error_json(status, text)));
  }

  bool delta(const Delta& delta) override {
    Choice& choice = choices_[delta.choice];
    std::string written;
    for (const Event& event : delta.events)
      if (event.kind == EventKind::kText) written += event.text;
    choice.has_new_line = choice.has_new_line || written.find('\n') != std::string::npos;
    if (!request_.stream) {
      choice.text += written;
      choice.logprobs.insert(choice.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
      return !call_.stop().stop_requested();
    }
    Json chunk = head(delta.choice, written, false, delta.slot);
    if (!delta.logprobs.empty()) chunk["completion_probabilities"] = logprobs_json(delta.logprobs);
    return stream_.write(comments(delta.notices) + http::sse_event(to_text(chunk)));
  }

  bool end(const Ending& ending) override {
    Choice& choice = choices_[ending.choice];
    const bool is_last = ++n_ended_ == choices_.size();
    Json made = picked(whole(ending, choice), request_.response_fields);
    if (request_.stream) {
      const std::string text = http::sse_event(to_text(made));
      return is_last ? stream_.finish(text) : stream_.write(text);
    }
    choice.answer = std::move(made);
    if (!is_last) return true;
    if (!request_.is_list) return respond(choices_.front().answer);
    Json list = Json::array();
    for (Choice& one : choices_) list.push_back(std::move(one.answer));
    return respond(list);
  }

  // Never called: decode_common() requests no rendering.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  struct Choice {
    std::string text{};
    std::vector<Logprob> logprobs{};
    bool has_new_line = false;
    Json answer{};
  };

  static Json head(size_t index, const std::string& text, bool stop, int64_t slot) {
    return {{"index", index},
            {"content", text},
            {"tokens", Json::array()},
            {"stop", stop},
            {"id_slot", slot}};
  }

  Json whole(const Ending& ending, const Choice& choice) const {
    Json made = head(ending.choice, choice.text, true, ending.slot);
    made["model"] = request_.generation.model;
    made["tokens_predicted"] = ending.n_generated;
    made["tokens_evaluated"] = ending.n_prompt;
    made["generation_settings"] = settings_json(request_.generation, request_.stream);
    made["prompt"] = prompts_[ending.choice / request_.n];
    made["has_new_line"] = choice.has_new_line;
    made["truncated"] = false;  // a prompt that is too long is refused
    made["stop_type"] = stop_type(ending);
    made["stopping_word"] = ending.stop_string;
    made["tokens_cached"] = ending.n_prompt + ending.n_generated;
    made["timings"] = timings_json(ending);
    if (!choice.logprobs.empty()) made["completion_probabilities"] = logprobs_json(choice.logprobs);
    return made;
  }

  const CompletionRequest& request_;
  const std::vector<std::string> prompts_;
  std::vector<Choice> choices_;
  EventStream stream_;
  size_t n_ended_ = 0;
};

}  // namespace

CompletionRequest decode_completion(std::string_view body) {
  const Fields fields = Fields::parse(body, "CompletionRequest");
  CompletionRequest request = decode_common(fields, kCompletionFields);
  request.media = media_prompt_of(fields.value("prompt"));
  if (!request.media) request.prompts = prompts_of(fields.value("prompt"));
  const size_t n_choices = (request.media ? 1 : request.prompts.size()) * request.n;
  request.is_list = n_choices > 1;
  if (n_choices > kMaxChoices)
    throw http::StatusError(400, "a request has at most " + std::to_string(kMaxChoices) +
                                     " choices, this one " + std::to_string(n_choices));
  return request;
}

CompletionRequest decode_infill(std::string_view body) {
  const Fields fields = Fields::parse(body, "InfillRequest");
  CompletionRequest request = decode_common(fields, kInfillFields);
  request.gap = gap_of(fields);
  return request;
}

std::unique_ptr<CallAnswer> completion_answer(Call& call, const CompletionRequest& request,
                                              std::vector<std::string> prompts, SteadyNow now) {
  return std::make_unique<CompletionAnswer>(call, request, std::move(prompts), std::move(now));
}

}  // namespace billow::api::llama
