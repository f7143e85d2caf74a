// Tests memory with the real scheduler and real runners. A runner uses exactly the memory that the
// scheduler grants. An answer that needs more gets free memory before it is compacted.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_folder.h"
#include "reference/tiny_model.h"
#include "scheduler/model_facts.h"
#include "scheduler/runner_process.h"
#include "scheduler/scheduler_world.h"

namespace billow::scheduler {
namespace {

namespace fs = std::filesystem;

constexpr size_t kParallel = 2;
const std::vector<std::string> kArguments = {"--threads", "1"};

// A folder with two generated models, and the options of the program.
class Models {
 public:
  Models() {
    for (const char* name : {"a", "b"}) {
      reference::write_tiny_model({.architecture = name == std::string("a") ? "llama" : "gemma3",
                                   .n_layers = 4,
                                   .n_head_kv = 4,
                                   .n_context = 2048},
                                  path(name));
    }
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".gguf"; }
  ModelFacts facts(const std::string& name) const {
    std::vector<std::string> arguments = kArguments;
    arguments.insert(arguments.end(), {"--parallel", std::to_string(kParallel)});
    return describe_with(BILLOW_PROGRAM, arguments)(path(name), {}, {});
  }
  Job job(const std::string& name, size_t n_positions) const {
    return {.key = path(name),
            .name = name,
            .weights = path(name),
            .is_embedding = false,
            .cost = cost_of(facts(name), n_positions),
            .keep_alive = kForever};
  }
  RunnerProgram program() const {
    return {.program = BILLOW_PROGRAM, .arguments = kArguments, .folder = folder_};
  }

 private:
  TestFolder temporary_;
  const std::string folder_ = temporary_.path();
};

uint64_t alone(const ModelCost& cost) { return model_bytes(cost, 1); }

Options options_of(uint64_t budget_bytes) {
  Options options;
  options.budget_bytes = budget_bytes;
  options.n_parallel = kParallel;
  return options;
}

// The result of write(), which writes n tokens after a short prompt, on rungs of 64, 512 and 2048
// tokens.
struct Answer {
  size_t n_tokens = 0;
  size_t n_compactions = 0;
  size_t largest_rung = 0;
  std::string error{};
};

Answer write(Lease& lease, int64_t n) {
  Completion request;
  request.prompt = {1, 2, 3};
  request.ignore_eos = true;
  request.sampling.temperature = 0.0;
  request.num_predict = n;
  request.sizes = {64, 512, 2048};
  request.reserve_batches = 2;
  request.overflow_batch = 8;
  Answer answer;
  const CompletionEnd end = lease.complete(request, [&](const CompletionPiece& piece) {
    for (const std::string& text : piece.events) {
      const Json event = Json::parse(text);
      if (event.at("type") == "compaction")
        ++answer.n_compactions;
      else
        answer.largest_rung = std::max(answer.largest_rung, event.value("to", size_t{0}));
    }
    return true;
  });
  answer.n_tokens = end.n_generated;
  answer.error = end.error;
  return answer;
}

// Expects a complete answer in a context that grew to its max.
void expect_full_growth(const Answer& answer) {
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.n_tokens, 900u);
  EXPECT_EQ(answer.n_compactions, 0u);
  EXPECT_EQ(answer.largest_rung, 2048u);
}

TEST(SchedulerMemory, AnswerGrowsIntoFreeMemoryAfterLoadWithoutPrompt) {
  const Models models;
  RunnerProcesses processes(models.program());
  Scheduler scheduler(options_of(uint64_t{1} << 30), processes.starter());
  // The load has no prompt, so the first grant has no room for one.
  scheduler.acquire(models.job("a", 0), {});
  const std::unique_ptr<Lease> lease = scheduler.acquire(models.job("a", 64), {});
  expect_full_growth(write(*lease, 900));
}

TEST(SchedulerMemory, AnswerGrowsIntoMemoryOfIdleModel) {
  const Models models;
  RunnerProcesses processes(models.program());
  const uint64_t budget = alone(models.job("a", 2048).cost) + (uint64_t{1} << 20);
  Scheduler scheduler(options_of(budget), processes.starter());
  scheduler.acquire(models.job("b", 64), {});
  const std::unique_ptr<Lease> lease = scheduler.acquire(models.job("a", 64), {});
  expect_full_growth(write(*lease, 900));
}

TEST(SchedulerMemory, AnswerAboveTheBudgetIsCompacted) {
  const Models models;
  RunnerProcesses processes(models.program());
  const uint64_t budget = alone(models.job("a", 512).cost);
  Scheduler scheduler(options_of(budget), processes.starter());
  const std::unique_ptr<Lease> lease = scheduler.acquire(models.job("a", 64), {});
  const Answer answer = write(*lease, 900);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.n_tokens, 900u);
  EXPECT_GT(answer.n_compactions, 0u);
  EXPECT_EQ(answer.largest_rung, 512u);
  // A context above the budget is refused immediately, with both numbers.
  const Outcome refused = ask(scheduler, models.job("a", 2048));
  EXPECT_TRUE(refused.end.starts_with("500 model requires more system memory")) << refused.end;
}

}  // namespace
}  // namespace billow::scheduler
