#include "api/openai/completions_codec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/choices.h"
#include "api/json_text.h"
#include "api/openai/errors.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::api::openai {
namespace {

// Counts the characters of a text. A stray byte counts as one.
size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(utf8::decode(text).n_bytes);
  return n;
}

// Collects the entries of tokens into lists, one list for each field.
class LogprobLists {
 public:
  explicit LogprobLists(size_t offset = 0) : offset_(offset) {}

  void add(const std::vector<Logprob>& logprobs) {
    for (const Logprob& logprob : logprobs) {
      tokens_.push_back(logprob.token);
      token_logprobs_.push_back(logprob.logprob);
      Json top = Json::object();
      for (const Logprob& other : logprob.top) top.emplace(other.token, other.logprob);
      const bool has_none = std::isinf(logprob.logprob);  // the first token of a prompt
      top_logprobs_.push_back(has_none ? Json(nullptr) : std::move(top));
      text_offset_.push_back(offset_);
      offset_ += n_characters(logprob.token);
    }
  }

  bool empty() const { return tokens_.empty(); }
  size_t offset() const { return offset_; }

  Json to_json() const {
    Json object;
    object["tokens"] = tokens_;
    object["token_logprobs"] = token_logprobs_;
    object["top_logprobs"] = top_logprobs_;
    object["text_offset"] = text_offset_;
    return object;
  }

 private:
  size_t offset_;
  Json tokens_ = Json::array();
  Json token_logprobs_ = Json::array();
  Json top_logprobs_ = Json::array();
  Json text_offset_ = Json::array();
};

Json choice_json(size_t index, const std::string& text, std::string_view reason,
                 const LogprobLists& logprobs) {
  Json choice;
  choice["text"] = text;
  choice["index"] = index;
  choice["finish_reason"] = finish_reason(reason);
  if (!logprobs.empty()) choice["logprobs"] = logprobs.to_json();
  return choice;
}

// Appends choice_json() as text. Builds no Json if there is only text, as in most chunks.
void append_choice(std::string& out, size_t index, const std::string& text, std::string_view reason,
                   const LogprobLists& logprobs) {
  if (!reason.empty() || !logprobs.empty())
    return append_json(out, choice_json(index, text, reason, logprobs));
  append_string(out += R"({"text":)", text);
  out.append(R"(,"index":)").append(std::to_string(index)) += R"(,"finish_reason":null})";
}

class CompletionObject : public TextAnswer {
 public:
  CompletionObject(Call& call, AnswerHead head, const TextRequest& request)
      : TextAnswer(call, std::move(head)),
        n_(request.n),
        n_each_(request.best_of),
        with_logprobs_(request.shows_logprobs),
        choices_(request.generations.size() * request.best_of),
        usage_(request.best_of) {}

  bool delta(const Delta& delta) override {
    Choice& choice = choices_[delta.choice];
    for (const Event& event : delta.events)
      if (event.kind == EventKind::kText) choice.text += event.text;
    choice.logprobs.add(delta.logprobs);
    if (!delta.is_prompt) {
      for (const Logprob& one : delta.logprobs) choice.sum_logprobs += one.logprob;
      choice.n_tokens += delta.logprobs.size();
    }
    return !call_.stop().stop_requested();
  }

  bool holds_back() const override { return true; }
  void restart(size_t choice) override { choices_[choice] = {}; }

  bool end(const Ending& ending) override {
    choices_[ending.choice].reason = ending.done_reason;
    usage_.add(ending);
    return ++n_ended_ < choices_.size() || respond(answer());
  }

  bool rendered(const std::string& prompt, size_t n_images) override {
    Json object = answer();
    object["_debug_info"]["rendered_template"] = prompt;
    if (n_images > 0) object["_debug_info"]["image_count"] = n_images;
    return respond(object);
  }

 private:
  struct Choice {
    std::string text{};
    LogprobLists logprobs{};
    std::string reason{};
    double sum_logprobs = 0.0;
    size_t n_tokens = 0;

    double mean_logprob() const {
      return n_tokens == 0 ? 0.0 : sum_logprobs / static_cast<double>(n_tokens);
    }
  };

  // Returns the n best answers to one prompt, best first. If none is dropped, returns all in their
  // original order.
  std::vector<const Choice*> best_of(size_t prompt) const {
    std::vector<const Choice*> found;
    for (size_t j = 0; j < n_each_; ++j) found.push_back(&choices_[prompt * n_each_ + j]);
    if (n_ == n_each_) return found;
    std::ranges::sort(found, [](const Choice* a, const Choice* b) {
      return a->mean_logprob() != b->mean_logprob() ? a->mean_logprob() > b->mean_logprob() : a < b;
    });
    found.resize(n_);
    return found;
  }

  Json answer() const {
    Json object = answer_object(head_, "text_completion");
    Json& list = object["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size() / n_each_; ++i) {
      for (const Choice* one : best_of(i)) {
        list.push_back(choice_json(list.size(), one->text, one->reason,
                                   with_logprobs_ ? one->logprobs : LogprobLists()));
      }
    }
    object["usage"] = usage_.to_json();
    return object;
  }

  const size_t n_;
  const size_t n_each_;
  const bool with_logprobs_;
  std::vector<Choice> choices_;
  Usage usage_;
  size_t n_ended_ = 0;
};

