// Tests the real program as a runner: its answers, its end, and that nothing of it is left.
#include "scheduler/runner_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/test_folder.h"
#include "reference/tiny_model.h"
#include "scheduler/scheduler_world.h"

namespace billow::scheduler {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kBudget = uint64_t{1} << 30;

// A folder with a generated model in it.
struct Folder {
  Folder() { reference::write_tiny_model({.architecture = "llama", .n_context = 1024}, model); }
  TestFolder temporary;
  const std::string path = temporary.path();
  const std::string model = temporary.file("tiny.gguf");
};

struct Programs {
  // `timeout` is the time from the request to exit until the kill.
  explicit Programs(milliseconds timeout = RunnerProgram().timeout)
      : processes({.program = BILLOW_PROGRAM,
                   .arguments = {"-t", "1"},
                   .folder = folder.path,
                   .timeout = timeout}) {}
  Folder folder;
  RunnerProcesses processes;

  std::unique_ptr<Runner> start() {
    std::unique_ptr<Runner> runner = processes.start({.key = "tiny",
                                                      .name = "tiny",
                                                      .weights = folder.model,
                                                      .n_parallel = 2,
                                                      .budget_bytes = kBudget});
    EXPECT_TRUE(comes_true([&] { return runner->health().status == RunnerStatus::kReady; }));
    return runner;
  }
  size_t n_left() const {  // in addition to the model
    size_t n = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path))
      n += entry.path() != folder.model ? 1 : 0;
    return n;
  }
};

Options big_options() {
  Options options;
  options.budget_bytes = kBudget;
  options.restarts.first_delay = milliseconds(1);
  return options;
}

Job tiny_job(const Programs& programs) {
  return {.key = programs.folder.model,
          .name = "tiny",
          .weights = programs.folder.model,
          .is_embedding = false,
          .cost = {uint64_t{64} << 20, 0, uint64_t{1} << 20},
          .keep_alive = {}};
}

Completion endless() {
  Completion request;
  request.prompt = {1, 2, 3};
  request.ignore_eos = true;
  request.overflow_policy = "shift";
  return request;
}

Completion of_tokens(int64_t n) {
  Completion request = endless();
  request.sampling.temperature = 0.0;
  request.num_predict = n;
  return request;
}

// Returns the process state from /proc: 'T' is stopped, 'Z' has ended, 0 means no such process.
char state_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return 0;
  return text.at(text.rfind(')') + 2);
}

bool is_alive(pid_t pid) { return state_of(pid) != 0 && state_of(pid) != 'Z'; }

// Stops a process. kill() returns before all threads have stopped, so this function waits.
bool stops(pid_t pid) {
  if (::kill(pid, SIGSTOP) != 0) return false;
  return comes_true([pid] {
    const fs::path tasks = "/proc/" + std::to_string(pid) + "/task";
    return std::ranges::all_of(fs::directory_iterator(tasks), [](const auto& task) {
      return state_of(std::stoi(task.path().filename())) == 'T';
    });
  });
}

size_t n_children() {
  size_t n = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (int pid = 0; children >> pid;) ++n;
  }
  return n;
}

ptrdiff_t n_open_files() { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); }

TEST(RunnerProcess, Answers) {
  Programs programs(std::chrono::minutes(1));
  const std::unique_ptr<Runner> runner = programs.start();
  EXPECT_GT(runner->health().max_context, 0u);
  std::string first;
  std::string second;
  const auto into = [](std::string& text) {
    return [&text](const CompletionPiece& piece) {
      text += piece.text;
      return true;
    };
  };
  const CompletionEnd end = runner->complete(of_tokens(20), into(first), {});
  EXPECT_EQ(end.done_reason, "length");
  EXPECT_EQ(end.n_generated, 20u);
  EXPECT_EQ(end.tokens.size(), 20u);
  EXPECT_EQ(end.n_prompt, 3u);
  EXPECT_EQ(runner->complete(of_tokens(20), into(second), {}).tokens, end.tokens);
  EXPECT_EQ(first, second);
  runner->set_budget({kBudget / 2, 3});
  Completion wrong = of_tokens(3);
  wrong.prompt = {99999};
  try {
    runner->complete(wrong, into(first), {});
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
  }
  EXPECT_EQ(runner->end_of_process(), "");
  runner->end();
  EXPECT_EQ(runner->end_of_process(), "exit status 0");
  EXPECT_THROW(runner->complete(of_tokens(3), into(first), {}), RunnerGone);
  EXPECT_THROW(runner->health(), RunnerGone);
}

