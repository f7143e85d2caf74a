#include "http/handler_pool.h"

#include <gtest/gtest.h>

#include <atomic>

#include "http/raw_client.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

TEST(HandlerPool, GrowsWhileAllAreBusy) {
  HandlerPool pool(milliseconds(60'000));
  std::atomic<int> n_inside{0};
  std::atomic<bool> may_end{false};
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(pool.run([&] {
      ++n_inside;
      eventually([&] { return may_end.load(); });
    }));
  }
  EXPECT_TRUE(eventually([&] { return n_inside == 20; }));
  EXPECT_EQ(pool.n_threads(), 20u);
  may_end = true;
  pool.join();
  EXPECT_EQ(pool.n_threads(), 0u);
}

TEST(HandlerPool, UsesThreadsAgainAndLetsThemGo) {
  HandlerPool pool(milliseconds(50));
  std::atomic<int> n_done{0};
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(pool.run([&] { ++n_done; }));
    EXPECT_TRUE(eventually([&] { return n_done == i + 1; }));
  }
  EXPECT_LE(pool.n_threads(), 20u);
  EXPECT_TRUE(eventually([&] { return pool.n_threads() == 0; }));
  EXPECT_TRUE(pool.run([&] { ++n_done; }));
  EXPECT_TRUE(eventually([&] { return n_done == 201; }));
}

TEST(HandlerPool, FinishesItsWorkAndTakesNoMore) {
  HandlerPool pool(milliseconds(50));
  std::atomic<int> n_done{0};
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(pool.run([&] { ++n_done; }));
  }
  pool.join();
  EXPECT_EQ(n_done, 50);
  EXPECT_FALSE(pool.run([] {}));
}

}  // namespace
}  // namespace billow::http
