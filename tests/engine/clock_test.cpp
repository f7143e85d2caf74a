// Tests that a jump of the wall clock does not disturb waits and measurements. This program
// replaces clock_gettime.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "engine/embed/fake_embedders.h"

namespace {
std::atomic<time_t> jump_seconds{0};
}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, id, time);
  if (result == 0 && id == CLOCK_REALTIME) time->tv_sec += jump_seconds;
  return static_cast<int>(result);
}

namespace billow::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

TEST(EmbedClock, FI_14_WallClockJumpChangesNoWaitOrMeasurement) {
  FakeEmbedders fake({});
  for (const auto jump : {hours(1), hours(-1)}) {
    const auto wall = std::chrono::system_clock::now();
    const auto steady = std::chrono::steady_clock::now();
    fake.world->open(false);
    std::optional<EmbedAnswers> answers;
    std::thread client([&] { answers = fake.batcher->embed({texts_of({10, 2000, 2000})}); });
    fake.world->wait_for_inside(1);
    jump_seconds = std::chrono::seconds(jump).count();
    EXPECT_GT(std::chrono::abs(std::chrono::system_clock::now() - wall), minutes(50)) << "no jump";
    EXPECT_FALSE(fake.batcher->wait_until_idle(milliseconds(20)));
    fake.world->open(true);
    client.join();
    EXPECT_TRUE(fake.is_clean());
    jump_seconds = 0;
    EXPECT_LT(std::chrono::steady_clock::now() - steady, minutes(10));
    EXPECT_LT(answers->time, minutes(10));
    EXPECT_GE(answers->time.count(), 0);
  }
  const EmbedCounts counts = fake.batcher->state().counts;
  for (const Histogram& times : {counts.queue_wait_seconds, counts.pass_seconds}) {
    EXPECT_GE(times.n_values(), 4u);
    EXPECT_GE(times.sum(), 0.0);
    EXPECT_LT(times.sum(), 600.0);
  }
}

}  // namespace
}  // namespace billow::engine
