#include "server/event_feed.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "http/sse.h"

namespace billow::server {

EventFeed::Reader::Reader(EventFeed& feed) : feed_(feed), next_(feed.n_published_) {}

EventFeed::Reader::~Reader() {
  const std::scoped_lock lock(feed_.mutex_);
  if (--feed_.n_readers_ == 0) feed_.events_.clear();
}

std::optional<std::string> EventFeed::Reader::next(const std::stop_token& stop,
                                                   std::chrono::milliseconds timeout) {
  std::unique_lock lock(feed_.mutex_);
  feed_.changed_.wait_for(lock, stop, timeout,
                          [&] { return feed_.closed_ || feed_.n_published_ > next_; });
  if (stop.stop_requested()) return std::nullopt;
  const uint64_t n_new = feed_.n_published_ - next_;
  if (n_new == 0) return feed_.closed_ ? std::nullopt : std::optional<std::string>("");
  std::string text;
  const uint64_t n_missed = n_new - std::min<uint64_t>(n_new, feed_.events_.size());
  if (n_missed > 0) text = http::sse_event(Json{{"events", n_missed}}.dump(), "missed");
  const uint64_t n_kept = n_new - n_missed;
  for (size_t i = feed_.events_.size() - n_kept; i < feed_.events_.size(); ++i)
    text += feed_.events_[i];
  feed_.n_missed_ += n_missed;
  feed_.n_sent_ += n_kept;
  next_ = feed_.n_published_;
  return text;
}

void EventFeed::publish(std::string_view type, const Json& data) {
  if (!has_readers()) return;
  std::string event =
      http::sse_event(data.dump(-1, ' ', false, Json::error_handler_t::replace), type);
  {
    const std::scoped_lock lock(mutex_);
    if (closed_ || n_readers_ == 0) return;
    events_.push_back(std::move(event));
    if (events_.size() > kMaxEvents) events_.pop_front();
    ++n_published_;
  }
  changed_.notify_all();
}

std::unique_ptr<EventFeed::Reader> EventFeed::read() {
  std::unique_ptr<Reader> reader;
  {
    const std::scoped_lock lock(mutex_);
    if (n_readers_ >= kMaxReaders) return nullptr;
    reader = std::make_unique<Reader>(*this);
    ++n_readers_;
  }
  if (on_read_) on_read_();
  return reader;
}

void EventFeed::close() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

EventFeed::Counts EventFeed::counts() const {
  const std::scoped_lock lock(mutex_);
  return {n_readers_, n_sent_, n_missed_};
}

}  // namespace billow::server