class CompletionStream : public TextAnswer {
 public:
  CompletionStream(Call& call, AnswerHead head, const TextRequest& request, SteadyNow now)
      : TextAnswer(call, std::move(head)),
        stream_(call, std::move(now)),
        include_usage_(request.include_usage),
        chunk_head_(chunk_head(head_, "text_completion")),
        offsets_(request.generations.size() * request.n),
        usage_(request.n) {}

  void still_working() override { stream_.still_working(); }
  bool fail(int status, std::string_view text) override { return stream_.fail(status, text); }

  bool delta(const Delta& delta) override {
    // After a runner's death, the generator begins again with the prompt, which the client has.
    if (delta.is_prompt && !has_prompt_.insert(delta.choice).second) return true;
    std::string text = comments(delta.notices);
    // Thinking has no place in this form, but its empty chunks show progress.
    std::string written;
    for (const Event& event : delta.events)
      if (event.kind == EventKind::kText) written += event.text;
    if (!delta.events.empty() || !delta.logprobs.empty()) {
      LogprobLists logprobs(offsets_[delta.choice]);
      logprobs.add(delta.logprobs);
      offsets_[delta.choice] = logprobs.offset();
      add_chunk(text, delta.choice, written, "", logprobs);
    }
    return stream_.write(text);
  }

  bool end(const Ending& ending) override {
    std::string text;
    add_chunk(text, ending.choice, "", ending.done_reason, LogprobLists());
    usage_.add(ending);
    if (++n_ended_ < offsets_.size()) return stream_.write(text);
    if (include_usage_) text += chunk_head_ + "[],\"usage\":" + to_text(usage_.to_json()) + "}\n\n";
    return stream_.finish(text.append(kDone));
  }

  // Never called: a rendered prompt is not streamed (decode_common()).
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  void add_chunk(std::string& text, size_t index, const std::string& written,
                 std::string_view reason, const LogprobLists& logprobs) const {
    text.append(chunk_head_) += '[';
    append_choice(text, index, written, reason, logprobs);
    text += ']';
    // If usage is requested, every chunk has one.
    if (include_usage_) {
      text += R"(,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})";
    }
    text += "}\n\n";
  }

  EventStream stream_;
  const bool include_usage_;
  const std::string chunk_head_;
  std::set<size_t> has_prompt_;  // choices whose echoed prompt is sent
  std::vector<size_t> offsets_;  // of each choice: characters of its tokens so far
  Usage usage_;
  size_t n_ended_ = 0;
};

constexpr const char* kPromptForm =
    "field \"prompt\" must be a string, a list of strings, a list of token ids or a list of lists "
    "of "
    "token ids";

std::vector<int32_t> token_ids(const Json& list) {
  std::vector<int32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_integer()) refuse(kPromptForm);
    const int64_t value = scheduler::whole_number(id);
    if (value < 0 || value > INT32_MAX)
      refuse("field \"prompt\" has the id " + id.dump() + ", which is not a token");
    tokens.push_back(static_cast<int32_t>(value));
  }
  return tokens;
}

// Returns one generation for each prompt.
std::vector<GenerationRequest> generations_of(const Fields& fields, const GenerationRequest& base) {
  std::vector<GenerationRequest> made;
  const auto add = [&](const Json& prompt) {
    GenerationRequest& one = made.emplace_back(base);
    if (prompt.is_string())
      one.prompt = prompt.get<std::string>();
    else if (prompt.is_array() && !prompt.empty())
      one.prompt_tokens = token_ids(prompt);
    else
      refuse(kPromptForm);
  };
  const Json* prompt = fields.value("prompt");
  if (prompt == nullptr) {
    made.push_back(base);
  } else if (prompt->is_array() && !prompt->empty() && !prompt->front().is_number()) {
    for (const Json& one : *prompt) add(one);
  } else {
    add(*prompt);
  }
  return made;
}

}  // namespace

TextRequest decode_completion(std::string_view body) {
  const Fields fields = parse_body(body, "CompletionRequest");
  TextRequest request = decode_common(fields, TextRoute::kCompletions);
  GenerationRequest& base = request.generations.front();
  base.kind = GenerationKind::kPrompt;
  base.suffix = fields.text("suffix");
  // The prompt is raw by default. A suffix needs a template.
  base.raw = fields.flag("raw").value_or(base.suffix.empty());
  base.echo = fields.flag("echo").value_or(false);
  base.logprobs = fields.has("logprobs");
  base.top_logprobs = top_logprobs(fields, "logprobs");
  request.shows_logprobs = base.logprobs;
  request.best_of = fields.has("best_of") ? choices_of(fields, "best_of") : request.n;
  if (request.best_of < request.n) refuse("field \"best_of\" must be at least \"n\"");
  if (request.best_of > request.n) {
    if (request.stream) refuse("field \"best_of\" cannot be streamed if it is more than \"n\"");
    base.logprobs = true;
  }
  if (base.echo && !base.suffix.empty())
    refuse("field \"echo\" cannot be combined with \"suffix\"");
  const GenerationRequest shared = std::move(base);
  request.generations = generations_of(fields, shared);
  if (request.generations.size() * request.best_of > kMaxChoices) {
    refuse("a request has at most " + std::to_string(kMaxChoices) + " choices, this one " +
           std::to_string(request.generations.size() * request.best_of));
  }
  return request;
}

std::unique_ptr<TextAnswer> completion_answer(Call& call, AnswerHead head,
                                              const TextRequest& request, SteadyNow now) {
  if (!request.stream) return std::make_unique<CompletionObject>(call, std::move(head), request);
  return std::make_unique<CompletionStream>(call, std::move(head), request, std::move(now));
}

}  // namespace billow::api::openai
