// What the answers of OpenAI's writing routes have in common: the sink that can also say that a
// request failed, and the event stream whose head is held back while nothing is written, so that a
// balancer can still send the request elsewhere. Used on the request's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "api/call.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as the client wrote it
};

using SteadyNow = std::function<metrics::Clock::time_point()>;

class TextAnswer : public Sink {
 public:
  // The call outlives the answer.
  TextAnswer(Call& call, AnswerHead head) : call_(call), head_(std::move(head)) {}

  void found(const std::string& model) override;
  void sized(const Sizing& sizing) override;

  // The generator has thrown. Where the answer has begun, it ends with the error; false: it has
  // not, and the error becomes the answer.
  [[nodiscard]] virtual bool fail(int status, std::string_view text);

 protected:
  // The whole answer: an object, and a line's end.
  bool respond(const Json& object);

  Call& call_;
  const AnswerHead head_;
};

class EventStream {
 public:
  // How long nothing is sent, once the head is, before a comment is.
  static constexpr std::chrono::seconds kCommentPatience{15};

  EventStream(Call& call, SteadyNow now);

  // Sends events, after the head where that was held back; nothing if empty. False: the client is
  // gone.
  bool write(std::string_view events);
  bool finish(std::string_view events);
  // Sends the head or a comment where it is time to.
  void still_working();
  // Ends with an error; false: it has not begun.
  [[nodiscard]] bool fail(int status, std::string_view text);

 private:
  bool begin(std::string_view events = {});

  Call& call_;
  SteadyNow now_;
  metrics::Clock::time_point last_sent_;
  bool has_begun_ = false;
};

// The "text" of events, JSON objects each, as comments of the stream.
std::string comments(const std::vector<std::string>& events);

// {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}}
Json usage_json(const Ending& ending);

// "stop", or null where there is none.
Json finish_reason(std::string_view reason);

// "data: {"id","object","created","model","system_fingerprint","choices":": what all chunks of a
// stream begin with.
std::string chunk_head(const AnswerHead& head, std::string_view object);
// The same fields as an object, for an answer in one piece.
Json answer_object(const AnswerHead& head, std::string_view object);

inline constexpr std::string_view kDone = "data: [DONE]\n\n";

}  // namespace billow::api::openai
