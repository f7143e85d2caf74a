#include "api/call_answer.h"

#include <algorithm>
#include <utility>

#include "api/fields.h"
#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::api {

void CallAnswer::found(const std::string& model) { call_.set_model(model); }

void CallAnswer::sized(const Sizing& sizing) { report_sizing(call_, sizing); }

bool CallAnswer::fail(int, std::string_view) { return false; }

bool CallAnswer::respond(const Json& object) {
  return call_.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
}

void run_for(CallAnswer& answer, const std::function<void()>& write) {
  try {
    write();
  } catch (const scheduler::Cancelled&) {
    if (!answer.is_cancelled_by_server() || !answer.fail(503, http::kShuttingDown)) throw;
  } catch (const http::StatusError& error) {
    if (!answer.fail(error.status(), error.what())) throw;
  } catch (const Error& error) {
    if (!answer.fail(http::status_of(error.code()), error.what())) throw;
  } catch (const std::exception& error) {
    if (!answer.fail(500, error.what())) throw;
  }
}

EventStream::EventStream(Call& call, SteadyNow now, std::string_view sign_of_life)
    : call_(call), now_(std::move(now)), sign_of_life_(sign_of_life), last_sent_(now_()) {}

bool EventStream::begin(std::string_view events) {
  has_begun_ = true;
  last_sent_ = now_();
  return call_.begin_stream(200, "text/event-stream", events);
}

bool EventStream::write(std::string_view events) {
  if (events.empty()) {
    still_working();
    return true;
  }
  if (!has_begun_) return begin(events);
  last_sent_ = now_();
  return call_.write(events);
}

bool EventStream::finish(std::string_view events) {
  return (has_begun_ || begin()) && call_.finish(events);
}

bool EventStream::must_begin() const { return !has_begun_ && now_() - last_sent_ >= kHeadTimeout; }

void EventStream::still_working() {
  if (must_begin())
    begin();
  else if (has_begun_ && now_() - last_sent_ >= kSilence)
    write(sign_of_life_);
}

bool EventStream::fail(int status, std::string_view text, std::string_view events) {
  if (!has_begun_) return false;
  call_.fail(status, std::string(text));
  finish(events);
  return true;
}

std::string comments(const std::vector<std::string>& notices) {
  std::string lines;
  for (const std::string& notice : notices) {
    const Json object = Json::parse(notice, nullptr, false);
    const auto text = object.is_object() ? object.find("text") : object.end();
    if (text == object.end() || !text->is_string()) continue;
    std::string line = text->get<std::string>();
    std::ranges::replace_if(line, [](char c) { return c == '\r' || c == '\n'; }, ' ');
    lines += ": " + line + "\n\n";
  }
  return lines;
}

}  // namespace billow::api
