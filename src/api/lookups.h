// Work that reads the store for answers. A file system may take long to answer, or never do: so the
// work runs on threads of its own, one thread per key at a time, and those who ask for the same key
// share its result. Who asks for something else never waits for it. Any thread.
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
  // At most `max_running` pieces of work at a time.
  explicit Lookups(size_t max_running = 256);
  // cancel(), and waits until all work has returned: what the work uses must live so long.
  ~Lookups();
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  struct Wait {
    // From the beginning of the work: who comes to work that is older does not wait at all.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::stop_token stop{};  // the one who asks is gone
  };

  // What `work` returns or throws. `key` says in words what is looked up, as "model 'a'", up to a
  // line end; work of one key always returns the same type. The work's token is set by cancel().
  // Throws http::StatusError: 503 where the result is not there in time, too much work runs or the
  // server ends, 499 where `wait.stop` is set.
  template <typename Result>
  std::shared_ptr<const Result> get(const std::string& key, const Wait& wait,
                                    std::function<Result(std::stop_token)> work) {
    return std::static_pointer_cast<const Result>(
        run(key, wait, [work = std::move(work)](std::stop_token stop) {
          return std::make_shared<const Result>(work(std::move(stop)));
        }));
  }

  // Ends all waits, and refuses new work.
  void cancel();

  size_t n_running() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Outcome = std::shared_ptr<const void>;
  struct Flight {
    Clock::time_point began;
    bool done = false;
    Outcome outcome;
    std::function<void()>
        raise;  // throws what the work threw, made again: threads share no exception
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
