// The answer to a long request: a line of JSON for each step, or only the last step. Not
// thread-safe.
#pragma once

#include <functional>
#include <string>

#include "api/call.h"
#include "base/json_fwd.h"

namespace billow::api::ollama {

class Progress {
 public:
  // If `streams`, sends each step immediately. Otherwise the last step is the answer.
  Progress(Call& call, bool streams) : call_(call), streams_(streams) {}

  // Runs `work`, which reports its steps, and ends the answer. Exceptions pass through before the
  // first line is sent. Later they become a line {"error"}.
  void run(const std::function<void()>& work);

  // Throws http::StatusError (499) if the client has disconnected. Thread-safe.
  void check() const;
  // Reports an object with the field "status". Throws http::StatusError (499) if the client has
  // disconnected.
  void report(const Json& step);
  void report_status(const std::string& status);

 private:
  void end_failed(int status, std::string text);

  Call& call_;
  bool streams_;
  bool begun_ = false;
  std::string last_ = "{}";
};

}  // namespace billow::api::ollama
