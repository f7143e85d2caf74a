// Faults and racing threads: no answer is lost or sent twice, and no token stays counted.
#include <gtest/gtest.h>

#include <barrier>
#include <random>

#include "engine/embed/fake_embedders.h"

namespace billow::engine {
namespace {

using std::chrono::milliseconds;

TEST(EmbedRoom, CC_11_RacingThreadsNeverReserveMoreThanTheMax) {
#ifdef NDEBUG
  constexpr size_t kRounds = 10000;
#else  // with sanitizers each step takes ten times as long
  constexpr size_t kRounds = 1000;
#endif
  constexpr int kThreads = 64;
  EmbedRoom room(8192);
  std::atomic<size_t> n_won{0};
  std::atomic<size_t> max{0};
  const auto end_round = [&]() noexcept {
    if (n_won != 4 || room.used() != 8192) ADD_FAILURE() << n_won << " of 4 in a round";
    for (; n_won > 0; --n_won) room.release(2048);
  };
  std::barrier rounds(kThreads, end_round);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < kRounds; ++i) {
        if (room.reserve(2048)) ++n_won;
        size_t known = max.load();
        const size_t used = room.used();
        while (known < used && !max.compare_exchange_weak(known, used)) {
        }
        rounds.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(max, 8192u);
  EXPECT_EQ(room.used(), 0u);
}

TEST(EmbedRoom, CC_12_AStaleReadCannotOvershoot) {
  EmbedRoom room(8192);
  ASSERT_TRUE(room.reserve(4096));
  const size_t seen = 8192 - room.used();  // before another reservation
  ASSERT_TRUE(room.reserve(2048));
  EXPECT_FALSE(room.reserve(seen));
  EXPECT_EQ(room.used(), 6144u);
}

TEST(EmbedRoom, SZ_15_FI_21_ALoweredCeilingDoesNotWrap) {
  EmbedRoom room(8192);
  ASSERT_TRUE(room.reserve(6000));
  room.set_max(2048);
  EXPECT_FALSE(room.reserve(1));
  room.release(6000);
  EXPECT_TRUE(room.reserve(2048));
}

TEST(EmbedFaults, FI_7_AFailedPassFailsAloneAndThreeAreReported) {
  FakeEmbedders fake({});
  std::atomic<bool> fails{true};
  fake.world->before_pass = [&] {
    if (fails) throw std::runtime_error("broken");
  };
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(fake.batcher->state().degraded, "");
    const auto answers = fake.batcher->embed({texts_of({1, 2})});
    EXPECT_EQ(answers->texts[0].status, 500);
    EXPECT_EQ(answers->texts[1].status, 500);
  }
  EXPECT_NE(fake.batcher->state().degraded.find("broken"), std::string::npos);
  fails = false;
  EXPECT_EQ(fake.batcher->embed({texts_of({1})})->texts[0].status, 0);
  EXPECT_TRUE(fake.is_clean());
  EXPECT_EQ(fake.batcher->state().degraded, "");
  EXPECT_EQ(fake.batcher->state().counts.n_failed_model, 6u);
}

TEST(EmbedFaults, FI_3_OM_23_PassesStartWithNBatchUntilThreeWereRetried) {
  FakeEmbedders fake({});
  fake.world->memory_limit = 1024;
  const std::vector<size_t> lengths(4, 512);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fake.batcher->embed({texts_of(lengths)})->texts[3].status, 0);
    EXPECT_TRUE(fake.is_clean());
    EXPECT_EQ(fake.world->sums().size(), 3u * static_cast<size_t>(i + 1));
  }
  EXPECT_EQ(fake.batcher->embed({texts_of(lengths)})->texts[3].status, 0);  // starts with 1024
  EXPECT_TRUE(fake.is_clean());
  EXPECT_EQ(fake.world->sums().size(), 11u);
  const EmbedState state = fake.batcher->state();
  EXPECT_EQ(state.counts.n_retries, 3u);
  EXPECT_EQ(state.counts.n_passes, 11u);
  EXPECT_EQ(state.counts.retry_tokens.sum(), 3 * 1024.0);
}

TEST(EmbedFaults, FI_6_SV_4_QueuedTextsFinishAfterClose) {
  FakeEmbedders fake({});
  fake.world->open(false);
  std::thread client(
      [&] { EXPECT_EQ(fake.batcher->embed({texts_of({1, 2000, 2000})})->texts[2].status, 0); });
  fake.world->wait_for_inside(1);
  fake.batcher->close();
  EXPECT_THROW(fake.batcher->embed({{text_of(1)}}), EmbedBusy);
  EXPECT_FALSE(fake.batcher->wait_until_idle(milliseconds(20)));
  fake.world->open(true);
  client.join();
  EXPECT_TRUE(fake.is_clean());
}

TEST(EmbedFaults, TheDestructorCancelsQueuedTexts) {
  FakeEmbedders fake({});
  fake.world->open(false);
  std::thread running([&] { EXPECT_FALSE(fake.batcher->embed({{text_of(1)}})); });
  fake.world->wait_for_inside(1);
  std::thread waiting([&] { EXPECT_FALSE(fake.batcher->embed({{text_of(2)}})); });
  fake.wait_for_pending(1);
  // Queued requests do not wait for running ones.
  std::thread opener([&] {
    waiting.join();
    fake.world->open(true);
  });
  fake.batcher.reset();
  for (std::thread* thread : {&running, &opener}) thread->join();
  EXPECT_EQ(fake.world->n_tokens, 1u);
}

