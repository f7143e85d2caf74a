// Jobs, loads and evictions through the scheduler, without faults.
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <utility>

#include "scheduler/scheduler_world.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Strings = std::vector<std::string>;
using Stages = std::vector<JobStage>;

TEST(Scheduler, LoadsModelOnceAndServesFromIt) {
  World world;
  const Outcome first = world.ask("a");
  EXPECT_EQ(first.text, "Hello there");
  EXPECT_EQ(first.end, "ok");
  EXPECT_EQ(first.stages, (Stages{JobStage::kQueued, JobStage::kLoading, JobStage::kAssigned}));
  const Outcome second = world.ask("a");
  EXPECT_EQ(second.end, "ok");
  EXPECT_EQ(second.stages, (Stages{JobStage::kQueued, JobStage::kAssigned}));
  const std::vector<Launch> launches = world.fakes.launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].weights, "/a");
  EXPECT_EQ(launches[0].name, "name-a");
  EXPECT_EQ(launches[0].n_parallel, 2u);
  EXPECT_EQ(launches[0].budget_bytes, 120u);
}

Job job_of_tenant(const char* tenant, uint64_t work) {
  Job job = job_of("a");
  job.tenant = tenant;
  job.work = work;
  return job;
}

Options one_at_a_time() {
  Options options = small_options();
  options.n_parallel = 1;
  return options;
}

// Requests of tenants on threads, and the order in which their answers begin.
class Tenants {
 public:
  explicit Tenants(World& world) : world_(world) {}

  std::future<Outcome> start(const Job& job, const std::stop_token& stop = {},
                             const Completion& request = {}) {
    return std::async(std::launch::async, [this, job, stop, request] {
      bool has_begun = false;
      const auto on_text = [&] {
        const std::scoped_lock lock(mutex_);
        if (!std::exchange(has_begun, true)) order_.push_back(job.tenant);
      };
      return ask(*world_.scheduler, job, stop, on_text, request);
    });
  }
  // Starts a request of ann and two of bob. They wait in this order.
  std::vector<std::future<Outcome>> start_three() {
    std::vector<std::future<Outcome>> started;
    for (const char* tenant : {"ann", "bob", "bob"}) {
      started.push_back(start(job_of_tenant(tenant, 100)));
      EXPECT_TRUE(
          comes_true([&] { return world_.scheduler->state().n_waiting == started.size(); }));
    }
    return started;
  }
  Strings order() const {
    const std::scoped_lock lock(mutex_);
    return order_;
  }

 private:
  World& world_;
  mutable std::mutex mutex_;
  Strings order_;
};

TEST(Scheduler, TenantsPayForTheTextBeforeTheirClientsLeft) {
  World world(one_at_a_time());
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  Tenants tenants(world);
  std::stop_source stop;
  auto first = tenants.start(job_of_tenant("ann", 8000), stop.get_token());
  ASSERT_TRUE(comes_true([&] { return !tenants.order().empty(); }));
  std::vector<std::future<Outcome>> others = tenants.start_three();
  stop.request_stop();
  EXPECT_EQ(first.get().end, "cancelled");
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 0; });
  for (std::future<Outcome>& other : others) EXPECT_EQ(other.get().end, "ok");
  EXPECT_EQ(tenants.order(), (Strings{"ann", "bob", "ann", "bob"}));
}

TEST(Scheduler, TenantsPayForThePromptOfAWholeAnswerWhoseClientLeft) {
  World world(one_at_a_time());
  world.fakes.change("a", [](FakeScript& script) {
    script.whole_pieces = {{.prefill = {{100, milliseconds(1)}}}, {.text = "x"}};
    script.end.n_prompt = 4000;
    script.holds_after = 1;
  });
  Tenants tenants(world);
  std::stop_source stop;
  auto first = tenants.start(job_of_tenant("ann", 8000), stop.get_token(),
                             {.prompt = {1}, .may_begin_again = true});
  ASSERT_TRUE(comes_true([&] { return !tenants.order().empty(); }));
  std::vector<std::future<Outcome>> others = tenants.start_three();
  stop.request_stop();
  EXPECT_EQ(first.get().end, "cancelled");
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 0; });
  for (std::future<Outcome>& other : others) EXPECT_EQ(other.get().end, "ok");
  // Ann has paid 100 tokens and 20 for each second, so that bob pays more for one answer.
  EXPECT_EQ(tenants.order(), (Strings{"ann", "bob", "ann", "bob"}));
}

