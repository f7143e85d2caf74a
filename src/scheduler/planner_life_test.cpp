// The life of models: keep-alive, stop, crashes, drain.
#include <gtest/gtest.h>

#include "scheduler/planner_fake.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Words kNothing;
const std::string kCrash = " 500 " + std::string(kCrashText) + ": signal 9";
const std::string kCulprit = kCrash + "; " + std::string(kCulpritText);
const std::string kRefused = " 500 " + std::string(kRefusedText);

Options options_of(size_t n_parallel = 1) {
  Options options;
  options.budget_bytes = 1000;
  options.n_parallel = n_parallel;
  return options;
}

TEST(KeepAlive, IdleModelExpires) {
  Fake fake(options_of());
  fake.have(1, "a");
  EXPECT_EQ(fake.planner.wakes_at(), minutes(5));
  EXPECT_EQ(fake.after(minutes(5) - milliseconds(1)), kNothing);
  EXPECT_EQ(fake.after(milliseconds(1)), (Words{"unload a"}));
  EXPECT_EQ(fake.model("a").phase, Phase::kUnloading);
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);
  EXPECT_EQ(fake.arrive(2, "a"), kNothing);  // waits until the old runner is gone
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));
}

TEST(KeepAlive, CountsFromEndOfLastRequest) {
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

TEST(KeepAlive, KeepsLastValueOfARequest) {
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

TEST(KeepAlive, ZeroUnloadsIdleModel) {
  Fake fake(options_of());
  fake.arrive(1, "a", {.keep_alive = Duration::zero()});
  fake.arrive(2, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.finish(1), (Words{"assign 2 a"}));  // waiting requests are served first
  EXPECT_EQ(fake.finish(2), (Words{"unload a"}));
}

TEST(KeepAlive, EmptyRequestChangesIt) {
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

TEST(Stop, WaitsForRunningAndWaitingRequests) {
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
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));  // for the later request
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 4 a"}));
  EXPECT_FALSE(fake.model("a").is_stopping);
  fake.finish(4);
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + minutes(5));
}

TEST(Stop, EndsIdleModelAndUnwantedLoad) {
  Fake fake(options_of());
  EXPECT_EQ(fake.stop("a"), kNothing);
  fake.have(1, "a");
  EXPECT_EQ(fake.stop("a"), (Words{"unload a"}));
  EXPECT_EQ(fake.stop("a"), kNothing);
  fake.arrive(2, "b");
  EXPECT_EQ(fake.stop("b"), kNothing);  // a request waits
  EXPECT_EQ(fake.cancel(2), (Words{"unload b"}));
}

TEST(Death, KeepsTheKeepAlive) {
  Fake fake(options_of());
  fake.have(1, "a", {.keep_alive = kForever});  // idle
  fake.gone("a");
  fake.after(minutes(60));
  fake.have(2, "a");
  EXPECT_EQ(fake.model("a").expires_at, kNever);
  fake.arrive(3, "a", {.keep_alive = seconds(10)});  // busy
  fake.gone("a");
  fake.after(seconds(1));
  fake.loaded("a");
  fake.finish(3);
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + seconds(10));
  fake.gone("a");  // would have expired before the next request
  fake.after(seconds(11));
  fake.have(4, "a");
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + minutes(5));
  fake.keep_alive("a", kForever);
  fake.gone("a");
  fake.stop("a");
  fake.after(seconds(61));
  fake.have(5, "a");
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + minutes(5));
}

TEST(Death, KeepsThePromiseToStop) {
  Fake fake(options_of());
  fake.have(1, "a");
  fake.arrive(2, "a");
  EXPECT_EQ(fake.stop("a"), kNothing);
  EXPECT_EQ(fake.arrive(3, "a"), kNothing);
  EXPECT_EQ(fake.gone("a"), (Words{"retry 2", "load a 110"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.finish(2), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));  // for the later request
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 3 a"}));
  // No request is left that the promise was about.
  EXPECT_EQ(fake.stop("a"), kNothing);
  EXPECT_EQ(fake.arrive(4, "a"), kNothing);
  fake.gone("a", {3});
  fake.after(seconds(1));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 4 a"}));
  fake.finish(4);
  EXPECT_EQ(fake.planner.wakes_at(), fake.now + minutes(5));
}

TEST(Stop, HoldsForTheRetryOfALoad) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  EXPECT_EQ(fake.stop("a"), kNothing);
  EXPECT_EQ(fake.arrive(2, "a"), kNothing);
  EXPECT_EQ(fake.load_failed("a", {true, "no memory"}), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load a 1000"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  EXPECT_EQ(fake.finish(1), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load a 110"}));  // for the later request
}