TEST(EmbedFaults, FI_11_AFullQueueRefusesRequestsOfManyThreadsAndNothingElse) {
  FakeEmbedders fake({.max_waiting = 8});
  std::atomic<size_t> n_busy{0};
  std::atomic<size_t> n_done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        try {
          if (fake.batcher->embed({texts_of({3, 4, 5})})->texts.size() == 3) ++n_done;
        } catch (const EmbedBusy&) {
          ++n_busy;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_busy + n_done, 3200u);
  EXPECT_EQ(fake.batcher->state().counts.n_rejected_full, 3 * n_busy);
  EXPECT_TRUE(fake.is_clean());
}

TEST(EmbedFaults, FI_21_ALowerContextDelaysNewPasses) {
  FakeEmbedders fake({.sizes = {.n_batch = 100, .context_size = 400}}, 4);
  fake.world->open(false);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.emplace_back([&] { fake.batcher->embed({{text_of(100)}}); });
    fake.world->wait_for_inside(i + 1);
  }
  EXPECT_THROW(fake.batcher->set_context_size(99), Error);
  fake.batcher->set_context_size(100);
  clients.emplace_back([&] { fake.batcher->embed({{text_of(100)}}); });
  fake.wait_for_pending(1);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(fake.batcher->state().load.n_running, 3u);
  EXPECT_EQ(fake.batcher->state().load.n_active_tokens, 300u);
  fake.world->open(true);
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(fake.is_clean());
}

// A stop at any moment of a short pass has one outcome, and nothing stays counted.
TEST(EmbedFaults, FI_23_CancellationRacesWithCompletion) {
  FakeEmbedders fake({});
  constexpr int kRounds = 25000;  // for each of four threads
  std::atomic<size_t> n_answered{0};
  std::atomic<size_t> n_cancelled{0};
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < 4; ++t) {
    clients.emplace_back([&, t] {
      std::atomic<std::stop_source*> current{nullptr};
      std::atomic<bool> ended{false};
      std::thread canceller([&] {
        while (!ended) {
          const std::stop_source* given = current.exchange(nullptr);
          if (given == nullptr) continue;
          std::stop_source stop = *given;  // the client may destroy its source
          stop.request_stop();
        }
      });
      for (int i = 0; i < kRounds; ++i) {
        std::stop_source stop;
        if (i % 2 == 0) current = &stop;
        const auto answers = fake.batcher->embed({{text_of(1 + t)}}, stop.get_token());
        ++(answers ? n_answered : n_cancelled);
        if (answers && answers->texts[0].values.size() != 3) ADD_FAILURE();
        // If the canceller has taken the source, waits for its stop request.
        if (i % 2 == 0 && current.exchange(nullptr) == nullptr)
          while (!stop.stop_requested()) std::this_thread::yield();
      }
      ended = true;
      canceller.join();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_answered + n_cancelled, 4u * kRounds);
  EXPECT_TRUE(fake.is_clean());
}

// Clients connect and disconnect while memory is short and passes fail.
TEST(EmbedFaults, P_1_P_2_P_3_P_4_P_6_MT_4_NothingIsLostOrCountedTwice) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  FakeEmbedders fake({.sizes = {.n_batch = 100, .context_size = 250}}, 2);
  fake.world->memory_limit = 70;
  std::atomic<size_t> n_calls{0};
  fake.world->before_pass = [&] {
    if (++n_calls % 50 == 0) throw std::runtime_error("broken");
  };
  std::atomic<size_t> n_answers{0};
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < 8; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      const auto any = [&](size_t max) { return random() % max; };
      for (int i = 0; i < 1250; ++i) {
        std::vector<EmbedText> texts;
        for (size_t n = 1 + any(6); n > 0; --n)
          texts.push_back(text_of(any(105), static_cast<int32_t>(any(900))));
        std::stop_source stop;
        if (any(10) == 0) stop.request_stop();
        const auto answers =
            fake.batcher->embed({texts, std::to_string(t % 3), any(4) == 0}, stop.get_token());
        if (!answers) continue;
        for (size_t k = 0; k < texts.size(); ++k) {
          const EmbedAnswer& answer = answers->texts[k];
          if (answer.values.empty() == answer.error.empty()) ADD_FAILURE() << "neither or both";
          if (answer.error.empty() && answer.values != FakeEmbedModel::vector_of(texts[k]))
            ADD_FAILURE() << "another text's vector";
          ++n_answers;
        }
      }
    });
  }
  std::atomic<bool> ended{false};
  std::thread watcher([&] {
    while (!ended) {
      const EmbedState state = fake.batcher->state();
      if (state.load.n_active_tokens > 250) ADD_FAILURE() << "more than the context holds";
      if (state.counts.n_accepted != state.load.n_pending_texts + state.n_active_texts +
                                         state.n_finished + state.counts.n_dropped)
        ADD_FAILURE() << "texts are lost";
    }
  });
  for (std::thread& client : clients) client.join();
  ended = true;
  watcher.join();
  EXPECT_TRUE(fake.is_clean());
  EXPECT_GT(n_answers, 0u);
  size_t sum = 0;
  for (const size_t tokens : fake.world->sums()) {
    EXPECT_LE(tokens, 100u);
    EXPECT_GT(tokens, 0u);
    sum += tokens;
  }
  EXPECT_EQ(static_cast<double>(sum), fake.batcher->state().counts.pass_tokens.sum());
}

}  // namespace
}  // namespace billow::engine