TEST(Scheduler, TenantsPayNothingForALeaseWithoutACall) {
  World world(one_at_a_time());
  world.fakes.change("a", [](FakeScript& script) { script.end.n_prompt = 4000; });
  Tenants tenants(world);
  std::unique_ptr<Lease> lease = world.scheduler->acquire(job_of_tenant("ann", 8000), {});
  std::vector<std::future<Outcome>> others = tenants.start_three();
  lease.reset();
  for (std::future<Outcome>& other : others) EXPECT_EQ(other.get().end, "ok");
  EXPECT_EQ(tenants.order(), (Strings{"ann", "bob", "bob"}));
}

TEST(Scheduler, ListsLoadedModels) {
  World world;
  EXPECT_TRUE(world.scheduler->state().models.empty());
  world.ask("a");
  const std::optional<LoadedModel> model = world.model("a");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->model.phase, Phase::kReady);
  EXPECT_EQ(model->model.name, "name-a");
  EXPECT_GT(model->pid, 0);
  EXPECT_EQ(model->health.max_context, 4096u);
  ASSERT_TRUE(model->expires_at);
  const auto left = *model->expires_at - std::chrono::system_clock::now();
  EXPECT_GT(left, seconds(200));
  EXPECT_LE(left, seconds(300));
  EXPECT_EQ(world.scheduler->state().budget_bytes, 1000u);
  EXPECT_EQ(world.scheduler->state().granted_bytes, 120u);
  world.scheduler->set_keep_alive("a", kForever);
  EXPECT_FALSE(world.model("a")->expires_at);
}

TEST(Scheduler, LoadsOneModelAtATimeWhileOthersServe) {
  World world;
  world.ask("a");
  world.fakes.change("b", [](FakeScript& script) { script.holds_load = true; });
  const auto b = world.start("b");
  ASSERT_TRUE(comes_true([&] { return world.fakes.launches().size() == 2; }));
  const auto c = world.start("c");
  ASSERT_TRUE(comes_true([&] { return world.scheduler->state().n_waiting == 2; }));
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_FALSE(b->is_done());
  EXPECT_FALSE(c->is_done());
  world.fakes.change("b", [](FakeScript& script) { script.holds_load = false; });
  EXPECT_EQ(b->outcome().end, "ok");
  EXPECT_EQ(c->outcome().end, "ok");
  EXPECT_EQ(world.fakes.max_loading(), 1u);
}

TEST(Scheduler, LimitsParallelRequests) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.holds_answers = true; });
  std::vector<std::unique_ptr<Asking>> asking;
  for (int i = 0; i < 5; ++i) asking.push_back(world.start("a"));
  ASSERT_TRUE(comes_true(
      [&] { return world.fakes.n_running() == 2 && world.scheduler->state().n_waiting == 3; }));
  world.fakes.change("a", [](FakeScript& script) { script.holds_answers = false; });
  for (const auto& one : asking) EXPECT_EQ(one->outcome().end, "ok");
  EXPECT_EQ(world.fakes.max_running(), 2u);
}

TEST(Scheduler, RejectsJobsBeyondTheQueue) {
  Options options = small_options();
  options.n_max_queue = 2;
  World world(options);
  world.fakes.change("a", [](FakeScript& script) { script.holds_load = true; });
  const auto first = world.start("a");
  const auto second = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.scheduler->state().n_waiting == 2; }));
  EXPECT_EQ(world.ask("a").end, "503 " + std::string(kBusyText));
  EXPECT_EQ(world.ask("b").end, "503 " + std::string(kBusyText));
  world.fakes.change("a", [](FakeScript& script) { script.holds_load = false; });
  EXPECT_EQ(first->outcome().end, "ok");
  EXPECT_EQ(second->outcome().end, "ok");
}

TEST(Scheduler, RejectsImpossibleJobs) {
  World world;
  EXPECT_EQ(world.ask(job_of("a", 5000)).end,
            "500 model requires more system memory (5.0 KiB) than is available (1000 B)");
  EXPECT_TRUE(world.fakes.launches().empty());
}

