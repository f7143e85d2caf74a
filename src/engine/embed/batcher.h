// Packs texts of all clients into passes over embedding models. A pass starts as soon as a model is
// free; texts that arrive meanwhile share the next pass. Owns the models and one thread for each.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/embed/counts.h"
#include "engine/embed/model.h"
#include "engine/embed/pass.h"
#include "engine/embed/plan.h"
#include "engine/embed/room.h"
#include "engine/embed/waiting.h"

namespace billow::engine {

// A pass that has ended, with all its attempts.
struct PassDone {
  size_t n_texts = 0;
  size_t n_tokens = 0;
  std::chrono::duration<double> time{};
};

struct EmbedBatcherOptions {
  EmbedSettings sizes = {};
  size_t max_waiting = 65536;  // max queued texts
  size_t max_attempts = 4;     // max attempts of a pass, if memory is short
  // Called on the thread of a pass at its start and at its end.
  std::function<void()> on_pass_begin = {};
  std::function<void(const PassDone& pass)> on_pass_end = {};
};

struct EmbedRequest {
  std::vector<EmbedText> texts;
  // Texts of one client run in queue order; several clients take turns.
  std::string client{};
  bool is_bulk = false;  // runs only if no other texts are queued
};

struct EmbedAnswers {
  std::vector<EmbedAnswer> texts;   // in the order of the request's texts
  std::chrono::nanoseconds time{};  // from arrival to answer
};

// The queue has no space for the request. None of its texts was queued. Another server may have
// space, or this one later.
class EmbedBusy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EmbedState {
  EmbedLoad load;
  EmbedCounts counts;
  size_t n_active_texts = 0;
  uint64_t n_finished = 0;  // texts whose pass has ended
  MemoryUse memory{};       // of all models
  uint64_t budget_version = 0;
  std::string degraded{};  // latest error while passes keep failing; empty after a success
};

class EmbedBatcher {
 public:
  // The state reports an error after this many failed passes in a row.
  static constexpr size_t kFailuresToTell = 3;

  // Runs passes in parallel: at most one per model, and only as many as the context size allows.
  // REQUIRES: at least one model, and all models are of one file. Throws Error for invalid sizes.
  explicit EmbedBatcher(std::vector<std::unique_ptr<EmbedModel>> models,
                        EmbedBatcherOptions options = {});
  // Cancels all requests, and waits until running passes and embed() calls have ended.
  ~EmbedBatcher();
  EmbedBatcher(const EmbedBatcher&) = delete;
  EmbedBatcher& operator=(const EmbedBatcher&) = delete;

  const EmbedModelInfo& info() const noexcept { return models_.front()->info(); }
  const EmbedSizes& sizes() const noexcept { return sizes_; }

  // Waits for a vector or an error of each text. Returns nullopt after a stop request. The queued
  // texts are then removed immediately, and the results of texts in a running pass are ignored.
  // Throws EmbedBusy if the queue has no space for all texts. Throws Error if the request can never
  // be queued: it has no texts, or more than max_waiting.
  std::optional<EmbedAnswers> embed(EmbedRequest request, std::stop_token stop = {});

  // Refuses new requests from here on. Queued texts still run. Returns immediately.
  void close();
  // Waits until all queued texts have ended. Returns false if that takes longer than `limit`.
  bool wait_until_idle(std::chrono::milliseconds limit);
  // Sets the context size of later passes; passes in flight may have more. Throws Error if one pass
  // may need more than `n`.
  void set_context_size(size_t n);
  // Sets the budget of all models together, before their next passes. The state shows `version`
  // when all models have the budget.
  void set_memory_budget(uint64_t bytes, uint64_t version);
  EmbedState state() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job;
  struct Worker;

  void check(Job& job);
  void submit(const std::shared_ptr<Job>& job);
  void wait_for(Job& job, std::stop_token stop);
  void cancel(Job& job);
  void finish(Job& job);
  void wake();
  void serve(Worker& worker);
  bool wait_for_pass(Worker& worker, std::unique_lock<std::mutex>& lock);
  bool take_pass(Worker& worker);
  void count_passes(const std::vector<std::shared_ptr<Job>>& jobs);
  void log_packing(const Job& job) const;
  void log_sizing(Worker& worker, std::unique_lock<std::mutex>& lock) const;
  void log_begin(Worker& worker) const;
  void run_pass(Worker& worker);
  void settle(Worker& worker, const PassEnd& end);
  void note(const PassEnd& end);
  void apply_budget(Worker& worker, std::unique_lock<std::mutex>& lock);
  EmbedLoad load() const;
  bool is_idle() const { return waiting_.count().n_texts == 0 && n_running_ == 0; }

  const EmbedBatcherOptions options_;
  std::vector<std::unique_ptr<EmbedModel>> models_;
  EmbedSizes sizes_;  // fixed, except context_size

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  EmbedWaiting waiting_;
  EmbedRoom room_;
  PassCeiling ceiling_;
  EmbedCounts counts_;
  std::unordered_map<uint64_t, std::shared_ptr<Job>> jobs_;  // unfinished and not cancelled
  size_t context_size_;
  uint64_t n_jobs_ = 0;
  uint64_t n_taken_ = 0;  // passes so far, also failed ones
  size_t n_callers_ = 0;
  size_t n_running_ = 0;
  size_t n_begun_ = 0;  // number of jobs_ with texts that were in a pass
  size_t n_active_texts_ = 0;
  uint64_t n_finished_ = 0;
  size_t n_failures_ = 0;  // failed passes in a row
  std::string failure_;
  uint64_t budget_ = 0;
  uint64_t budget_version_ = 0;  // 0: no budget was set
  bool closed_ = false;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace billow::engine
