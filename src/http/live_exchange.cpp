#include "http/live_exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::http {
namespace {

// Returns the text of a Date field (RFC 9110, 5.6.7), whatever the locale.
std::string date_now() {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

// Appends one line of a header. Bytes that would end the line become spaces, so that no text from a
// request can add a header line.
void append_field(std::string& text, std::string_view name, std::string_view value) {
  const auto append = [&](std::string_view part) {
    for (const char c : part) text += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  };
  append(name);
  text += ": ";
  append(value);
  text += "\r\n";
}

bool is_framing_field(std::string_view name) {
  return equal_ignoring_case(name, "Connection") || equal_ignoring_case(name, "Content-Length") ||
         equal_ignoring_case(name, "Transfer-Encoding");
}

bool allows_body(int status) { return status >= 200 && status != 204 && status != 304; }

}  // namespace

LiveExchange::LiveExchange(Request request, Framing framing, Headers added, size_t max_unsent_bytes,
                           std::function<void()> wake, SendNow send_now)
    : request_(std::move(request)),
      added_(std::move(added)),
      max_unsent_bytes_(max_unsent_bytes),
      wake_(std::move(wake)),
      send_now_(std::move(send_now)),
      framing_(framing) {}

std::string LiveExchange::head_text(int status, std::string_view content_type,
                                    const Headers& headers, std::optional<uint64_t> length,
                                    bool has_body) {
  if (!body_ended_ && (framing_.expects_continue || !framing_.rest_is_short)) {
    framing_.keep_alive = false;
  }
  if (framing_.version == 10 && has_body && !length && !is_head()) framing_.keep_alive = false;
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  append_field(text, "Date", date_now());
  if (!content_type.empty()) append_field(text, "Content-Type", content_type);
  for (const Headers* part : {&headers, &added_}) {
    for (const Headers::Field& field : *part) {
      if (!is_framing_field(field.name)) append_field(text, field.name, field.value);
    }
  }
  if (length) {
    // For HEAD, the handler may announce the length that a GET would have.
    const std::string* announced = is_head() ? headers.find("Content-Length") : nullptr;
    append_field(text, "Content-Length", announced ? *announced : std::to_string(*length));
  } else if (chunked_) {
    append_field(text, "Transfer-Encoding", "chunked");
  }
  if (!framing_.keep_alive) {
    append_field(text, "Connection", "close");
  } else if (framing_.version == 10 || headers.has_token("Connection", "keep-alive")) {
    append_field(text, "Connection", "keep-alive");
  }
  return text += "\r\n";
}

void LiveExchange::send_locked(std::string bytes) {
  n_unsent_bytes_ += bytes.size();
  output_.push_back(std::move(bytes));
}

// Sends a piece of a streamed body. Ignores an empty piece, because an empty chunk would end the
// body.
void LiveExchange::send_chunk_locked(std::string_view bytes) {
  if (bytes.empty() || is_head()) return;
  if (!chunked_) return send_locked(std::string(bytes));
  constexpr std::string_view kBreak = "\r\n";
  std::array<char, 16> size;
  const auto size_end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
  const std::string_view size_text(size.data(), static_cast<size_t>(size_end.ptr - size.data()));
  std::string chunk;
  chunk.reserve(size_text.size() + 2 * kBreak.size() + bytes.size());
  chunk.append(size_text).append(kBreak).append(bytes).append(kBreak);
  send_locked(std::move(chunk));
}

// Returns true if output is left for the connection to send.
bool LiveExchange::flush_locked() {
  if (output_.empty()) return false;
  if (!send_now_ || gone_ || n_taken_bytes_ > 0) return true;
  size_t n_sent = send_now_(output_);
  n_unsent_bytes_ -= n_sent;
  size_t n_whole = 0;
  for (; n_whole < output_.size() && n_sent >= output_[n_whole].size(); ++n_whole)
    n_sent -= output_[n_whole].size();
  output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(n_whole));
  if (n_sent > 0) output_.front().erase(0, n_sent);
  return !output_.empty();
}

