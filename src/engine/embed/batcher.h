// Texts of all clients, packed into passes over models that make vectors. A pass begins as soon as
// there is a model for it: texts that come meanwhile share the next one. Owns the models and a
// thread for each. Any thread may call.
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

struct EmbedBatcherOptions {
  EmbedSettings sizes = {};
  size_t max_waiting = 65536;  // texts
  size_t max_attempts = 4;     // of a pass, where memory is short
  // Called on the thread of a pass when it begins, and with its tokens when it ends.
  std::function<void()> on_pass_begin = {};
  std::function<void(size_t n_tokens)> on_pass_end = {};
};

struct EmbedRequest {
  std::vector<EmbedText> texts;
  // Whose they are: those of one client run in their order, those of several in turn.
  std::string client{};
  bool is_bulk = false;  // they run when no others wait
};

struct EmbedAnswers {
  std::vector<EmbedAnswer> texts;   // in the order of the request's
  std::chrono::nanoseconds time{};  // from when they came
};

// No place for the request's texts, of which none was taken: another may have one, or a later time.
class EmbedBusy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EmbedState {
  EmbedLoad load;
  EmbedCounts counts;
  size_t n_active_texts = 0;
  uint64_t n_finished = 0;  // texts taken, whose pass has ended
  MemoryUse memory{};       // of all models
  uint64_t budget_version = 0;
  std::string
      degraded{};  // why passes have failed of late, one after the other; empty: they do not
};

class EmbedBatcher {
 public:
  // Passes that fail one behind the other until the state tells of it.
  static constexpr size_t kFailuresToTell = 3;

  // So many passes run at once as there are models and as the context has room for. REQUIRES:
  // there is a model, and all are of one file. Throws Error for sizes that make no sense.
  explicit EmbedBatcher(std::vector<std::unique_ptr<EmbedModel>> models,
                        EmbedBatcherOptions options = {});
  // Cancels what was asked, and waits for the passes that run and for those who wait for them.
  ~EmbedBatcher();
  EmbedBatcher(const EmbedBatcher&) = delete;
  EmbedBatcher& operator=(const EmbedBatcher&) = delete;

  const EmbedModelInfo& info() const noexcept { return models_.front()->info(); }
  const EmbedSizes& sizes() const noexcept { return sizes_; }

  // Waits for a vector or an error of each text. Nullopt when it was stopped: what waits is dropped
  // at once, what is in a pass is done for nobody. Throws EmbedBusy where not all texts have a
  // place, and Error for a request that never has one: no texts, or more than may wait.
  std::optional<EmbedAnswers> embed(EmbedRequest request, std::stop_token stop = {});

  // No more is taken; what was taken goes on. Returns at once.
  void close();
  // Whether all that was taken has ended within so long.
  bool wait_until_idle(std::chrono::milliseconds limit);
  // For the passes to come; those in flight may have more. Throws Error where it is below what a
  // pass may have.
  void set_context_size(size_t n);
  // The models' together, before their next passes; the state shows `version` once all have it.
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
  EmbedSizes sizes_;  // but for context_size, of the beginning

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  EmbedWaiting waiting_;
  EmbedRoom room_;
  PassCeiling ceiling_;
  EmbedCounts counts_;
  std::unordered_map<uint64_t, std::shared_ptr<Job>> jobs_;  // not ended, nor cancelled
  size_t context_size_;
  uint64_t n_jobs_ = 0;
  uint64_t n_taken_ = 0;  // passes, whatever became of them
  size_t n_callers_ = 0;
  size_t n_running_ = 0;
  size_t n_begun_ = 0;  // of jobs_: those with texts that were in a pass
  size_t n_active_texts_ = 0;
  uint64_t n_finished_ = 0;
  size_t n_failures_ = 0;  // one behind the other
  std::string failure_;
  uint64_t budget_ = 0;
  uint64_t budget_version_ = 0;  // 0: none was set
  bool closed_ = false;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace billow::engine