TEST(RunnerProcess, ThrowsRunnerGoneIfKilledDuringAnAnswer) {
  Programs programs;
  const std::unique_ptr<Runner> runner = programs.start();
  const auto kills = [&](const CompletionPiece&) {
    ::kill(runner->pid(), SIGKILL);
    return true;
  };
  EXPECT_THROW(runner->complete(endless(), kills, {}), RunnerGone);
  EXPECT_TRUE(comes_true([&] { return !runner->end_of_process().empty(); }));
  EXPECT_EQ(runner->end_of_process(), "signal 9 (Killed)");
}

TEST(RunnerProcess, StopsWritingWhenTheCallerStops) {
  Programs programs;
  const std::unique_ptr<Runner> runner = programs.start();
  std::stop_source source;
  const auto stops = [&](const CompletionPiece&) { return source.request_stop(), true; };
  EXPECT_THROW(runner->complete(endless(), stops, source.get_token()), Cancelled);
  EXPECT_TRUE(comes_true([&] { return runner->health().n_running == 0; }));
  EXPECT_EQ(
      runner->complete(of_tokens(3), [](const CompletionPiece&) { return true; }, {}).n_generated,
      3u);
}

TEST(RunnerProcess, StaysReachableIfFilesAreRemovedFromItsFolder) {
  Programs programs;
  const std::unique_ptr<Runner> first = programs.start();
  for (const auto& entry : fs::recursive_directory_iterator(programs.folder.path))
    if (entry.is_regular_file() && entry.path() != programs.folder.model) fs::remove(entry.path());
  const std::unique_ptr<Runner> second = programs.start();
  EXPECT_EQ(programs.n_left(), 3u);  // one folder, two sockets
  const RunnerFolder of_another_server(programs.folder.path);
  for (Runner* runner : {first.get(), second.get()}) {
    const auto all = [](const CompletionPiece&) { return true; };
    EXPECT_EQ(runner->complete(of_tokens(3), all, {}).n_generated, 3u);
    EXPECT_EQ(runner->health().status, RunnerStatus::kReady);
  }
}

TEST(RunnerProcess, EndsWithItsParent) {
  const Folder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  std::vector<std::string> words = {BILLOW_HOLD_RUNNER, BILLOW_PROGRAM, folder.model, folder.path};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t parent = -1;
  ASSERT_EQ(::posix_spawn(&parent, BILLOW_HOLD_RUNNER, &files, nullptr, arguments.data(), environ),
            0);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  std::array<char, 32> text{};
  ASSERT_GT(::read(ends[0], text.data(), text.size() - 1), 0);
  ::close(ends[0]);
  const pid_t child = std::atoi(text.data());
  EXPECT_TRUE(is_alive(child));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return !is_alive(child); }));
  // The killed parent leaves its folder. The next server removes it.
  const auto n_folders = [&] {
    return std::distance(fs::directory_iterator(folder.path), fs::directory_iterator{}) - 1;
  };
  EXPECT_EQ(n_folders(), 1);
  {
    const RunnerFolder next(folder.path);
  }
  EXPECT_EQ(n_folders(), 0);
}

TEST(SchedulerProcess, FailsRequestThatHadTextAndReloads) {
  Programs programs;
  Scheduler scheduler(big_options(), programs.processes.starter());
  const std::unique_ptr<Lease> lease = scheduler.acquire(tiny_job(programs), {});
  const pid_t pid = scheduler.state().models.at(0).pid;
  try {
    lease->complete(endless(), [&](const CompletionPiece& piece) {
      if (!piece.text.empty()) ::kill(pid, SIGKILL);
      return true;
    });
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 500);
    EXPECT_EQ(error.what(), std::string(kCrashText) + ": signal 9 (Killed)");
  }
  const std::unique_ptr<Lease> next = scheduler.acquire(tiny_job(programs), {});
  EXPECT_EQ(next->complete(of_tokens(5), [](const CompletionPiece&) { return true; }).n_generated,
            5u);
}