bool LiveExchange::respond_locked(Response response) {
  const bool has_body = allows_body(response.status);
  const std::optional<uint64_t> length =
      has_body ? std::optional<uint64_t>(response.body.size()) : std::nullopt;
  send_locked(
      head_text(response.status, response.content_type, response.headers, length, has_body));
  if (has_body && !is_head() && !response.body.empty()) send_locked(std::move(response.body));
  phase_ = Phase::kAnswered;
  return !gone_;
}

bool LiveExchange::respond(Response response) {
  bool reaches = false;
  bool leaves = false;
  {
    const std::lock_guard lock(mutex_);
    BILLOW_CHECK(phase_ == Phase::kNothingSent);
    reaches = respond_locked(std::move(response));
    leaves = flush_locked();
  }
  if (leaves) wake_();
  return reaches;
}

bool LiveExchange::begin_stream(int status, std::string_view content_type, Headers headers,
                                std::string_view first) {
  bool reaches = false;
  bool leaves = false;
  {
    const std::lock_guard lock(mutex_);
    BILLOW_CHECK(phase_ == Phase::kNothingSent && allows_body(status));
    chunked_ = framing_.version >= 11;
    send_locked(head_text(status, content_type, headers, std::nullopt, true));
    send_chunk_locked(first);
    phase_ = Phase::kStreaming;
    reaches = !gone_;
    leaves = flush_locked();
  }
  if (leaves) wake_();
  return reaches;
}

bool LiveExchange::write(std::string_view bytes) {
  bool leaves = false;
  {
    std::unique_lock lock(mutex_);
    BILLOW_CHECK(phase_ == Phase::kStreaming);
    changed_.wait(lock, [&] { return gone_ || n_unsent_bytes_ <= max_unsent_bytes_; });
    if (gone_) return false;
    send_chunk_locked(bytes);
    leaves = flush_locked();
  }
  if (leaves) wake_();
  return true;
}

bool LiveExchange::finish_locked() {
  if (gone_) framing_.keep_alive = false;  // the response is incomplete
  if (chunked_ && !is_head() && !gone_) send_locked("0\r\n\r\n");
  phase_ = Phase::kAnswered;
  return !gone_;
}

bool LiveExchange::finish(std::string_view last) {
  bool reaches = false;
  bool leaves = false;
  {
    const std::lock_guard lock(mutex_);
    BILLOW_CHECK(phase_ == Phase::kStreaming);
    if (!gone_) send_chunk_locked(last);
    reaches = finish_locked();
    leaves = flush_locked();
  }
  if (leaves) wake_();
  return reaches;
}

Body LiveExchange::take_body() {
  return {std::exchange(request_.body, {}), std::move(body_reservation_)};
}

size_t LiveExchange::read_body(std::span<char> buffer) {
  if (buffer.empty()) return 0;
  std::unique_lock lock(mutex_);
  if (body_.empty() && !body_ended_ && !body_failure_) {
    if (framing_.expects_continue && phase_ == Phase::kNothingSent) {
      send_locked("HTTP/1.1 100 Continue\r\n\r\n");
      framing_.expects_continue = false;
    }
    reading_since_ = std::chrono::steady_clock::now();
    lock.unlock();
    wake_();
    lock.lock();
    changed_.wait(lock, [&] { return !body_.empty() || body_ended_ || body_failure_; });
    reading_since_.reset();
  }
  if (body_.empty()) {
    if (body_ended_) return 0;
    throw StatusError(body_failure_->status, body_failure_->text);
  }
  const std::string& piece = body_.front();
  const size_t n = std::min(buffer.size(), piece.size() - body_offset_);
  std::memcpy(buffer.data(), piece.data() + body_offset_, n);
  body_offset_ += n;
  n_body_bytes_ -= n;
  if (body_offset_ < piece.size()) return n;
  body_.pop_front();
  body_offset_ = 0;
  lock.unlock();
  wake_();
  return n;
}

