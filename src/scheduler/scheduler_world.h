// For tests: a scheduler with fake runners, jobs for it, and requests on threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/status.h"
#include "scheduler/fake_runner.h"
#include "scheduler/scheduler.h"

namespace billow::scheduler {

inline Options small_options() {
  Options options;
  options.budget_bytes = 1000;
  options.n_parallel = 2;
  options.restarts.first_delay = std::chrono::milliseconds(1);
  return options;
}

// A job whose model has 100 bytes of weights and 1 byte per position.
inline Job job_of(const std::string& key, size_t n_context = 10) {
  return {.key = key,
          .name = "name-" + key,
          .weights = "/" + key,
          .is_embedding = false,
          .cost = {100, 0, n_context},
          .keep_alive = {}};
}

inline bool comes_true(const std::function<bool()>& happened) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!happened()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The result of a request: its text, and "ok", "cancelled", "gone", or "status text".
struct Outcome {
  std::string text{};
  std::string end{};
  std::vector<JobStage> stages{};
};

inline Outcome ask(Scheduler& scheduler, const Job& job, std::stop_token stop = {},
                   const std::function<void()>& on_text = {}, const Completion& request = {}) {
  Outcome outcome;
  try {
    const std::unique_ptr<Lease> lease =
        scheduler.acquire(job, std::move(stop), [&outcome](JobStage stage) {
          if (stage != JobStage::kWaiting) outcome.stages.push_back(stage);
        });
    lease->complete(request, [&](const CompletionPiece& piece) {
      outcome.text += piece.text;
      if (on_text) on_text();
      return true;
    });
    outcome.end = "ok";
  } catch (const http::StatusError& error) {
    outcome.end = std::to_string(error.status()) + " " + error.what();
  } catch (const Cancelled&) {
    outcome.end = "cancelled";
  } catch (const RunnerGone&) {
    outcome.end = "gone";
  }
  return outcome;
}

// A request on its own thread.
class Asking {
 public:
  Asking(Scheduler& scheduler, const Job& job)
      : outcome_(std::async(std::launch::async, [&scheduler, job, stop = source_.get_token()] {
          return ask(scheduler, job, stop);
        })) {}
  void cancel() { source_.request_stop(); }
  bool is_done() const {
    return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Outcome outcome() { return outcome_.get(); }

 private:
  std::stop_source source_;
  std::future<Outcome> outcome_;
};

struct World {
  explicit World(const Options& options = small_options())
      : scheduler(
            std::make_unique<Scheduler>(options, fakes.starter(), [this](const ModelNews& one) {
              const std::scoped_lock lock(news_mutex);
              news.push_back(one);
            })) {}

  Outcome ask(const std::string& key) { return scheduler::ask(*scheduler, job_of(key)); }
  Outcome ask(const Job& job) { return scheduler::ask(*scheduler, job); }
  std::unique_ptr<Asking> start(const std::string& key) { return start(job_of(key)); }
  std::unique_ptr<Asking> start(const Job& job) {
    return std::make_unique<Asking>(*scheduler, job);
  }
  std::vector<std::string> loaded() const {
    std::vector<std::string> keys;
    for (const LoadedModel& model : scheduler->state().models) keys.push_back(model.model.key);
    std::ranges::sort(keys);
    return keys;
  }
  bool becomes_loaded(const std::vector<std::string>& keys) const {
    return comes_true([&] { return loaded() == keys; });
  }
  std::optional<LoadedModel> model(const std::string& key) const {
    for (const LoadedModel& model : scheduler->state().models)
      if (model.model.key == key) return model;
    return std::nullopt;
  }

  // Returns the news so far, in words: "loading name-a", "unloading name-a for room".
  std::vector<std::string> news_words() const {
    constexpr const char* kWords[] = {"loading", "ready", "failed", "unloading", "unloaded"};
    const std::scoped_lock lock(news_mutex);
    std::vector<std::string> words;
    for (const ModelNews& one : news)
      words.push_back(std::string(kWords[static_cast<size_t>(one.kind)]) + " " + one.name +
                      (one.makes_room ? " for room" : ""));
    return words;
  }

  FakeRunners fakes;
  mutable std::mutex news_mutex;
  std::vector<ModelNews> news{};
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace billow::scheduler