TEST(SchedulerProcess, ReplacesARunnerWhoseSocketWasRemoved) {
  Programs programs;
  Scheduler scheduler(big_options(), programs.processes.starter());
  std::unique_ptr<Lease> lease = scheduler.acquire(tiny_job(programs), {});
  const auto all = [](const CompletionPiece&) { return true; };
  EXPECT_EQ(lease->complete(of_tokens(5), all).n_generated, 5u);
  lease.reset();
  const pid_t pid = scheduler.state().models.at(0).pid;
  size_t n_removed = 0;
  for (const auto& entry : fs::recursive_directory_iterator(programs.folder.path))
    if (entry.is_socket()) n_removed += fs::remove(entry.path()) ? 1 : 0;
  EXPECT_EQ(n_removed, 1u);
  EXPECT_TRUE(comes_true([&] { return !is_alive(pid); }));
  lease = scheduler.acquire(tiny_job(programs), {});
  EXPECT_EQ(lease->complete(of_tokens(5), all).n_generated, 5u);
}

TEST(SchedulerProcess, RetriesRequestThatHadNoText) {
  Programs programs;
  Scheduler scheduler(big_options(), programs.processes.starter());
  std::vector<JobStage> stages;
  const std::unique_ptr<Lease> lease =
      scheduler.acquire(tiny_job(programs), {}, [&](JobStage stage) { stages.push_back(stage); });
  const pid_t pid = scheduler.state().models.at(0).pid;
  ASSERT_TRUE(stops(pid));
  // The kill probably happens while the request waits for its first text. An earlier kill has the
  // same outcome.
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(pid, SIGKILL);
  });
  const CompletionEnd end =
      lease->complete(of_tokens(5), [](const CompletionPiece&) { return true; });
  killer.join();
  EXPECT_EQ(end.n_generated, 5u);
  EXPECT_EQ(std::ranges::count(stages, JobStage::kRetrying), 1);
  EXPECT_NE(scheduler.state().models.at(0).pid, pid);
}

TEST(SchedulerProcess, PromptThatKillsItsRunnerCutsOtherStreamsOnlyOnce) {
  Programs programs;
  Options options = big_options();
  options.n_parallel = 4;
  Scheduler scheduler(options, programs.processes.starter());
  std::atomic<bool> is_over{false};
  std::atomic<int> n_cut{0};
  std::array<std::atomic<int>, 2> n_streams{};  // started streams of each client
  std::vector<std::thread> clients;
  for (std::atomic<int>& n_begun : n_streams) {
    clients.emplace_back([&] {
      while (!is_over) {
        bool has_text = false;
        try {
          scheduler.acquire(tiny_job(programs), {})
              ->complete(endless(), [&](const CompletionPiece& piece) {
                if (!has_text && !piece.text.empty()) n_begun.fetch_add(1);
                has_text = has_text || !piece.text.empty();
                return !is_over;
              });
        } catch (const http::StatusError&) {
          n_cut.fetch_add(1);
        }
      }
    });
  }
  const auto all_stream = [&](int n) {
    return comes_true([&] { return n_streams[0] == n && n_streams[1] == n; });
  };
  EXPECT_TRUE(all_stream(1));
  // The runner of the marked prompt dies as soon as it has read the prompt. The answer is endless,
  // so it cannot be complete before the signal. Each runner gets one signal.
  const auto ask_marked = [&] {
    Job job = tiny_job(programs);
    job.digest = 13;
    Completion marked = endless();
    marked.may_begin_again = true;
    std::atomic<bool> is_alive{true};
    const auto on_stage = [&](JobStage stage) {
      if (stage == JobStage::kRetrying) is_alive = true;
    };
    try {
      scheduler.acquire(job, {}, on_stage)->complete(marked, [&](const CompletionPiece&) {
        if (!is_alive.exchange(false)) return true;
        for (const LoadedModel& model : scheduler.state().models)
          if (model.pid > 0) ::kill(model.pid, SIGKILL);
        return true;
      });
    } catch (const http::StatusError& error) {
      return std::string(error.what());
    }
    return std::string("an answer");
  };
  EXPECT_EQ(ask_marked(),
            std::string(kCrashText) + ": signal 9 (Killed); " + std::string(kCulpritText));
  EXPECT_TRUE(all_stream(2));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask_marked(), kRefusedText);
  EXPECT_TRUE(all_stream(2));
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_cut, 2);
}

