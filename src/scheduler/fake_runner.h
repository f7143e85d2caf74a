// For tests: runners in this process. They respond as the test's script says and record the
// requests. FakeRunners creates them for a Scheduler and must outlive them. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

// The behaviour of the runners of one model. Runners read the script at each step, so that a test
// may change it at any time.
struct FakeScript {
  std::vector<std::string> pieces = {"Hello", " there"};  // the text of a response
  // If not empty, used instead of `pieces`. `end` is the end of the response.
  std::vector<CompletionPiece> whole_pieces{};
  CompletionEnd end{.done_reason = "stop", .n_prompt = 3, .n_generated = 2, .tokens = {1, 2}};
  // If set, computes the response from the request, and the fields above are not used.
  std::function<CompletionEnd(const Completion& request, const OnPiece& on_piece)> answer{};
  size_t vector_size = 4;  // of embeddings: {number of tokens, first token, 0, ...}
  std::function<EmbedOutputs(const EmbedJob& job)> embed{};

  std::chrono::milliseconds load_delay{0};   // until the runner is ready
  std::chrono::milliseconds piece_delay{0};  // before each chunk
  bool holds_load = false;                   // true: the load does not finish
  bool holds_answers = false;                // true: requests wait before their first chunk
  size_t holds_after = 0;                    // if not 0: requests wait after this many chunks
  // Number of future failures of each kind:
  int n_start_failures = 0;  // the runner cannot be started
  int n_load_failures = 0;   // the load fails with `load_failure`
  int n_load_deaths = 0;     // the runner dies during the load, as `load_death` says
  int n_deaths = 0;          // the runner dies after `dies_after` chunks of a response
  size_t dies_after = 0;
  int n_lost_connections = 0;  // the connection is lost, but the runner lives
  int refusal_status = 0;      // if not 0: requests are rejected with this status
  std::string refusal = "refused";
  std::string load_failure = "bad file";
  std::string load_death = "exit status 1: out of luck";
  bool is_out_of_memory = false;
  bool is_broken = false;  // the health is "failed" after the load
  bool is_mute = false;    // health requests fail
  uint64_t held_bytes = 100;
  uint64_t cached_bytes = 0;
  uint64_t wanted_bytes = 0;
  bool is_asking = false;
  size_t max_context = 4096;
};

class FakeRunners {
 public:
  struct Asked {
    std::string key;
    Completion completion;
  };
  struct Embedded {
    std::string key;
    EmbedJob job;
  };
  struct Budget {
    std::string key;
    uint64_t bytes = 0;
    uint64_t version = 0;
    uint64_t ceiling = 0;
  };

  StartRunner starter() {
    return [this](const Launch& launch) { return start(launch); };
  }

  // Changes the script of a model. Holds the lock that its runners read it with.
  void change(const std::string& key, const std::function<void(FakeScript&)>& how) {
    const std::scoped_lock lock(mutex_);
    how(scripts_[key]);
    changed_.notify_all();
  }
  // Kills all living runners of this model.
  void kill(const std::string& key, const std::string& how = "signal 9 (Killed)") {
    std::unique_lock lock(mutex_);
    const auto lives = [&](const Life* life) { return life->is_alive && life->launch.key == key; };
    for (auto found = std::ranges::find_if(lives_, lives); found != lives_.end();
         found = std::ranges::find_if(lives_, lives))
      die(lock, **found, how);
  }

