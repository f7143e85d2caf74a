// Runs work that reads the store. A file system may answer slowly or never, so each work runs on
// its own thread. Callers with the same key share one run and its result. Callers with another key
// never wait for it. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "http/handler_pool.h"

namespace billow::api {

class Lookups {
 public:
  // `max_running` limits how much work runs at the same time.
  explicit Lookups(size_t max_running = 256);
  // Calls cancel() and waits until all work has returned. REQUIRES: everything that the work uses
  // lives until then.
  ~Lookups();
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  struct Wait {
    // Counts from the start of the work. A caller that joins older work does not wait at all.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::stop_token stop{};  // set when the client disconnects
  };

  // Returns the result of `work`, or throws its exception. `key` describes the work for messages,
  // like "model 'a'"; only text before a line end is shown. Work with the same key must return the
  // same type. cancel() sets the token of the work. Throws http::StatusError:
  // - 503 if the result is late, too much work runs or the server shuts down
  // - 499 if `wait.stop` is set
  template <typename Result>
  std::shared_ptr<const Result> get(const std::string& key, const Wait& wait,
                                    std::function<Result(std::stop_token)> work) {
    return std::static_pointer_cast<const Result>(
        run(key, wait, [work = std::move(work)](std::stop_token stop) {
          return std::make_shared<const Result>(work(std::move(stop)));
        }));
  }

  // Ends all waits and refuses new work.
  void cancel();

  size_t n_running() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Outcome = std::shared_ptr<const void>;
  struct Flight {
    Clock::time_point began;
    bool done = false;
    Outcome outcome;
    // Throws a copy of the work's exception, because threads must not share one.
    std::function<void()> raise;
  };

  Outcome run(const std::string& key, const Wait& wait,
              std::function<Outcome(std::stop_token)> work);
  std::shared_ptr<Flight> begin(const std::string& key,
                                std::function<Outcome(std::stop_token)> work);

  const size_t max_running_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::shared_ptr<Flight>> running_;
  std::stop_source stop_;
  http::HandlerPool threads_;
};

}  // namespace billow::api
