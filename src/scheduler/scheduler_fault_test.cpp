// The scheduler with runners that die, fail, hang or disappear. Also its destruction while it is
// busy.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "scheduler/scheduler_world.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Stages = std::vector<JobStage>;

const std::string kCrash = "500 " + std::string(kCrashText);

TEST(SchedulerFault, RetriesIfRunnerDiedBeforeText) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.n_deaths = 1; });
  const Outcome outcome = world.ask("a");
  EXPECT_EQ(outcome.end, "ok");
  EXPECT_EQ(outcome.text, "Hello there");
  EXPECT_EQ(world.fakes.launches().size(), 2u);
  EXPECT_EQ(outcome.stages, (Stages{JobStage::kQueued, JobStage::kLoading, JobStage::kAssigned,
                                    JobStage::kRetrying, JobStage::kLoading, JobStage::kAssigned}));
}

TEST(SchedulerFault, FailsIfRunnerDiedAfterText) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.n_deaths = 1;
    script.dies_after = 1;
  });
  const Outcome outcome = world.ask("a");
  EXPECT_EQ(outcome.text, "Hello");
  EXPECT_EQ(outcome.end, kCrash + ": signal 11 (Segmentation fault)");
  EXPECT_EQ(world.ask("a").end, "ok");
}

TEST(SchedulerFault, ChunksWithoutTextAllowARetry) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.whole_pieces = {{.prefill = {{5, milliseconds(1)}}}, {.text = "x"}};
    script.n_deaths = 1;
    script.dies_after = 1;
  });
  const Outcome outcome = world.ask("a");
  EXPECT_EQ(outcome.text, "x");
  EXPECT_EQ(outcome.end, "ok");
}

TEST(SchedulerFault, GivesUpOnAModelThatKeepsDying) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.n_deaths = 1000; });
  const std::string culprit =
      kCrash + ": signal 11 (Segmentation fault); " + std::string(kCulpritText);
  EXPECT_EQ(world.ask("a").end, culprit);
  EXPECT_EQ(world.ask("a").end, culprit);
  EXPECT_EQ(world.ask("a").end, kCrash + ": signal 11 (Segmentation fault)");
  EXPECT_EQ(world.fakes.launches().size(), 5u);
  EXPECT_EQ(world.ask("a").end, kCrash);  // the model is paused
  EXPECT_EQ(world.ask("b").end, "ok");
}

TEST(SchedulerFault, RetriesEmbeddings) {
  World world;
  world.fakes.change("e", [](FakeScript& script) { script.n_deaths = 1; });
  Job job = job_of("e");
  job.is_embedding = true;
  const std::unique_ptr<Lease> lease = world.scheduler->acquire(job, {});
  EXPECT_EQ(lease->embed({.inputs = {{{5, 6}}}}).size(), 1u);
  EXPECT_EQ(world.fakes.launches().size(), 2u);
}

TEST(SchedulerFault, PoisonousPromptHarmsOthersOnlyOnce) {
  Options options = small_options();
  options.n_parallel = 4;
  World world(options);
  // One prompt kills its runner; the responses of the other requests wait after their first chunk.
  constexpr int32_t kPoison = 666;
  std::atomic<bool> may_kill = false;
  world.fakes.change("a", [&](FakeScript& script) {
    script.answer = [&](const Completion& request, const OnPiece& on_piece) -> CompletionEnd {
      if (request.prompt == std::vector<int32_t>{kPoison}) {
        EXPECT_TRUE(comes_true([&] { return may_kill.load(); }));
        world.fakes.kill("a", "signal 11 (Segmentation fault)");
        throw RunnerGone("the connection is lost");
      }
      if (request.prompt.empty()) on_piece({.text = "Hello"});
      return {.done_reason = "stop"};
    };
  });
  const auto asks = [&](std::vector<int32_t> prompt) {
    Job job = job_of("a");
    job.digest = prompt.empty() ? 0 : static_cast<uint64_t>(prompt.front());
    try {
      const auto lease = world.scheduler->acquire(job, {});
      return lease
          ->complete({.prompt = std::move(prompt)}, [](const CompletionPiece&) { return true; })
          .done_reason;
    } catch (const http::StatusError& error) {
      return std::string(error.what());
    }
  };
  const std::string culprit =
      std::string(kCrashText) + ": signal 11 (Segmentation fault); " + std::string(kCulpritText);
  auto poison = std::async(std::launch::async, asks, std::vector<int32_t>{kPoison});
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  may_kill = true;
  // Requests that ran during its first crash are not harmed: they are retried alone.
  for (int32_t i = 1; i <= 20; ++i) EXPECT_EQ(asks({i}), "stop") << i;
  EXPECT_EQ(poison.get(), culprit);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(asks({kPoison}), kRefusedText);
    EXPECT_EQ(asks({}), "stop");
  }
  EXPECT_LE(world.fakes.launches().size(), 3u);
}

