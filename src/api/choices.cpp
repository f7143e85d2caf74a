#include "api/choices.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace billow::api {
namespace {

// Forwards calls from the threads of choices to the thread of the request, one at a time.
class Relay {
 public:
  // Runs `call` on the request's thread and returns its result; false if the request has ended.
  bool forward(const std::function<bool()>& call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call_ == nullptr || is_closed_; });
    if (is_closed_) return false;
    call_ = &call;
    is_answered_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_answered_ || (is_closed_ && !is_running_); });
    const bool result = is_answered_ && result_;
    call_ = nullptr;
    changed_.notify_all();
    return result;
  }

  // Runs calls until `is_over`, which it checks again after each wake(). Throws the exception of a
  // call.
  void serve(const std::function<bool()>& is_over) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_asked() || is_over(); });
      if (!is_asked()) return;
      const std::function<bool()>& call = *call_;
      is_running_ = true;
      lock.unlock();
      bool result = false;
      std::exception_ptr error;
      try {
        result = call();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      is_running_ = false;
      result_ = result;
      is_answered_ = true;
      changed_.notify_all();
      if (error) std::rethrow_exception(error);
    }
  }

  void wake() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
  // Makes all calls return false, including those that wait.
  void close() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

  std::mutex& mutex() { return mutex_; }

 private:
  bool is_asked() const { return call_ != nullptr && !is_answered_ && !is_closed_; }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<bool()>* call_ = nullptr;
  bool is_running_ = false;
  bool is_answered_ = false;
  bool result_ = false;
  bool is_closed_ = false;
};

// The sink of one choice. Forwards everything to the request's sink, with the choice's index.
class ChoiceSink : public Sink {
 public:
  ChoiceSink(Relay& relay, Sink& sink, size_t choice, std::function<void()> on_begin)
      : relay_(relay), sink_(sink), choice_(choice), on_begin_(std::move(on_begin)) {}

  void found(const std::string& model) override {
    if (choice_ == 0) forward([&] { sink_.found(model); });
  }
  void sized(const Sizing& sizing) override {
    if (choice_ == 0) forward([&] { sink_.sized(sizing); });
  }
  void begun() override { on_begin_(); }
  bool delta(const Delta& delta) override {
    Delta own = delta;
    own.choice = choice_;
    return relay_.forward([&] { return sink_.delta(own); });
  }
  bool holds_back() const override { return sink_.holds_back(); }
  void restart(size_t) override {
    forward([&] { sink_.restart(choice_); });
  }
  bool end(const Ending& ending) override {
    Ending own = ending;
    own.choice = choice_;
    return relay_.forward([&] { return sink_.end(own); });
  }
  bool rendered(const std::string& prompt, size_t n_images) override {
    return relay_.forward([&] { return choice_ != 0 || sink_.rendered(prompt, n_images); });
  }
  void still_working() override {
    forward([&] { sink_.still_working(); });
  }

 private:
  void forward(const std::function<void()>& call) {
    relay_.forward([&] {
      call();
      return true;
    });
  }

  Relay& relay_;
  Sink& sink_;
  const size_t choice_;
  const std::function<void()> on_begin_;
};

// Which choices may begin, and the first error. REQUIRES: the caller holds the relay's mutex.
class Progress {
 public:
  Progress(size_t n_prompts, size_t n_each) : n_each_(n_each), has_begun_(n_prompts, false) {}

  bool may_begin(size_t choice) const {
    return choice % n_each_ == 0 || has_begun_[choice / n_each_] || error_;
  }
  bool has_begun(size_t choice) const { return has_begun_[choice / n_each_]; }
  void begin(size_t choice) { has_begun_[choice / n_each_] = true; }
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
  }
  const std::exception_ptr& error() const { return error_; }

 private:
  const size_t n_each_;
  std::vector<bool> has_begun_;
  std::exception_ptr error_;
};

GenerationRequest choice_request(const GenerationRequest& prompt, size_t j) {
  GenerationRequest request = prompt;
  request.seed_shift = static_cast<int64_t>(j);
  return request;
}

}  // namespace

void run_choices(Generator& generator, std::span<const GenerationRequest> prompts, size_t n_each,
                 Sink& sink, std::stop_token stop, metrics::Trace& trace) {
  const size_t n = prompts.size() * n_each;
  if (n == 1) return generator.run(prompts.front(), sink, stop, trace);

  Relay relay;
  std::stop_source ending;
  const std::stop_callback on_stop(stop, [&] { ending.request_stop(); });
  Progress progress(prompts.size(), n_each);
  std::condition_variable changed;  // uses the relay's mutex; notified when a choice may begin
  size_t next = 0;
  size_t n_threads = std::min(n, kChoicesAtOnce);

  const auto begun = [&](size_t choice) {
    const std::scoped_lock lock(relay.mutex());
    progress.begin(choice);
    changed.notify_all();
  };
  const auto run_one = [&](size_t choice) {
    ChoiceSink own(relay, sink, choice, [&] {
      bool is_known = false;
      {
        const std::scoped_lock lock(relay.mutex());
        is_known = progress.has_begun(choice);
      }
      if (!is_known) begun(choice);
    });
    std::exception_ptr error;
    try {
      generator.run(choice_request(prompts[choice / n_each], choice % n_each), own,
                    ending.get_token(), trace);
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      {
        const std::scoped_lock lock(relay.mutex());
        progress.fail(std::move(error));
      }
      ending.request_stop();
      relay.close();
    }
    begun(choice);
  };
  const auto work = [&] {
    while (true) {
      size_t choice = 0;
      {
        std::unique_lock lock(relay.mutex());
        if (next == n || progress.error()) break;
        choice = next++;
        changed.wait(lock, [&] { return progress.may_begin(choice); });
        if (progress.error()) break;
      }
      run_one(choice);
    }
    const std::scoped_lock lock(relay.mutex());
    --n_threads;
  };

  std::vector<std::jthread> threads;
  std::exception_ptr error;
  const size_t n_wanted = n_threads;
  while (threads.size() < n_wanted) {
    try {
      threads.emplace_back([&] {
        work();
        relay.wake();
      });
    } catch (const std::system_error&) {  // the system has no more threads: use fewer
      if (threads.empty()) throw;
      const std::scoped_lock lock(relay.mutex());
      n_threads -= n_wanted - threads.size();
      break;
    }
  }
  try {
    relay.serve([&] { return n_threads == 0; });
  } catch (...) {  // the sink has thrown
    error = std::current_exception();
    ending.request_stop();
    relay.close();
  }
  threads.clear();
  if (!error) error = progress.error();
  if (error) std::rethrow_exception(error);
}

}  // namespace billow::api
