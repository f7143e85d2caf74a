// What answers that go to a Call have in common, whatever their API: a sink that can also say that
// the request failed, and an event stream whose head is held back while nothing is written, so that
// a balancer can still send the request elsewhere. Used on the request's thread.
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
  // The call outlives the answer.
  explicit CallAnswer(Call& call) : call_(call) {}

  void found(const std::string& model) override;
  void sized(const Sizing& sizing) override;

  // The generator has thrown. Where the answer has begun, it ends with the error; false: it has
  // not, and the error becomes the answer.
  [[nodiscard]] virtual bool fail(int status, std::string_view text);

 protected:
  // The whole answer: an object, and a line's end.
  bool respond(const Json& object);

  Call& call_;
};

// Runs what writes the answer. What that throws goes to the answer; where it has not begun, and
// where the client has left, it is thrown again.
void run_for(CallAnswer& answer, const std::function<void()>& write);

class EventStream {
 public:
  // How long nothing is sent, once the head is, before a sign of life is.
  static constexpr std::chrono::seconds kSilence{15};

  // `sign_of_life`: an event or a comment. It outlives the stream.
  EventStream(Call& call, SteadyNow now, std::string_view sign_of_life = ": \n\n");

  bool has_begun() const noexcept { return has_begun_; }
  // Sends events, after the head where that was held back; nothing if empty. False: the client is
  // gone.
  bool write(std::string_view events);
  bool finish(std::string_view events);
  // Nothing was written yet, and the head has waited long enough: it is time for write() or
  // begin().
  bool must_begin() const;
  // Sends the head.
  bool begin(std::string_view events = {});
  // Sends the head or a sign of life where it is time to.
  void still_working();
  // Ends with an error, told by `events`; false: it has not begun.
  [[nodiscard]] bool fail(int status, std::string_view text, std::string_view events);

 private:
  Call& call_;
  SteadyNow now_;
  std::string_view sign_of_life_;
  metrics::Clock::time_point last_sent_;
  bool has_begun_ = false;
};

// The "text" of notices, JSON objects each, as comments of the stream.
std::string comments(const std::vector<std::string>& notices);

}  // namespace billow::api
