// How models come and go: keep-alive, stopping, dying, draining.
#include <gtest/gtest.h>

#include "scheduler/planner_fake.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Words kNothing;
const std::string kCrash = " 500 " + std::string(kCrashText) + ": signal 9";

Options options_of(size_t n_parallel = 1) {
  Options options;
  options.budget_bytes = 1000;
  options.n_parallel = n_parallel;
  return options;
}

TEST(KeepAlive, AnIdleModelExpires) {
  Fake fake(options_of());
  fake.have(1, "a");
  EXPECT_EQ(fake.planner.wakes_at(), minutes(5));
  EXPECT_EQ(fake.after(minutes(5) - milliseconds(1)), kNothing);
  EXPECT_EQ(fake.after(milliseconds(1)), (Words{"unload a"}));
  EXPECT_EQ(fake.model("a").phase, Phase::kUnloading);
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);
  EXPECT_EQ(fake.arrive(2, "a"), kNothing);  // until it is gone
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));
}

TEST(KeepAlive, CountsFromTheEndOfTheLastRequest) {
  Fake fake(options_of(2));
  fake.have(1, "a", {.keep_alive = seconds(10)});
  fake.after(seconds(9));
  fake.arrive(2, "a");
  fake.arrive(3, "a");
  EXPECT_EQ(fake.after(seconds(60)), kNothing);  // busy
  fake.finish(3);
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);
  fake.finish(2);
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + seconds(10));
}

TEST(KeepAlive, StaysForLaterRequestsUntilOneGivesAnother) {
  Fake fake(options_of());
  fake.have(1, "a", {.keep_alive = seconds(10)});
  fake.arrive(2, "a");
  fake.finish(2);
  EXPECT_EQ(fake.planner.wakes_at(), seconds(10));
  fake.arrive(3, "a", {.keep_alive = kForever});
  fake.finish(3);
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);
  EXPECT_EQ(fake.model("a").expires_at, kNever);
  EXPECT_EQ(fake.after(minutes(60 * 24 * 365)), kNothing);
}

TEST(KeepAlive, ZeroUnloadsWhenIdle) {
  Fake fake(options_of());
  fake.arrive(1, "a", {.keep_alive = Duration::zero()});
  fake.arrive(2, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.finish(1), (Words{"assign 2 a"}));  // not before those who wait are served
  EXPECT_EQ(fake.finish(2), (Words{"unload a"}));
}

TEST(KeepAlive, AnEmptyRequestChangesIt) {
  Fake fake(options_of());
  EXPECT_EQ(fake.keep_alive("a", seconds(1)), kNothing);  // not loaded
  fake.have(1, "a");
  fake.after(seconds(100));
  fake.keep_alive("a", seconds(7));
  EXPECT_EQ(fake.planner.wakes_at(), seconds(107));
  fake.keep_alive("a", kForever);
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);
  EXPECT_EQ(fake.keep_alive("a", Duration::zero()), (Words{"unload a"}));
}

TEST(Stop, WaitsForWhatRunsAndWhatWaits) {
  Fake fake(options_of());
  fake.have(1, "a");
  fake.arrive(2, "a");
  fake.arrive(3, "a");
  fake.after(seconds(1));
  EXPECT_EQ(fake.stop("a"), kNothing);
  EXPECT_TRUE(fake.model("a").is_stopping);
  fake.after(seconds(1));
  EXPECT_EQ(fake.model("a").expires_at, seconds(1));
  EXPECT_EQ(fake.arrive(4, "a"), kNothing);
  EXPECT_EQ(fake.finish(2), (Words{"assign 3 a"}));
  EXPECT_EQ(fake.finish(3), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));  // for the one that came later
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 4 a"}));
  EXPECT_FALSE(fake.model("a").is_stopping);
  fake.finish(4);
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + minutes(5));
}

TEST(Stop, EndsAnIdleModelAndALoadThatNobodyWaitsFor) {
  Fake fake(options_of());
  EXPECT_EQ(fake.stop("a"), kNothing);
  fake.have(1, "a");
  EXPECT_EQ(fake.stop("a"), (Words{"unload a"}));
  EXPECT_EQ(fake.stop("a"), kNothing);
  fake.arrive(2, "b");
  EXPECT_EQ(fake.stop("b"), kNothing);  // somebody waits
  EXPECT_EQ(fake.cancel(2), (Words{"unload b"}));
}