TEST(SchedulerFault, RecoversFromDeathBetweenCallsOfALease) {
  World world;
  const std::unique_ptr<Lease> lease = world.scheduler->acquire(job_of("a"), {});
  const auto all = [](const CompletionPiece&) { return true; };
  EXPECT_EQ(lease->complete({}, all).done_reason, "stop");
  world.fakes.kill("a");
  ASSERT_TRUE(comes_true([&] { return world.fakes.launches().size() == 2; }));
  EXPECT_EQ(lease->complete({}, all).done_reason, "stop");
}

TEST(SchedulerFault, CrashDisturbsNoOtherModel) {
  World world;
  world.fakes.change("b", [](FakeScript& script) { script.holds_after = 1; });
  const auto b = world.start("b");
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 1; }));
  world.ask("a");
  world.fakes.kill("a");
  EXPECT_TRUE(world.becomes_loaded({"b"}));  // detected, although no request ran there
  EXPECT_FALSE(b->is_done());
  world.fakes.change("b", [](FakeScript& script) { script.holds_after = 0; });
  EXPECT_EQ(b->outcome().text, "Hello there");
}

TEST(SchedulerFault, LostConnectionFailsOnlyItsRequest) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.n_lost_connections = 1; });
  EXPECT_EQ(world.ask("a").end,
            "500 an error was encountered while running the model: the connection is lost");
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.launches().size(), 1u);
}

TEST(SchedulerFault, PassesOnRejectionsOfTheRunner) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.refusal_status = 400;
    script.refusal = "the prompt is too long";
  });
  EXPECT_EQ(world.ask("a").end, "400 the prompt is too long");
  world.fakes.change("a", [](FakeScript& script) { script.refusal_status = 500; });
  EXPECT_EQ(world.ask("a").end,
            "500 an error was encountered while running the model: the prompt is too long");
  EXPECT_EQ(world.fakes.launches().size(), 1u);
}

TEST(SchedulerFault, RetriesAfterABrokenLoop) {
  World world;
  world.fakes.change("a", [&](FakeScript& script) {
    script.answer = [&](const Completion&, const OnPiece&) -> CompletionEnd {
      // The next runner loads until the script is repaired, so that it does not break, too.
      world.fakes.change("a", [](FakeScript& broken) {
        broken.is_broken = broken.holds_load = true;
        broken.answer = {};
      });
      EXPECT_TRUE(comes_true([&] { return world.fakes.launches().size() == 2; }));
      world.fakes.change("a",
                         [](FakeScript& broken) { broken.is_broken = broken.holds_load = false; });
      throw http::StatusError(500, "the loop is broken");
    };
  });
  EXPECT_EQ(world.ask("a").text, "Hello there");
  EXPECT_EQ(world.fakes.launches().size(), 2u);
}

TEST(SchedulerFault, ReportsWhyALoadFailed) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.n_start_failures = 1; });
  EXPECT_EQ(world.ask("a").end, "500 cannot start the program");
  world.fakes.change("a", [](FakeScript& script) {
    script.n_start_failures = 0;
    script.n_load_failures = 1;
  });
  EXPECT_EQ(world.ask("a").end, "500 model runner process has terminated: bad file");
  world.fakes.change("a", [](FakeScript& script) { script.n_load_deaths = 1; });
  EXPECT_EQ(world.ask("a").end,
            "500 model runner process has terminated: exit status 1: out of luck");
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.n_alive(), 1u);
}

TEST(SchedulerFault, RetriesOutOfMemoryLoadWithAllMemory) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.n_load_failures = 1;
    script.is_out_of_memory = true;
  });
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.launches().at(1).budget_bytes, 1000u);
  world.fakes.change("b", [](FakeScript& script) {
    script.n_load_failures = 2;
    script.is_out_of_memory = true;
  });
  EXPECT_EQ(world.ask("b").end,
            "500 model requires more system memory than is available: bad file");
}

// The process of a failed load may end before its health is seen.
TEST(SchedulerFault, RetriesLoadWhoseProcessRanOutOfMemory) {
  World world;
  world.fakes.change("a", [](FakeScript& script) {
    script.n_load_deaths = 1;
    script.load_death = "exit status 4: no room";
  });
  EXPECT_EQ(world.ask("a").end, "ok");
  EXPECT_EQ(world.fakes.launches().at(1).budget_bytes, 1000u);
  const auto end_of_two_deaths = [&](const std::string& death) {
    world.fakes.change("b", [&](FakeScript& script) {
      script.n_load_deaths = 2;
      script.load_death = death;
    });
    return world.ask("b").end;
  };
  const std::string text = "500 model requires more system memory than is available";
  EXPECT_EQ(end_of_two_deaths("exit status 4: no room"), text + ": no room");
  EXPECT_EQ(end_of_two_deaths("exit status 4"), text);
}

