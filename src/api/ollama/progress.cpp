#include "api/ollama/progress.h"

#include <utility>

#include "api/fields.h"
#include "api/ollama/errors.h"
#include "base/error.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::ollama {

void Progress::run(const std::function<void()>& work) {
  try {
    work();
  } catch (const http::StatusError& error) {
    if (!begun_) throw;
    end_failed(error.status(), error.what());
    return;
  } catch (const Error& error) {
    if (!begun_) throw;
    end_failed(http::status_of(error.code()), error.what());
    return;
  } catch (const std::exception& error) {
    if (!begun_) throw;
    end_failed(500, error.what());
    return;
  }
  if (!streams_) {
    call_.respond({.content_type = std::string(kJsonType), .body = last_});
    return;
  }
  if (!begun_) call_.begin_stream(200, kNdjsonType);
  call_.finish();
}

void Progress::end_failed(int status, std::string text) {
  if (call_.is_cancelled_by_server()) {
    status = 503;
    text = http::kShuttingDown;
  }
  call_.fail(status, text);
  call_.finish(error_text(text) + "\n");
}

void Progress::check() const {
  if (call_.stop().stop_requested()) throw http::StatusError(499, "request canceled");
}

void Progress::report(const Json& step) {
  check();
  last_ = to_text(step);
  if (!streams_) return;
  const std::string line = last_ + "\n";
  const bool reaches =
      std::exchange(begun_, true) ? call_.write(line) : call_.begin_stream(200, kNdjsonType, line);
  if (!reaches) throw http::StatusError(499, "request canceled");
}

void Progress::report_status(const std::string& status) { report(Json{{"status", status}}); }

}  // namespace billow::api::ollama