TEST(Scheduler, UnloadsImmediatelyOnRequest) {
  World world;
  Job job = job_of("a");
  job.keep_alive = Duration::zero();
  EXPECT_EQ(world.ask(job).end, "ok");
  EXPECT_TRUE(world.becomes_loaded({}));
  EXPECT_EQ(world.fakes.n_alive(), 0u);
}

TEST(Scheduler, UnloadsAfterKeepAlive) {
  World world;
  Job job = job_of("a");
  job.keep_alive = milliseconds(150);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(world.ask(job).end, "ok");
  EXPECT_TRUE(world.becomes_loaded({}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(150));
}

TEST(Scheduler, KeepsForeverUntilStop) {
  Options options = small_options();
  options.keep_alive = milliseconds(50);
  World world(options);
  Job job = job_of("a");
  job.keep_alive = kForever;
  EXPECT_EQ(world.ask(job).end, "ok");
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_EQ(world.loaded(), Strings{"a"});
  world.scheduler->stop("a");
  EXPECT_TRUE(world.becomes_loaded({}));
  world.scheduler->stop("a");
  world.scheduler->set_keep_alive("nothing", seconds(1));
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.launches().size(), 2u);
}

TEST(Scheduler, StopLetsARunningRequestFinish) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  const auto running = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  world.scheduler->stop("a");
  ASSERT_TRUE(world.model("a"));
  EXPECT_TRUE(world.model("a")->model.is_stopping);
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 0; });
  EXPECT_EQ(running->outcome().text, "Hello there");
  EXPECT_TRUE(world.becomes_loaded({}));
}

TEST(Scheduler, EvictsAnIdleModelForOneThatNeedsItsMemory) {
  World world;
  EXPECT_EQ(world.ask(job_of("a", 200)).end, "ok");  // 500 of 1000 bytes
  EXPECT_EQ(world.ask(job_of("b", 850)).end, "ok");  // 950 for one request
  EXPECT_EQ(world.loaded(), Strings{"b"});
  EXPECT_EQ(world.fakes.n_alive(), 1u);
  EXPECT_EQ(world.news_words(),
            (Strings{"loading name-a", "ready name-a", "unloading name-a for room",
                     "unloaded name-a", "loading name-b", "ready name-b"}));
}

TEST(Scheduler, ReportsFailedLoadsAndStoppedModels) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.n_load_failures = 1; });
  EXPECT_NE(world.ask("a").end, "ok");
  EXPECT_TRUE(comes_true([&] { return world.news_words().size() == 4; }));
  EXPECT_EQ(world.news_words(),
            (Strings{"loading name-a", "failed name-a", "unloading name-a", "unloaded name-a"}));
  world.ask("b");
  world.scheduler->stop("b");
  EXPECT_TRUE(comes_true([&] { return world.news_words().size() == 8; }));
  EXPECT_EQ(world.news_words().back(), "unloaded name-b");
}

TEST(Scheduler, WaitsForBusyModelWhosePlaceIsNeeded) {
  Options options = small_options();
  options.n_max_loaded = 1;
  World world(options);
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  const auto a = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  const auto b = world.start("b");
  ASSERT_TRUE(comes_true([&] { return world.scheduler->state().n_waiting == 1; }));
  EXPECT_FALSE(b->is_done());
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 0; });
  EXPECT_EQ(a->outcome().end, "ok");
  EXPECT_EQ(b->outcome().end, "ok");
  EXPECT_EQ(world.loaded(), Strings{"b"});
}

TEST(Scheduler, TakesIdleMemoryBeforeUnloading) {
  World world;
  EXPECT_EQ(world.ask(job_of("a", 300)).end, "ok");  // 700 of 1000 bytes, 100 of them fixed
  EXPECT_EQ(world.ask(job_of("b", 250)).end, "ok");  // 350 for one request
  EXPECT_EQ(world.loaded(), (Strings{"a", "b"}));
  const std::vector<FakeRunners::Budget> budgets = world.fakes.budgets();
  ASSERT_FALSE(budgets.empty());
  EXPECT_EQ(budgets[0].key, "a");
  EXPECT_LE(budgets[0].bytes, 650u);
  EXPECT_GT(budgets[0].version, 0u);
}