TEST(SchedulerFault, EndsLoadWithoutProgress) {
  Options options = small_options();
  options.load_timeout = milliseconds(200);
  World world(options);
  world.fakes.change("a", [](FakeScript& script) { script.is_mute = true; });
  EXPECT_EQ(world.ask("a").end.find("500 timed out waiting for the model runner to start"), 0u);
  EXPECT_TRUE(world.becomes_loaded({}));
}

TEST(SchedulerFault, EndsRunnerWithBrokenLoop) {
  World world;
  world.ask("a");
  world.fakes.change("a", [](FakeScript& script) { script.is_broken = true; });
  EXPECT_TRUE(world.becomes_loaded({}));
  EXPECT_EQ(world.fakes.n_alive(), 0u);
  world.fakes.change("a", [](FakeScript& script) { script.is_broken = false; });
  EXPECT_EQ(world.ask("a").end, "ok");
}

TEST(SchedulerFault, EndsRunnerThatDoesNotRespond) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  std::atomic<bool> has_text = false;
  auto running = std::async(std::launch::async, [&] {
    return ask(*world.scheduler, job_of("a"), {}, [&] { has_text = true; });
  });
  ASSERT_TRUE(comes_true([&] { return has_text.load(); }));
  world.fakes.change("a", [](FakeScript& script) { script.is_mute = true; });
  const Outcome outcome = running.get();
  EXPECT_EQ(outcome.text, "Hello");
  EXPECT_EQ(outcome.end, kCrash + ": it does not respond: no response");
}

TEST(SchedulerFault, ExceptionOfCallbackEndsOnlyItsRequest) {
  World world;
  {
    const std::unique_ptr<Lease> lease = world.scheduler->acquire(job_of("a"), {});
    const auto fails = [](const CompletionPiece&) -> bool {
      throw Error(ErrorCode::kInvalidInput, "mine");
    };
    EXPECT_THROW(lease->complete({}, fails), Error);
  }
  EXPECT_EQ(world.ask("a").end, "ok");
  const auto throws = [](JobStage) { throw Error(ErrorCode::kInvalidInput, "mine"); };
  EXPECT_THROW(world.scheduler->acquire(job_of("a"), {}, throws), Error);
  EXPECT_EQ(world.scheduler->state().models.at(0).model.n_running, 0u);
}

TEST(SchedulerFault, CanBeDestroyedWhileBusy) {
  World world;
  world.fakes.change("a", [](FakeScript& script) { script.holds_after = 1; });
  world.fakes.change("b", [](FakeScript& script) { script.holds_load = true; });
  std::vector<std::unique_ptr<Asking>> asking;
  for (int i = 0; i < 4; ++i) asking.push_back(world.start("a"));
  ASSERT_TRUE(comes_true([&] { return world.fakes.n_running() == 2; }));
  asking.push_back(world.start("b"));
  ASSERT_TRUE(comes_true(
      [&] { return world.fakes.n_alive() == 2 && world.scheduler->state().n_waiting == 3; }));
  world.scheduler.reset();
  EXPECT_EQ(world.fakes.n_alive(), 0u);
  for (const auto& one : asking) {
    const std::string end = one->outcome().end;
    EXPECT_TRUE(end == "503 " + std::string(kShutdownText) || end.starts_with(kCrash)) << end;
  }
}

TEST(SchedulerFault, EveryRequestEnds) {
  Options options = small_options();
  options.budget_bytes = 450;
  options.restarts.n_limit = 1000;
  options.n_max_queue = 20;
  World world(options);
  std::atomic<int> n_ended = 0;
  std::atomic<bool> is_over = false;
  std::thread killer([&] {
    std::mt19937 random(1);
    while (!is_over) {
      world.fakes.kill(std::string(1, static_cast<char>('a' + random() % 4)));
      if (random() % 4 == 0) world.scheduler->stop("a");
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int round = 0; round < 10; ++round) {
        std::stop_source source;
        const std::string key(1, static_cast<char>('a' + random() % 4));
        std::thread canceller;
        if (random() % 4 == 0)
          canceller = std::thread([source, wait = random() % 5]() mutable {
            std::this_thread::sleep_for(milliseconds(wait));
            source.request_stop();
          });
        const Outcome outcome = ask(*world.scheduler, job_of(key), source.get_token());
        EXPECT_TRUE(outcome.end == "ok" || outcome.end == "cancelled" ||
                    outcome.end.starts_with("50"))
            << outcome.end;
        EXPECT_TRUE(outcome.end != "ok" || outcome.text == "Hello there") << outcome.text;
        ++n_ended;
        if (canceller.joinable()) canceller.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  killer.join();
  EXPECT_EQ(n_ended, 320);
  EXPECT_EQ(world.scheduler->state().n_waiting, 0u);
  EXPECT_TRUE(world.scheduler->drain(seconds(30)));
  EXPECT_EQ(world.fakes.n_alive(), 0u);
}

}  // namespace
}  // namespace billow::scheduler
