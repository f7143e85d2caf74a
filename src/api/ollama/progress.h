// The answer to a request that works for a while and tells how far it is: a line of JSON for each
// step, or only the last. One thread.
#pragma once

#include <functional>
#include <string>

#include "api/call.h"
#include "base/json_fwd.h"

namespace billow::api::ollama {

class Progress {
 public:
  // `streams`: each step is sent as it comes. Else the last one is the answer.
  Progress(Call& call, bool streams) : call_(call), streams_(streams) {}

  // Runs `work`, which reports its steps, and ends the answer. What it throws before a line was
  // sent is let through; later it becomes a line {"error"}.
  void run(const std::function<void()>& work);

  // An object with the field "status". Throws http::StatusError (499) when the client is gone.
  void report(const Json& step);
  void report_status(const std::string& status);

 private:
  void end_failed(int status, const std::string& text);

  Call& call_;
  bool streams_;
  bool begun_ = false;
  std::string last_ = "{}";
};

}  // namespace billow::api::ollama
