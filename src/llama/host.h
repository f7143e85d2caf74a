// Runs one llama-server: starts, watches and stops it, and restarts it with more or less memory. A
// thread of the host owns the process. llama-server ends when this process ends. Thread-safe.
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
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "http/client.h"
#include "llama/command.h"
#include "llama/pool.h"
#include "process/child_process.h"

namespace billow::llama {

struct HostOptions {
  // Prefix of the command: a program that starts llama-server and ends it when this process ends.
  std::vector<std::string> launcher{};
  CommandOptions command{};           // the pool sets n_cells
  std::string name = "llama-server";  // prefix of llama-server's lines in the log
  // Bytes of weights that llama-server does not log: those of the projector.
  uint64_t unlogged_bytes = 0;
  bool asks_for_memory = false;  // an answer that lacks memory waits for set_budget()
  // A load fails if llama-server logs nothing for this long.
  std::chrono::milliseconds load_timeout = std::chrono::minutes(5);
  // llama-server counts as broken if /health does not respond for this long.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  std::function<void()> on_line{};  // called for each line of llama-server's log
  // Called once, after llama-server has crashed or hangs, by the host's thread.
  std::function<void()> on_broken{};
};

struct HostState {
  uint64_t held_bytes = 0;
  uint64_t idle_bytes = 0;    // part of held_bytes that no answer uses
  uint64_t wanted_bytes = 0;  // missing from the budget
  bool is_asking = false;
  uint64_t budget_version = 0;
  uint64_t gpu_bytes = 0;
  size_t n_cells = 0;
  size_t n_writing = 0;
  size_t n_waiting = 0;
  size_t n_starts = 0;
  pid_t pid = 0;  // 0: llama-server is not running
  std::string failure{};
};

class Host {
 public:
  // Starts llama-server and waits until it is ready. Throws Error with the error that llama-server
  // logged. The code is kOutOfMemory if llama-server could not allocate memory.
  Host(HostOptions options, Pool pool);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  struct Reserved {
    bool is_granted = false;
    bool restarted = false;  // llama-server was restarted for the reservation
  };
  // Waits for cells for an answer that has n_had cells and needs n_wanted in total. If no more
  // cells can become available, denies them to an answer that has cells. Throws Error kOutOfMemory
  // if the answer has no cells and none can become available. Throws Error kIo if llama-server is
  // broken or if `stop` is requested.
  Reserved reserve(size_t n_had, size_t n_wanted, const std::stop_token& stop);
  void give_back(size_t n);

  // Prevents restarts of llama-server while the object exists.
  class Writing {
   public:
    ~Writing();
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    friend class Host;
    explicit Writing(Host& host) : host_(host) {}
    Host& host_;
  };
  // Waits until llama-server runs. Throws the same errors as reserve().
  std::unique_ptr<Writing> write(const std::stop_token& stop);
  // Returns the text that marks an image in texts for llama-server. REQUIRES: a Writing exists.
  std::string media_marker() const;
  http::Endpoint endpoint() const { return {.host = {}, .port = 0, .socket_path = socket_}; }

  void set_budget(const runner::MemoryBudget& budget);
  HostState state() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void start(Lock& lock);
  void stop(Lock& lock);
  void wait_until_ready(process::ChildProcess& child);
  bool answers(std::chrono::milliseconds timeout) const;
  std::string ask_for_marker() const;
  std::string take_line(std::string_view line);
  void fail(Lock& lock, std::string what);
  class Wish;
  Room room_for(size_t n_had, size_t n_wanted);
  void check_failure() const;
  bool restart_is_due() const;
  bool must_stop() const;
  bool must_start() const;

  const HostOptions options_;
  const std::string socket_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Pool pool_;
  std::unique_ptr<process::ChildProcess> child_;  // only the host's thread uses it
  bool is_running_ = false;
  bool has_begun_ = false;  // true after the first startup, even if llama-server is stopped
  bool is_closing_ = false;
  bool is_out_of_memory_ = false;
  std::atomic<bool> has_ended_{false};
  std::atomic<Clock::rep> last_line_at_{0};
  std::atomic<uint64_t> scratch_bytes_{0};  // of this process, from its log
  std::atomic<uint64_t> weight_bytes_{0};
  std::atomic<uint64_t> gpu_bytes_{0};  // weights, KV and scratch
  std::string failure_;
  std::string media_marker_;  // of this process
  size_t n_writing_ = 0;
  size_t n_restart_waiters_ = 0;
  size_t n_waiting_ = 0;
  size_t n_starts_ = 0;
  uint64_t wanted_bytes_ = 0;
  size_t n_asking_ = 0;
  std::thread thread_;
};

}  // namespace billow::llama