TEST(Scheduler, GrantsMemoryToRunningRequest) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.holds_after = 1;
    script.wanted_bytes = 64;
  });
  const auto running = world.start("a");
  ASSERT_TRUE(comes_true([&] { return !world.fakes.budgets().empty(); }));
  EXPECT_GT(world.fakes.budgets()[0].bytes, 120u);
  world.fakes.change("a", [](FakeScript& script) { script.wanted_bytes = script.holds_after = 0; });
  EXPECT_EQ(running->outcome().end, "ok");
}

TEST(Scheduler, EmbedsAndTokenizes) {
  World world;
  Job job = job_of("e");
  job.is_embedding = true;
  const std::unique_ptr<Lease> lease = world.scheduler->acquire(job, {});
  EXPECT_EQ(lease->embed({.inputs = {{{5, 6}}, {{7}}}}),
            (EmbedOutputs{{{2, 5, 0, 0}}, {{1, 7, 0, 0}}}));
  EXPECT_EQ(world.fakes.launches().at(0).n_parallel, 256u);
  EXPECT_TRUE(world.fakes.launches().at(0).is_embedding);
  EXPECT_EQ(world.fakes.embeddings().at(0).job.inputs.size(), 2u);
}

TEST(Scheduler, CallbackCanEndTheResponse) {
  World world;
  const std::unique_ptr<Lease> lease = world.scheduler->acquire(job_of("a"), {});
  EXPECT_EQ(lease->complete({}, [](const CompletionPiece&) { return false; }).done_reason, "");
  EXPECT_EQ(lease->complete({}, [](const CompletionPiece&) { return true; }).done_reason, "stop");
}

TEST(Scheduler, CancelsQueuedLoadingAndRunningJobs) {
  Options options = small_options();
  options.n_parallel = 1;
  World world(options);
  world.fakes.change("a", [](FakeScript& script) {
    script.holds_load = true;
    script.holds_answers = true;
  });
  const auto loading = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_alive() == 1; }));
  loading->cancel();
  EXPECT_EQ(loading->outcome().end, "cancelled");
  world.fakes.change("a", [](FakeScript& script) { script.holds_load = false; });
  // The load has continued.
  const auto running = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  const auto queued = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.scheduler->state().n_waiting == 1; }));
  queued->cancel();
  EXPECT_EQ(queued->outcome().end, "cancelled");
  EXPECT_FALSE(running->is_done());
  running->cancel();
  EXPECT_EQ(running->outcome().end, "cancelled");
  world.fakes.change("a", [](FakeScript& script) { script.holds_answers = false; });
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.launches().size(), 1u);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(ask(*world.scheduler, job_of("a"), stopped.get_token()).end, "cancelled");
}

TEST(Scheduler, DrainFinishesRunningAndRejectsOtherJobs) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  world.ask("b");
  const auto running = world.start("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  EXPECT_FALSE(world.scheduler->drain(milliseconds(50)));
  EXPECT_TRUE(world.scheduler->state().is_draining);
  EXPECT_EQ(world.ask("a").end, "503 " + std::string(kShutdownText));
  EXPECT_TRUE(world.becomes_loaded({"a"}));
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 0; });
  EXPECT_TRUE(world.scheduler->drain(seconds(30)));
  EXPECT_EQ(running->outcome().text, "Hello there");
  EXPECT_EQ(world.fakes.n_alive(), 0u);
}

TEST(Scheduler, ServesManyThreads) {
  Options options = small_options();
  options.budget_bytes = 450;  // three of four models
  World world(options);
  for (const char* key : {"a", "b", "c", "d"})
    world.fakes.change(key, [](FakeScript& script) { script.load_delay = milliseconds(3); });
  std::atomic<int> n_ok = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        Job job = job_of(std::string(1, static_cast<char>('a' + (i + round) % 4)));
        const Outcome outcome = world.ask(job);
        if (outcome.end == "ok" && outcome.text == "Hello there") ++n_ok;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_ok, 64 * 3);
  EXPECT_EQ(world.fakes.max_loading(), 1u);
  EXPECT_EQ(world.scheduler->state().n_waiting, 0u);
  EXPECT_TRUE(world.scheduler->drain(seconds(30)));
}

}  // namespace
}  // namespace billow::scheduler