bool LiveExchange::client_gone() const noexcept { return gone_; }

void LiveExchange::on_client_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(callback_mutex_);
    callback_ = std::move(callback);
  }
  if (gone_ || cancelled_) wake_();
}

void LiveExchange::mark_gone() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
}

void LiveExchange::cancel() {
  cancelled_ = true;
  fail_body({503, std::string(kShuttingDown)});
  wake_();
}

void LiveExchange::call_back_if_due() {
  if (!gone_ && !cancelled_) return;
  const std::lock_guard lock(callback_mutex_);
  if (callback_) std::exchange(callback_, nullptr)();
}

void LiveExchange::run(const Handler& handler, const ShapeError& shape_error) {
  std::optional<ParseFailure> failure;
  try {
    handler(*this);
  } catch (const StatusError& error) {
    failure = {error.status(), error.what()};
  } catch (const Error& error) {
    failure = {status_of(error.code()), error.what()};
  } catch (const std::exception& error) {
    failure = {500, error.what()};
  } catch (...) {
    failure = {500, "the handler failed"};
  }
  on_client_gone(nullptr);
  take_body();  // an idle connection keeps no body memory
  close_answer(std::move(failure), shape_error);
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    static_cast<void>(flush_locked());  // wake_() below also handles the rest
  }
  wake_();
}

void LiveExchange::close_answer(std::optional<ParseFailure> failure,
                                const ShapeError& shape_error) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kNothingSent) {
    if (!failure) failure = {500, "the handler sent no response"};
    if (failure->status >= 500 && !gone_) log::warn(request_.path + ": " + failure->text);
    lock.unlock();
    Response response = shape_error(failure->status, failure->text);
    lock.lock();
    respond_locked(std::move(response));
  } else if (failure) {
    if (!gone_)
      log::warn(request_.path +
                ": failed after the head of the response was sent: " + failure->text);
    framing_.keep_alive = false;
  } else if (phase_ == Phase::kStreaming) {
    finish_locked();
  }
}

void LiveExchange::answer(Response response) {
  {
    const std::lock_guard lock(mutex_);
    respond_locked(std::move(response));
    over_ = true;
  }
  wake_();
}

std::vector<std::string> LiveExchange::take_output() {
  const std::lock_guard lock(mutex_);
  n_taken_bytes_ = n_unsent_bytes_;
  return std::exchange(output_, {});
}

void LiveExchange::sent(size_t n_bytes) {
  bool may_write = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was_full = n_unsent_bytes_ > max_unsent_bytes_;
    n_unsent_bytes_ -= n_bytes;
    n_taken_bytes_ -= n_bytes;
    may_write = was_full && n_unsent_bytes_ <= max_unsent_bytes_;
  }
  if (may_write) changed_.notify_all();
}

bool LiveExchange::flushed() const {
  const std::lock_guard lock(mutex_);
  return n_unsent_bytes_ == 0;
}

bool LiveExchange::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

bool LiveExchange::must_close() const {
  const std::lock_guard lock(mutex_);
  return !framing_.keep_alive;
}

void LiveExchange::put_body(std::string bytes) {
  if (bytes.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    n_body_bytes_ += bytes.size();
    body_.push_back(std::move(bytes));
    reading_since_.reset();  // the handler's thread may notice the bytes much later
  }
  changed_.notify_all();
}

void LiveExchange::end_body() {
  {
    const std::lock_guard lock(mutex_);
    body_ended_ = true;
  }
  changed_.notify_all();
}

void LiveExchange::fail_body(ParseFailure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!body_failure_) body_failure_ = std::move(failure);
    framing_.keep_alive = false;
  }
  changed_.notify_all();
}

size_t LiveExchange::unread_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_body_bytes_;
}

std::optional<std::chrono::steady_clock::time_point> LiveExchange::reading_since() const {
  const std::lock_guard lock(mutex_);
  return reading_since_;
}

}  // namespace billow::http
