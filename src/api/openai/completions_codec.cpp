#include "api/openai/completions_codec.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"

namespace billow::api::openai {
namespace {

// How many characters a text has, each stray byte counted as one.
size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(utf8::decode(text).n_bytes);
  return n;
}

// Gathers the entries of tokens into lists, one for each of their fields.
class LogprobLists {
 public:
  explicit LogprobLists(size_t offset = 0) : offset_(offset) {}

  void add(const std::vector<Logprob>& logprobs) {
    for (const Logprob& logprob : logprobs) {
      tokens_.push_back(logprob.token);
      token_logprobs_.push_back(logprob.logprob);
      Json top = Json::object();
      for (const Logprob& other : logprob.top) top.emplace(other.token, other.logprob);
      top_logprobs_.push_back(std::move(top));
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

Json choice_json(const std::string& text, std::string_view reason, const LogprobLists& logprobs) {
  Json choice;
  choice["text"] = text;
  choice["index"] = 0;
  choice["finish_reason"] = finish_reason(reason);
  if (!logprobs.empty()) choice["logprobs"] = logprobs.to_json();
  return choice;
}

class CompletionObject : public TextAnswer {
 public:
  using TextAnswer::TextAnswer;

  bool delta(const Delta& delta) override {
    text_ += delta.content;
    logprobs_.add(delta.logprobs);
    return !call_.stop().stop_requested();
  }

  bool holds_back() const override { return true; }
  void restart() override {
    text_.clear();
    logprobs_ = LogprobLists();
  }

  bool end(const Ending& ending) override { return respond(answer(ending)); }

  bool rendered(const std::string& prompt, size_t n_images) override {
    Json object = answer({});
    object["_debug_info"]["rendered_template"] = prompt;
    if (n_images > 0) object["_debug_info"]["image_count"] = n_images;
    return respond(object);
  }

 private:
  Json answer(const Ending& ending) const {
    Json object = answer_object(head_, "text_completion");
    object["choices"] = Json::array({choice_json(text_, ending.done_reason, logprobs_)});
    object["usage"] = usage_json(ending);
    return object;
  }

  std::string text_;
  LogprobLists logprobs_;
};

class CompletionStream : public TextAnswer {
 public:
  CompletionStream(Call& call, AnswerHead head, bool include_usage, SteadyNow now)
      : TextAnswer(call, std::move(head)),
        stream_(call, std::move(now)),
        include_usage_(include_usage),
        chunk_head_(chunk_head(head_, "text_completion")) {}

  void still_working() override { stream_.still_working(); }
  bool fail(int status, std::string_view text) override { return stream_.fail(status, text); }

  bool delta(const Delta& delta) override {
    std::string events = comments(delta.events);
    // What was thought has no place in this form, but shows that something is written.
    if (!delta.content.empty() || !delta.thinking.empty() || !delta.logprobs.empty()) {
      LogprobLists logprobs(offset_);
      logprobs.add(delta.logprobs);
      offset_ = logprobs.offset();
      add_chunk(events, delta.content, "", logprobs);
    }
    return stream_.write(events);
  }

  bool end(const Ending& ending) override {
    std::string events;
    add_chunk(events, "", ending.done_reason, LogprobLists());
    if (include_usage_) {
      events += chunk_head_ + "[],\"usage\":" + to_text(usage_json(ending)) + "}\n\n";
    }
    return stream_.finish(events.append(kDone));
  }

  // What is only rendered is not streamed: decode_common.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  void add_chunk(std::string& events, const std::string& text, std::string_view reason,
                 const LogprobLists& logprobs) const {
    events += chunk_head_ + "[" + to_text(choice_json(text, reason, logprobs)) + "]";
    // Where usage is asked for, every chunk has one.
    if (include_usage_) {
      events += R"(,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})";
    }
    events += "}\n\n";
  }

  EventStream stream_;
  const bool include_usage_;
  const std::string chunk_head_;
  size_t offset_ = 0;  // characters of the tokens so far
};

}  // namespace

TextRequest decode_completion(std::string_view body) {
  const Fields fields = parse_body(body, "CompletionRequest");
  TextRequest request = decode_common(fields);
  GenerationRequest& generation = request.generation;
  generation.kind = GenerationKind::kPrompt;
  generation.prompt = fields.text("prompt");
  generation.suffix = fields.text("suffix");
  generation.options_json = sampling_options(fields, TextRoute::kCompletions);
  generation.top_logprobs = top_logprobs(fields, "logprobs");
  generation.logprobs = generation.top_logprobs > 0;
  return request;
}

std::unique_ptr<TextAnswer> completion_answer(Call& call, AnswerHead head,
                                              const TextRequest& request, SteadyNow now) {
  if (!request.stream) return std::make_unique<CompletionObject>(call, std::move(head));
  return std::make_unique<CompletionStream>(call, std::move(head), request.include_usage,
                                            std::move(now));
}

}  // namespace billow::api::openai
