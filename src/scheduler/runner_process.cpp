#include "scheduler/runner_process.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "process/child_process.h"
#include "scheduler/runner_client.h"

namespace billow::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

// How long a runner without its socket can take until its process ends.
constexpr std::chrono::seconds kTimeToEnd{2};

std::vector<std::string> command_of(const RunnerProgram& program, const Launch& launch,
                                    const std::string& socket) {
  constexpr size_t kMaxParallel = 1024;  // the limit of the program
  const size_t n_parallel = std::clamp<size_t>(launch.n_parallel, 1, kMaxParallel);
  std::vector<std::string> command = {program.program, "runner"};
  const auto add = [&](const char* name, const std::string& value) {
    command.insert(command.end(), {name, value});
  };
  add("--model", launch.weights);
  add("--socket", socket);
  add("--parallel", std::to_string(n_parallel));
  add("--memory", std::to_string(launch.budget_bytes));
  add("--engine", std::string(engine_name(launch.engine.engine)));
  if (launch.engine.n_gpu_layers) add("--gpu-layers", std::to_string(*launch.engine.n_gpu_layers));
  if (!launch.engine.projector.empty()) add("--projector", launch.engine.projector);
  if (!launch.engine.draft.empty()) add("--draft", launch.engine.draft);
  for (const std::string& adapter : launch.engine.adapters) add("--adapter", adapter);
  command.emplace_back("--ask-for-memory");
  add("--drain-timeout", "0");  // nobody waits for its remaining requests
  // Not as PID 1: in a container, all processes end with PID 1 anyway. A child cannot see that PID
  // 1 has died, because orphans get PID 1 as their parent.
  if (::getpid() != 1) command.emplace_back("--with-parent");
  command.insert(command.end(), program.arguments.begin(), program.arguments.end());
  return command;
}

class RunnerProcess final : public Runner {
 public:
  RunnerProcess(const RunnerProgram& program, const Launch& launch, const std::string& socket)
      : timeout_(program.timeout),
        socket_(socket),
        client_(socket, program.answer_timeout),
        child_({.command = command_of(program, launch, socket),
                .name = launch.name,
                .on_end = launch.on_end}) {}
  ~RunnerProcess() override { end(); }

  CompletionEnd complete(const Completion& request, const OnPiece& on_piece,
                         std::stop_token stop) override {
    return client_.complete(request, on_piece, std::move(stop));
  }
  EmbedOutputs embed(const EmbedJob& job, std::stop_token stop) override {
    return client_.embed(job, std::move(stop));
  }
  std::vector<Prefix> prefixes(std::string_view root, size_t n_max) override {
    return client_.prefixes(root, n_max);
  }
  TextKv do_with_text(TextAction action, const CachedText& text) override {
    return client_.do_with_text(action, text);
  }

  RunnerHealth health() override {
    try {
      RunnerHealth health = client_.health();
      has_answered_ = true;
      if (is_unreachable()) {
        health.status = RunnerStatus::kFailed;
        health.error = "its socket " + socket_ + " was removed";
      }
      return health;
    } catch (const RunnerGone&) {
      // The process needs a moment until it listens.
      if (has_answered_ || !end_of_process().empty()) throw;
      return {};
    }
  }
  void set_budget(const Budget& budget) override { client_.set_budget(budget); }
  pid_t pid() const noexcept override { return child_.pid(); }
  std::string end_of_process() override { return child_.how_it_ended(); }
  void end() override {
    child_.end(timeout_);
    ::unlink(socket_.c_str());
  }

 private:
  // Returns whether somebody else has removed the socket or its folder. Health requests use an open
  // connection, so that they still succeed. A runner that ends removes only its socket, and then
  // its own reason counts: it has a moment to end.
  bool is_unreachable() {
    const std::string folder = socket_.substr(0, socket_.rfind('/'));
    if (is_missing(folder)) return true;
    if (!is_missing(socket_)) {
      missing_since_.reset();
      return false;
    }
    if (!missing_since_) missing_since_ = Clock::now();
    return Clock::now() - *missing_since_ >= kTimeToEnd;
  }

  static bool is_missing(const std::string& path) {
    return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT;
  }

  const std::chrono::milliseconds timeout_;
  const std::string socket_;
  RunnerClient client_;
  std::atomic<bool> has_answered_{false};
  std::optional<Clock::time_point> missing_since_;  // the socket; only for the caller of health()
  process::ChildProcess child_;
};

}  // namespace

RunnerProcesses::RunnerProcesses(RunnerProgram program)
    : program_(std::move(program)),
      folder_(std::make_unique<RunnerFolder>(program_.folder)),
      spawner_([this] { run(); }) {}

RunnerProcesses::~RunnerProcesses() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  spawner_.join();
}

void RunnerProcesses::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

std::unique_ptr<Runner> RunnerProcesses::start(const Launch& launch) {
  std::future<std::unique_ptr<Runner>> started;
  {
    const std::scoped_lock lock(mutex_);
    if (!folder_->exists()) folder_ = std::make_unique<RunnerFolder>(program_.folder);
    const std::string socket = folder_->path() + "/" + std::to_string(n_started_++) + ".sock";
    queue_.emplace_back([this, launch, socket]() -> std::unique_ptr<Runner> {
      return std::make_unique<RunnerProcess>(program_, launch, socket);
    });
    started = queue_.back().get_future();
    changed_.notify_all();
  }
  return started.get();
}

StartRunner RunnerProcesses::starter() {
  return [this](const Launch& launch) { return start(launch); };
}

}  // namespace billow::scheduler
