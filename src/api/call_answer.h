// Base classes for answers to a Call, shared by all APIs. CallAnswer is a sink that can also report
// an error. EventStream is an SSE stream that delays its head until there is something to send.
// Until then, a balancer can still retry on another host. Use both on the request's thread only.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/call.h"
#include "base/json_fwd.h"

namespace billow::api {

using SteadyNow = std::function<metrics::Clock::time_point()>;

class CallAnswer : public Sink {
 public:
  // REQUIRES: the call outlives the answer.
  explicit CallAnswer(Call& call) : call_(call) {}

  void found(const std::string& model) override;
  void sized(const Sizing& sizing) override;

  // Handles an exception of the generator. If the answer has begun, ends it with the error and
  // returns true. Otherwise returns false, and the caller answers with the error.
  [[nodiscard]] virtual bool fail(int status, std::string_view text);

  bool is_cancelled_by_server() const noexcept { return call_.is_cancelled_by_server(); }

 protected:
  // Sends the whole answer: the object and a line end.
  bool respond(const Json& object);

  Call& call_;
};

// Runs `write` and passes its exceptions to answer.fail(). Rethrows if the answer has not begun or
// the client has disconnected. If the server has cancelled the request, the error is 503.
void run_for(CallAnswer& answer, const std::function<void()>& write);

class EventStream {
 public:
  // Max silence of a stream whose head has been sent. Then a keep-alive event follows.
  static constexpr std::chrono::seconds kSilence{15};

  // `sign_of_life` is the keep-alive: an event or a comment. It must outlive the stream.
  EventStream(Call& call, SteadyNow now, std::string_view sign_of_life = ": \n\n");

  bool has_begun() const noexcept { return has_begun_; }
  // Sends events, after the head if the head was delayed. Without events it is still_working().
  // Returns false if the client has disconnected.
  bool write(std::string_view events);
  bool finish(std::string_view events);
  // True if nothing has been sent and the head has waited for kHeadTimeout. Then the caller calls
  // write() or begin().
  bool must_begin() const;
  // Sends the head.
  bool begin(std::string_view events = {});
  // Sends the head or a keep-alive event when it is due.
  void still_working();
  // Ends the stream with an error; `events` describe it to the client. Returns false if the stream
  // has not begun.
  [[nodiscard]] bool fail(int status, std::string_view text, std::string_view events);

 private:
  Call& call_;
  SteadyNow now_;
  std::string_view sign_of_life_;
  metrics::Clock::time_point last_sent_;
  bool has_begun_ = false;
};

// Returns the "text" of each notice (a JSON object) as a comment of the stream.
std::string comments(const std::vector<std::string>& notices);

}  // namespace billow::api