TEST(Stop, HoldsForRequestsThatWaitForALoad) {
  Fake fake(options_of());
  fake.arrive(1, "b");
  EXPECT_EQ(fake.arrive(2, "a"), kNothing);  // one load at a time
  EXPECT_EQ(fake.stop("a"), kNothing);
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 1 b", "load a 110"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.finish(2), (Words{"unload a"}));
  fake.gone("a");
  EXPECT_EQ(fake.arrive(3, "a"), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.finish(3), kNothing);
}

TEST(Death, RetriesRequestsThatStreamedNothing) {
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
  // Either request may have caused the crash, so each runs alone. Then the others run.
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  EXPECT_EQ(fake.finish(2), kNothing);
  EXPECT_EQ(fake.arrive(5, "a"), kNothing);
  EXPECT_EQ(fake.finish(1), (Words{"assign 3 a"}));
  EXPECT_EQ(fake.finish(3), (Words{"assign 4 a", "assign 5 a"}));
}

TEST(Death, OfIdleModelIsSilent) {
  Fake fake(options_of());
  fake.have(1, "a");
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_TRUE(fake.planner.snapshot().models.empty());
  EXPECT_EQ(fake.planner.snapshot().granted_bytes, 0u);
}

TEST(Death, ThreePerMinutePauseTheModel) {
  Fake fake(options_of());
  // Each request streams, so that it is not retried.
  const auto stream_and_die = [&](RequestId id) {
    fake.arrive(id, "a");
    fake.loaded("a");
    return fake.gone("a", {id});
  };
  EXPECT_EQ(stream_and_die(1), (Words{"fail 1" + kCrash}));
  fake.after(milliseconds(250));
  EXPECT_EQ(stream_and_die(2), (Words{"fail 2" + kCrash}));
  fake.arrive(3, "a");
  fake.arrive(4, "a");
  EXPECT_EQ(fake.after(milliseconds(499)), kNothing);  // twice the delay
  EXPECT_EQ(fake.after(milliseconds(1)), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"fail 3" + kCrash, "fail 4" + kCrash}));
  EXPECT_EQ(fake.arrive(5, "a"), (Words{"refuse 5 500 " + std::string(kCrashText)}));
  EXPECT_EQ(fake.arrive(6, "b"), (Words{"load b 110"}));  // other models are not affected
  fake.loaded("b");
  fake.after(seconds(30));
  EXPECT_EQ(fake.arrive(7, "a"), (Words{"load a 110"}));
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"fail 7" + kCrash}));  // within the same minute
  fake.after(seconds(61));
  fake.arrive(8, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"retry 8"}));  // the history is forgotten
}

TEST(Death, RequestFailsAtItsSecondCrash) {
  Fake fake(options_of(2));
  fake.arrive(1, "a", {.digest = 11});
  fake.loaded("a");
  fake.arrive(2, "a", {.digest = 22});
  EXPECT_EQ(fake.gone("a"), (Words{"retry 1", "retry 2"}));
  fake.after(minutes(2));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  EXPECT_EQ(fake.arrive(3, "a", {.digest = 33}), kNothing);
  // The model is loaded again without a delay: the request caused the crash, not the model.
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCulprit, "load a 120"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.finish(2), (Words{"assign 3 a"}));
}

TEST(Death, RejectsEqualRequestsForAMinute) {
  Fake fake(options_of(2));
  fake.arrive(1, "a", {.digest = 11});
  fake.loaded("a");
  fake.gone("a");
  fake.after(milliseconds(250));
  fake.loaded("a");
  fake.arrive(2, "a", {.digest = 11});  // waits and is never tried
  fake.arrive(3, "a", {.digest = 33});
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCulprit, "fail 2" + kRefused, "load a 120"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 3 a"}));
  EXPECT_EQ(fake.arrive(4, "a", {.digest = 11}), (Words{"refuse 4" + kRefused}));
  EXPECT_EQ(fake.arrive(5, "a"), (Words{"assign 5 a"}));
  fake.after(minutes(1));
  fake.finish(3);
  EXPECT_EQ(fake.arrive(6, "a", {.digest = 11}), (Words{"assign 6 a"}));
}