  std::vector<Launch> launches() const { return copy(launches_); }
  std::vector<Asked> completions() const { return copy(completions_); }
  std::vector<Embedded> embeddings() const { return copy(embeddings_); }
  std::vector<Budget> budgets() const { return copy(budgets_); }
  size_t n_alive() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<size_t>(std::ranges::count(lives_, true, &Life::is_alive));
  }
  size_t n_health_requests() const {
    const std::scoped_lock lock(mutex_);
    return n_health_requests_;
  }
  size_t n_running() const {
    const std::scoped_lock lock(mutex_);
    return n_running_;
  }
  // Max number at the same time so far.
  size_t max_loading() const {
    const std::scoped_lock lock(mutex_);
    return max_loading_;
  }
  size_t max_running() const {
    const std::scoped_lock lock(mutex_);
    return max_running_;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Life {
    explicit Life(const Launch& of) : launch(of) {}
    const Launch launch;
    bool is_alive = true;
    bool is_loading = true;
    bool on_end_returned = false;
    std::string how_it_ended{};
    std::chrono::steady_clock::time_point ready_at{};
    uint64_t version = 0;
    int pid = 0;
  };

  class Fake final : public Runner {
   public:
    Fake(FakeRunners& owner, const Launch& launch) : owner_(owner), life_(launch) {
      const std::scoped_lock lock(owner_.mutex_);
      owner_.begin(life_);
    }
    ~Fake() override {
      end();
      Lock lock(owner_.mutex_);
      std::erase(owner_.lives_, &life_);
    }
    CompletionEnd complete(const Completion& request, const OnPiece& on_piece,
                           std::stop_token stop) override {
      return owner_.complete(life_, request, on_piece, stop);
    }
    EmbedOutputs embed(const EmbedJob& job, std::stop_token stop) override {
      return owner_.embed(life_, job, stop);
    }
    // Returns one prefix of a single block whose digest is the root.
    std::vector<Prefix> prefixes(std::string_view root, size_t n_max) override {
      return n_max == 0 ? std::vector<Prefix>{} : std::vector<Prefix>{{64, {std::string(root)}}};
    }
    // All of the text is on disk or forgotten, 10 bytes for each token.
    TextKv do_with_text(TextAction, const CachedText& text) override {
      return {text.tokens.size(), 10 * text.tokens.size()};
    }
    RunnerHealth health() override { return owner_.health(life_); }
    void set_budget(const scheduler::Budget& budget) override {
      const std::scoped_lock lock(owner_.mutex_);
      owner_.budgets_.push_back({life_.launch.key, budget.bytes, budget.version, budget.ceiling});
      life_.version = budget.version;
    }
    pid_t pid() const noexcept override { return life_.pid; }
    std::string end_of_process() override {
      const std::scoped_lock lock(owner_.mutex_);
      return life_.how_it_ended;
    }
    void end() override {
      Lock lock(owner_.mutex_);
      owner_.die(lock, life_, "signal 15 (Terminated)");
      owner_.changed_.wait(lock, [&] { return life_.on_end_returned; });
    }

   private:
    FakeRunners& owner_;
    Life life_;
  };

  template <typename T>
  std::vector<T> copy(const std::vector<T>& list) const {
    const std::scoped_lock lock(mutex_);
    return list;
  }

  std::unique_ptr<Runner> start(const Launch& launch) {
    {
      const std::scoped_lock lock(mutex_);
      launches_.push_back(launch);
      if (scripts_[launch.key].n_start_failures-- > 0)
        throw Error(ErrorCode::kIo, "cannot start the program");
    }
    return std::make_unique<Fake>(*this, launch);
  }

  void begin(Life& life) {
    life.ready_at = std::chrono::steady_clock::now() + scripts_[life.launch.key].load_delay;
    life.pid = ++next_pid_;
    lives_.push_back(&life);
    const auto n_loading = static_cast<size_t>(std::ranges::count_if(
        lives_, [](const Life* other) { return other->is_alive && other->is_loading; }));
    max_loading_ = std::max(max_loading_, n_loading);
  }

  void die(Lock& lock, Life& life, const std::string& how) {
    if (!life.is_alive) return;
    life.is_alive = false;
    life.how_it_ended = how;  // before on_end(), as in a real process
    changed_.notify_all();
    lock.unlock();
    if (life.launch.on_end) life.launch.on_end();
    lock.lock();
    life.on_end_returned = true;
    changed_.notify_all();
  }

  RunnerHealth health(Life& life) {
    Lock lock(mutex_);
    ++n_health_requests_;
    FakeScript& script = scripts_[life.launch.key];
    if (life.is_loading && script.n_load_deaths > 0) {
      --script.n_load_deaths;
      die(lock, life, script.load_death);
    }
    if (!life.is_alive || script.is_mute) throw RunnerGone("no response");
    RunnerHealth health;
    const bool is_held = script.holds_load || std::chrono::steady_clock::now() < life.ready_at;
    if (life.is_loading && !is_held && script.n_load_failures > 0) {
      --script.n_load_failures;
      return {.status = RunnerStatus::kFailed,
              .error = script.load_failure,
              .out_of_memory = script.is_out_of_memory};
    }
    if (script.is_broken && !life.is_loading)
      return {.status = RunnerStatus::kFailed, .error = "the loop is broken"};
    if (is_held && life.is_loading) return {.n_loaded = ++n_progress_};
    life.is_loading = false;
    health.status = RunnerStatus::kReady;
    health.max_context = script.max_context;
    health.budget_version = life.version;
    health.held_bytes = script.held_bytes;
    health.cached_bytes = script.cached_bytes;
    health.wanted_bytes = script.wanted_bytes;
    health.is_asking = script.is_asking;
    return health;
  }

  // Counts a running call. Ends it when its runner dies or its caller stops.
  class Inside {
   public:
    Inside(FakeRunners& owner, Lock& lock, Life& life, const std::stop_token& stop)
        : owner_(owner), lock_(lock), life_(life), stop_(stop) {
      owner_.max_running_ = std::max(owner_.max_running_, ++owner_.n_running_);
    }
    ~Inside() {
      if (!lock_.owns_lock()) lock_.lock();
      --owner_.n_running_;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    void check() const {
      if (!life_.is_alive) throw RunnerGone("the connection is lost");
      if (stop_.stop_requested()) throw Cancelled();
    }
    template <typename Predicate>
    void wait_until(const Predicate& happened) {
      owner_.changed_.wait(lock_, stop_, [&] { return !life_.is_alive || happened(); });
      check();
    }
    void wait_for(std::chrono::milliseconds time) {
      owner_.changed_.wait_for(lock_, stop_, time, [&] { return !life_.is_alive; });
      check();
    }

   private:
    FakeRunners& owner_;
    Lock& lock_;
    Life& life_;
    const std::stop_token& stop_;
  };

  CompletionEnd complete(Life& life, const Completion& request, const OnPiece& on_piece,
                         const std::stop_token& stop) {
    Lock lock(mutex_);
    completions_.push_back({life.launch.key, request});
    Inside inside(*this, lock, life, stop);
    inside.check();
    FakeScript& script = scripts_[life.launch.key];
    inside.wait_until([&] { return !script.holds_answers; });
    if (script.refusal_status != 0) throw http::StatusError(script.refusal_status, script.refusal);
    const auto respond = script.answer;
    std::vector<CompletionPiece> pieces = script.whole_pieces;
    if (pieces.empty())
      for (const std::string& text : script.pieces) pieces.push_back({.text = text});
    const CompletionEnd end = script.end;
    if (respond) {
      lock.unlock();
      return respond(request, on_piece);
    }
    for (size_t i = 0; i <= pieces.size(); ++i) {
      if (script.n_deaths > 0 && script.dies_after == i) {
        --script.n_deaths;
        die(lock, life, "signal 11 (Segmentation fault)");
      }
      inside.check();
      if (script.n_lost_connections > 0 && script.dies_after == i) {
        --script.n_lost_connections;
        throw RunnerGone("the connection is lost");
      }
      if (i == pieces.size()) break;
      inside.wait_until([&] { return script.holds_after == 0 || script.holds_after != i; });
      if (script.piece_delay.count() > 0) inside.wait_for(script.piece_delay);
      lock.unlock();
      const bool goes_on = on_piece(std::move(pieces[i]));
      lock.lock();
      if (!goes_on) return {};
    }
    return end;
  }

  EmbedOutputs embed(Life& life, const EmbedJob& job, const std::stop_token& stop) {
    Lock lock(mutex_);
    embeddings_.push_back({life.launch.key, job});
    Inside inside(*this, lock, life, stop);
    inside.check();
    FakeScript& script = scripts_[life.launch.key];
    inside.wait_until([&] { return !script.holds_answers; });
    if (script.n_deaths > 0) {
      --script.n_deaths;
      die(lock, life, "signal 11 (Segmentation fault)");
    }
    inside.check();
    if (script.refusal_status != 0) throw http::StatusError(script.refusal_status, script.refusal);
    if (const auto made = script.embed) {
      lock.unlock();
      return made(job);
    }
    EmbedOutputs vectors;
    for (const EmbedInput& input : job.inputs) {
      std::vector<float>& vector = vectors.emplace_back().values;
      vector.resize(script.vector_size);
      if (vector.size() > 0) vector[0] = static_cast<float>(input.tokens.size());
      if (vector.size() > 1 && !input.tokens.empty())
        vector[1] = static_cast<float>(input.tokens.front());
    }
    return vectors;
  }

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, FakeScript> scripts_;
  std::vector<Life*> lives_;
  std::vector<Launch> launches_;
  std::vector<Asked> completions_;
  std::vector<Embedded> embeddings_;
  std::vector<Budget> budgets_;
  size_t n_running_ = 0;
  size_t n_health_requests_ = 0;
  size_t max_running_ = 0;
  size_t max_loading_ = 0;
  uint64_t n_progress_ = 0;
  int next_pid_ = 1000;
};

}  // namespace billow::scheduler
