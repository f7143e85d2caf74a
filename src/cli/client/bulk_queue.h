// Works on batches with several threads, each with a connection of its own. Returns batches in the
// order in which they were put. Owns its threads. One thread calls put() and take(); any thread may
// call cancel().
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/client/bulk.h"
#include "metrics/request_id.h"

namespace billow::cli {

struct BulkQueueOptions {
  scheduler::Endpoint endpoint;
  bool is_bulk = true;
  size_t n_jobs = 4;                          // requests in flight
  std::chrono::milliseconds timeout{10'000};  // max time of retries while the server is busy
};

template <typename Batch>
class BulkQueue {
 public:
  // Fills a batch with its results. Throws BulkFailure. Runs on several threads.
  using Ask = std::function<void(BulkCaller& caller, Batch& batch)>;

  BulkQueue(const BulkQueueOptions& options, Ask ask) : ask_(std::move(ask)) {
    const std::string client = metrics::new_request_id();
    for (size_t i = 0; i < options.n_jobs; ++i) {
      callers_.push_back(
          std::make_unique<BulkCaller>(options.endpoint, options.is_bulk, options.timeout, client));
    }
    // These threads block all signals, so that the main thread or an InterruptWatch gets them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    for (const auto& caller : callers_)
      threads_.emplace_back([this, &caller = *caller] { serve(caller); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~BulkQueue() {
    cancel();
    for (std::thread& thread : threads_) thread.join();
  }
  BulkQueue(const BulkQueue&) = delete;
  BulkQueue& operator=(const BulkQueue&) = delete;

  void put(Batch batch) {
    auto slot = std::make_shared<Slot>();
    slot->batch = std::move(batch);
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::move(slot));
    }
    changed_.notify_all();
  }

  size_t n_inside() const {  // batches that were put and not yet taken
    const std::lock_guard lock(mutex_);
    return slots_.size();
  }

  // Waits for the oldest batch and returns it. REQUIRES: n_inside() > 0. Throws BulkFailure if the
  // batch failed.
  Batch take() {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Slot> slot = slots_.front();
    changed_.wait(lock, [&] { return slot->is_done || is_cancelled_; });
    slots_.pop_front();
    if (!slot->is_done) throw BulkFailure(kTryAgain, "the work was cancelled");
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(slot->batch);
  }

  // Makes all batches in flight fail soon.
  void cancel() noexcept {
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
    }
    for (const auto& caller : callers_) caller->cancel();
    changed_.notify_all();
  }

 private:
  struct Slot {
    Batch batch;
    bool is_taken = false;  // a thread works on it
    bool is_done = false;
    std::exception_ptr error;
  };

  // Waits for a batch that no thread has taken, and returns the oldest one; null after cancel().
  std::shared_ptr<Slot> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (is_cancelled_) return nullptr;
      for (const std::shared_ptr<Slot>& slot : slots_) {
        if (slot->is_taken) continue;
        slot->is_taken = true;
        return slot;
      }
      changed_.wait(lock);
    }
  }

  void serve(BulkCaller& caller) {
    while (const std::shared_ptr<Slot> slot = next()) {
      std::exception_ptr error;
      try {
        ask_(caller, slot->batch);
      } catch (...) {
        error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        slot->error = error;
        slot->is_done = true;
      }
      changed_.notify_all();
    }
  }

  const Ask ask_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_cancelled_ = false;
  std::vector<std::unique_ptr<BulkCaller>> callers_;
  std::vector<std::thread> threads_;
};

// Works on all batches, at most `n_max` at a time, and gives them to `take` in order. `next`
// returns nullopt at the end.
template <typename Batch>
void work_through(BulkQueue<Batch>& queue, size_t n_max,
                  const std::function<std::optional<Batch>()>& next,
                  const std::function<void(Batch)>& take) {
  bool has_more = true;
  for (;;) {
    while (has_more && queue.n_inside() < n_max) {
      std::optional<Batch> batch = next();
      has_more = batch.has_value();
      if (has_more) queue.put(*std::move(batch));
    }
    if (queue.n_inside() == 0) return;
    take(queue.take());
  }
}

}  // namespace billow::cli
