// The events of the server, for programs that watch it (GET /api/events). One ring holds the latest
// events for all readers, and each reader has its own place in it. A reader that is too slow loses
// the oldest events; the publishers never wait. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace billow::server {

class EventFeed {
 public:
  static constexpr size_t kMaxEvents = 1024;
  static constexpr size_t kMaxReaders = 64;  // each has a thread and a connection

  class Reader {
   public:
    explicit Reader(EventFeed& feed);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Waits for events. Returns all new ones as server-sent events, or "" if there are none within
    // `timeout`. If the ring has lost events, begins with an event "missed" that has their number.
    // Returns nullopt after close(), when all events were returned, and after a stop request.
    std::optional<std::string> next(const std::stop_token& stop, std::chrono::milliseconds timeout);

   private:
    EventFeed& feed_;
    uint64_t next_;  // number of the next event
  };

  // Publishes an event. `type` names it, `data` is a JSON object. Returns immediately. Without
  // readers, does nothing.
  void publish(std::string_view type, const Json& data);
  bool has_readers() const noexcept { return n_readers_ > 0; }

  // Returns a reader of the events from now on; null if there are too many readers. The feed must
  // outlive the reader.
  std::unique_ptr<Reader> read();
  // Calls `on_read` after each read(), on the reader's thread. Set it before the first read().
  void on_read(std::function<void()> on_read) { on_read_ = std::move(on_read); }

  // Ends all readers, also later ones.
  void close();

  struct Counts {
    size_t n_readers = 0;
    uint64_t n_sent = 0;    // events that readers got, counted for each reader
    uint64_t n_missed = 0;  // events that slow readers lost, counted for each reader
  };
  Counts counts() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> events_;  // as server-sent events
  uint64_t n_published_ = 0;        // events_ ends before the event with this number
  std::atomic<size_t> n_readers_{0};
  uint64_t n_sent_ = 0;
  uint64_t n_missed_ = 0;
  bool closed_ = false;
  std::function<void()> on_read_;
};

}  // namespace billow::server