TEST(SchedulerProcess, ReportsWhyAModelCannotBeLoaded) {
  Programs programs;
  std::ofstream(programs.folder.path + "/bad.gguf") << "this is no model";
  Scheduler scheduler(big_options(), programs.processes.starter());
  Job job = tiny_job(programs);
  job.key = job.weights = programs.folder.path + "/bad.gguf";
  const Outcome outcome = ask(scheduler, job);
  EXPECT_TRUE(outcome.end.starts_with("500 model runner process has terminated: ")) << outcome.end;
  EXPECT_NE(outcome.end.find("bad.gguf"), std::string::npos) << outcome.end;
}

// A load that fails early ends the process before its health is seen.
TEST(SchedulerProcess, RecognisesEachLoadThatRanOutOfMemory) {
  Programs programs;
  Job job = tiny_job(programs);
  job.cost = {1000, 0, 0};  // much less than the weights
  job.keep_alive = Duration::zero();
  {
    Scheduler scheduler(big_options(), programs.processes.starter());
    for (int i = 0; i < 10; ++i) {
      EXPECT_NO_THROW(scheduler.acquire(job, {}));  // the second load gets all memory
      EXPECT_TRUE(comes_true([&] { return scheduler.state().models.empty(); }));
    }
  }
  Options options = big_options();
  options.budget_bytes = 10'000;
  Scheduler scheduler(options, programs.processes.starter());
  for (int i = 0; i < 10; ++i) {
    const std::string end = ask(scheduler, job).end;
    EXPECT_TRUE(end.starts_with("500 model requires more system memory")) << end;
  }
}

TEST(SchedulerProcess, LeavesNothingAfterManyLoads) {
  Programs programs;
  Job job = tiny_job(programs);
  job.keep_alive = Duration::zero();
  const auto load_some = [&](int n) {
    Scheduler scheduler(big_options(), programs.processes.starter());
    for (int i = 0; i < n; ++i) {
      {
        const std::unique_ptr<Lease> lease = scheduler.acquire(job, {});
        EXPECT_EQ(
            lease->complete(of_tokens(2), [](const CompletionPiece&) { return true; }).n_generated,
            2u);
      }
      // The next request must load the model again.
      EXPECT_TRUE(comes_true([&] { return scheduler.state().models.empty(); }));
    }
  };
  load_some(1);
  const ptrdiff_t n_open = n_open_files();
  const Clock::time_point start = Clock::now();
  load_some(50);
  const auto ms = std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
  RecordProperty("ms_per_load", static_cast<int>(ms / 50));
  EXPECT_EQ(n_open_files(), n_open);
  EXPECT_EQ(n_children(), 0u);
  EXPECT_EQ(programs.n_left(), 1u);  // the empty folder
}

TEST(SchedulerProcess, ServesARealModel) {
  const char* models = std::getenv("BILLOW_TEST_MODELS");
  const char* home = std::getenv("HOME");
  const fs::path model = fs::path(models != nullptr ? std::string(models)
                                                    : std::string(home != nullptr ? home : "") +
                                                          "/.cache/billow/models") /
                         "smollm2-135m-q4_1.gguf";
  if (!fs::exists(model)) GTEST_SKIP() << model << " is not here";
  const Folder folder;
  RunnerProcesses processes(
      {.program = BILLOW_PROGRAM, .arguments = {"-t", "2"}, .folder = folder.path});
  Scheduler scheduler(big_options(), processes.starter());
  Job job;
  job.key = job.name = job.weights = model.string();
  job.cost = {uint64_t{300} << 20, 0, uint64_t{2048} * 23040};
  const std::unique_ptr<Lease> lease = scheduler.acquire(job, {});
  std::string text;
  Completion request = of_tokens(8);
  request.prompt = {504, 3575, 282, 4649, 314};  // "The capital of France is"
  const CompletionEnd end = lease->complete(request, [&](const CompletionPiece& piece) {
    text += piece.text;
    return true;
  });
  EXPECT_EQ(end.n_generated, 8u);
  EXPECT_NE(text.find("Paris"), std::string::npos) << text;
}

}  // namespace
}  // namespace billow::scheduler