TEST(Death, RetriesWhatHasStreamedNothing) {
  Fake fake(options_of(3));
  fake.arrive(1, "a");
  fake.loaded("a");
  fake.arrive(2, "a");
  fake.arrive(3, "a");
  fake.arrive(4, "a");
  EXPECT_EQ(fake.gone("a", {2}), (Words{"retry 1", "fail 2" + kCrash, "retry 3"}));
  EXPECT_EQ(fake.model("a").phase, Phase::kAbsent);
  EXPECT_EQ(fake.planner.wakes_at(), milliseconds(250));
  EXPECT_EQ(fake.after(milliseconds(249)), kNothing);
  EXPECT_EQ(fake.after(milliseconds(1)), (Words{"load a 130"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a", "assign 3 a", "assign 4 a"}));
  EXPECT_EQ(fake.finish(2), kNothing);
}

TEST(Death, OfAnIdleModelIsSilent) {
  Fake fake(options_of());
  fake.have(1, "a");
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_TRUE(fake.planner.snapshot().models.empty());
  EXPECT_EQ(fake.planner.snapshot().granted_bytes, 0u);
}

TEST(Death, ThreeInAMinuteAreTooManyUntilAPause) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  fake.loaded("a");
  fake.gone("a");
  EXPECT_EQ(fake.after(milliseconds(250)), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"retry 1"}));
  fake.arrive(2, "a");
  EXPECT_EQ(fake.after(milliseconds(499)), kNothing);  // twice the delay
  EXPECT_EQ(fake.after(milliseconds(1)), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCrash, "fail 2" + kCrash}));
  EXPECT_EQ(fake.arrive(3, "a"), (Words{"refuse 3 500 " + std::string(kCrashText)}));
  EXPECT_EQ(fake.arrive(4, "b"), (Words{"load b 110"}));  // others are not concerned
  fake.loaded("b");
  fake.after(seconds(30));
  EXPECT_EQ(fake.arrive(5, "a"), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"fail 5" + kCrash}));  // still the same minute
  fake.after(seconds(61));
  fake.arrive(6, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"retry 6"}));  // a fresh start
}

TEST(Death, ARequestIsRetriedSoManyTimes) {
  Options options = options_of();
  options.restarts.n_limit = 100;
  Fake fake(options);
  fake.arrive(1, "a");
  for (size_t i = 0; i < options.n_max_retries; ++i) {
    fake.loaded("a");
    EXPECT_EQ(fake.gone("a"), (Words{"retry 1"}));
    EXPECT_EQ(fake.after(minutes(2)), (Words{"load a 110"}));
  }
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCrash}));
}

TEST(Death, ARunnerThatWasOfUseMayDieAsOftenAsItLikes) {
  Fake fake(options_of());
  fake.have(1, "a");
  for (RequestId id = 2; id < 40; id += 2) {
    fake.arrive(id, "a");
    fake.arrive(id + 1, "a");
    fake.finish(id);
    const Words first = fake.gone("a");
    EXPECT_EQ(first, (Words{"retry " + std::to_string(id + 1), "load a 110"})) << "at once";
    fake.loaded("a");
    fake.finish(id + 1);
  }
}

TEST(Death, OneThatIsKilledWhileItLoadsIsTriedAgain) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  EXPECT_EQ(fake.gone("a", {}, true), kNothing);
  EXPECT_EQ(fake.after(seconds(1)), (Words{"load a 110"}));
  EXPECT_EQ(fake.gone("a", {}, true), kNothing);
  EXPECT_EQ(fake.after(seconds(1)), (Words{"load a 110"}));
  EXPECT_EQ(fake.gone("a", {}, true),
            (Words{"fail 1 500 model runner process has terminated: signal 9"}));
}

TEST(Death, ACancelledRequestIsNotRetried) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"retry 1"}));
  fake.cancel(1);
  EXPECT_EQ(fake.after(minutes(1)), kNothing);
  EXPECT_EQ(fake.n_loads("a"), 1u);
}

TEST(Drain, RefusesWhatWaitsAndEndsWhatRuns) {
  const std::string kShutdown = " 503 " + std::string(kShutdownText);
  Fake fake(options_of());
  fake.have(1, "a");
  fake.have(2, "b");
  fake.arrive(3, "b");
  fake.arrive(4, "b");
  fake.arrive(5, "c");
  EXPECT_EQ(fake.drain(),
            (Words{"refuse 4" + kShutdown, "refuse 5" + kShutdown, "unload a", "unload c"}));
  EXPECT_EQ(fake.arrive(6, "b"), (Words{"refuse 6" + kShutdown}));
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_EQ(fake.gone("c"), kNothing);
  EXPECT_FALSE(fake.planner.is_drained());
  EXPECT_EQ(fake.finish(3), (Words{"unload b"}));
  EXPECT_FALSE(fake.planner.is_drained());
  fake.gone("b");
  EXPECT_TRUE(fake.planner.is_drained());
}

TEST(Drain, DoesNotRetryWhatDies) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  fake.loaded("a");
  fake.drain();
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCrash}));
  EXPECT_TRUE(fake.planner.is_drained());
}

}  // namespace
}  // namespace billow::scheduler