TEST(Death, StreamingCulpritRunsAloneLater) {
  Fake fake(options_of(2));
  fake.arrive(1, "a", {.digest = 11});
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a", {1}), (Words{"fail 1" + kCrash}));
  fake.after(seconds(1));
  fake.arrive(2, "a", {.digest = 11});
  fake.loaded("a");
  fake.arrive(3, "a", {.digest = 33});
  EXPECT_EQ(fake.gone("a", {2, 3}), (Words{"fail 2" + kCrash, "fail 3" + kCrash}));
  fake.after(seconds(1));
  fake.arrive(4, "a", {.digest = 33});  // ran during one crash only
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.arrive(5, "a", {.digest = 11}), kNothing);
  EXPECT_EQ(fake.arrive(6, "a"), kNothing);  // waits for request 5
  EXPECT_EQ(fake.finish(4), (Words{"assign 5 a"}));
  EXPECT_EQ(fake.gone("a", {5}), (Words{"fail 5" + kCulprit, "load a 120"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 6 a"}));
  EXPECT_EQ(fake.arrive(7, "a", {.digest = 11}), (Words{"refuse 7" + kRefused}));
}

TEST(Death, FinishedRequestClearsSuspicion) {
  Fake fake(options_of(2));
  for (RequestId id = 1; id < 20; id += 2) {
    fake.arrive(id, "a", {.digest = 11});
    fake.loaded("a");
    EXPECT_EQ(fake.gone("a", {id}), (Words{"fail " + std::to_string(id) + kCrash}));
    fake.after(seconds(1));
    fake.arrive(id + 1, "a", {.digest = 11});
    fake.loaded("a");
    fake.finish(id + 1);
    fake.stop("a");
    fake.gone("a");
  }
}

TEST(Death, OneRequestCannotBlockTheModel) {
  Fake fake(options_of(4));
  // The request is sent repeatedly, like a client that retries after a 500.
  for (RequestId id = 1; id < 40; id += 4) {
    fake.arrive(id, "a");
    fake.loaded("a");
    fake.gone("a");
    fake.after(seconds(1));
    fake.loaded("a");
    fake.arrive(id + 1, "a");
    EXPECT_EQ(fake.gone("a"), (Words{"fail " + std::to_string(id) + kCulprit, "load a 140"}));
    EXPECT_EQ(fake.loaded("a"), (Words{"assign " + std::to_string(id + 1) + " a"}));
    EXPECT_EQ(fake.finish(id + 1), kNothing);
  }
}

TEST(Death, UsefulRunnerMayDieAnyNumberOfTimes) {
  Fake fake(options_of());
  fake.have(1, "a");
  for (RequestId id = 2; id < 40; id += 2) {
    fake.arrive(id, "a");
    fake.arrive(id + 1, "a");
    fake.finish(id);
    const Words first = fake.gone("a");
    EXPECT_EQ(first, (Words{"retry " + std::to_string(id + 1), "load a 110"})) << "without a delay";
    fake.loaded("a");
    fake.finish(id + 1);
  }
}

TEST(Death, RetriesRunnerKilledDuringLoad) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  EXPECT_EQ(fake.gone("a", {}, true), kNothing);
  EXPECT_EQ(fake.after(seconds(1)), (Words{"load a 110"}));
  EXPECT_EQ(fake.gone("a", {}, true), kNothing);
  EXPECT_EQ(fake.after(seconds(1)), (Words{"load a 110"}));
  EXPECT_EQ(fake.gone("a", {}, true),
            (Words{"fail 1 500 model runner process has terminated: signal 9"}));
}

TEST(Death, CancelledRequestIsNotRetried) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.gone("a"), (Words{"retry 1"}));
  fake.cancel(1);
  EXPECT_EQ(fake.after(minutes(1)), kNothing);
  EXPECT_EQ(fake.n_loads("a"), 1u);
}

TEST(Drain, RejectsWaitingAndFinishesRunningRequests) {
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

TEST(Drain, DoesNotRetryAfterCrash) {
  Fake fake(options_of());
  fake.arrive(1, "a");
  fake.loaded("a");
  fake.drain();
  EXPECT_EQ(fake.gone("a"), (Words{"fail 1" + kCrash}));
  EXPECT_TRUE(fake.planner.is_drained());
}

}  // namespace
}  // namespace billow::scheduler
