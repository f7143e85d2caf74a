#include "engine/embed/batcher.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "engine/embed/fake_embedders.h"
#include "engine/embed/fake_model.h"

namespace billow::engine {
namespace {

using std::chrono::milliseconds;
using Sums = std::vector<size_t>;

TEST(EmbedBatcher, PK_15_AnswersAreInTheOrderOfTheTexts) {
  FakeEmbedders fake({.sizes = {.n_batch = 64}});
  std::vector<EmbedText> texts;
  for (size_t i = 0; i < 100; ++i) texts.push_back(text_of(1 + i % 40, static_cast<int32_t>(i)));
  texts[70] = texts[3];
  const auto answers = fake.batcher->embed({texts});
  ASSERT_TRUE(answers.has_value());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(answers->texts[i].values, FakeEmbedModel::vector_of(texts[i]));
  EXPECT_EQ(answers->texts[70].values, answers->texts[3].values);
  for (const size_t sum : fake.world->sums()) EXPECT_LE(sum, 64u);
}

// Returns the passes that the planner chooses for texts that are queued together.
Sums planned(const std::vector<size_t>& lengths, const EmbedSizes& sizes) {
  EmbedWaiting waiting;
  for (size_t i = 0; i < lengths.size(); ++i) waiting.push("", false, {1, i, lengths[i]});
  Sums sums;
  while (waiting.count().n_texts > 0) {
    std::vector<WaitingText> taken;
    waiting.take(pass_tokens(sizes, waiting.count().n_tokens, 0), sizes.context_size, taken);
    sums.push_back(0);
    for (const WaitingText& text : taken) sums.back() += text.n_tokens;
  }
  return sums;
}

TEST(EmbedBatcher, P_5_P_17_PassesAreAsPlannedAndAnySplitGivesTheSameVectors) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  FakeEmbedders fake({.sizes = {.n_batch = 64}});
  for (int i = 0; i < 10000; ++i) {
    std::vector<size_t> lengths(1 + random() % 12);
    for (size_t& length : lengths) length = 1 + random() % 64;
    const std::vector<EmbedText> texts = texts_of(lengths);
    ASSERT_TRUE(fake.is_clean());
    const size_t n_before = fake.world->passes.size();
    const auto whole = fake.batcher->embed({texts});
    const Sums sums = fake.world->sums(n_before);
    ASSERT_EQ(sums, planned(lengths, fake.batcher->sizes()));
    const auto cut = texts.begin() + static_cast<std::ptrdiff_t>(random() % texts.size());
    std::vector<EmbedAnswer> parts;
    if (cut != texts.begin()) parts = fake.batcher->embed({{texts.begin(), cut}})->texts;
    const auto rest = fake.batcher->embed({{cut, texts.end()}});
    parts.insert(parts.end(), rest->texts.begin(), rest->texts.end());
    for (size_t k = 0; k < texts.size(); ++k) {
      ASSERT_EQ(whole->texts[k].values, FakeEmbedModel::vector_of(texts[k]));
      ASSERT_EQ(parts[k].values, whole->texts[k].values);
    }
  }
}

TEST(EmbedBatcher, PK_11_FI_12_ATextAboveTheLimitIsRefusedImmediatelyWithTheLimit) {
  FakeEmbedders fake({.sizes = {.n_batch = 2048}});
  fake.world->open(false);  // no pass could run
  const auto answers = fake.batcher->embed({{text_of(2049)}});
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answers->texts[0].status, 400);
  EXPECT_NE(answers->texts[0].error.find("2048"), std::string::npos);
  EXPECT_NE(answers->texts[0].error.find("2049"), std::string::npos);
  EXPECT_EQ(fake.world->passes.size(), 0u);
  fake.world->open(true);
  EXPECT_EQ(fake.batcher->embed({{text_of(2048)}})->texts[0].status, 0);
}

TEST(EmbedBatcher, CFG_7_TheModelsMaximumIsTheLimitOfAText) {
  FakeEmbedders fake({}, 1, 512);
  const auto answers = fake.batcher->embed({texts_of({512, 513, 512, 512, 512})});
  EXPECT_EQ(answers->texts[1].status, 400);
  EXPECT_EQ(fake.world->sums(), Sums{2048});
}

TEST(EmbedBatcher, PK_11_ATextLongerThanAPassRunsAlone) {
  FakeEmbedders fake({});
  const auto answers = fake.batcher->embed({texts_of({100, 5000, 8192, 200, 300})});
  ASSERT_TRUE(answers.has_value());
  for (const EmbedAnswer& answer : answers->texts) EXPECT_EQ(answer.error, "");
  EXPECT_EQ(fake.world->sums(), (Sums{100, 5000, 8192, 500}));
}

TEST(EmbedBatcher, PK_12_AnEmptyListIsAnError) {
  FakeEmbedders fake({});
  EXPECT_THROW(fake.batcher->embed({}), Error);
}

TEST(EmbedBatcher, SV_2_FI_8_OneBadTextFailsAlone) {
  FakeEmbedders fake({});
  std::vector<std::thread> clients;
  fake.world->open(false);
  std::thread blocker([&] { fake.batcher->embed({{text_of(1)}}); });
  fake.world->wait_for_inside(1);
  std::vector<EmbedAnswer> got(8);
  const std::map<size_t, EmbedText> bad = {{2, text_of(9, kUnusableToken)},
                                           {4, text_of(9000)},
                                           {5, {}},
                                           {6, text_of(9, kThrowingToken)}};
  for (size_t i = 0; i < got.size(); ++i) {
    clients.emplace_back([&, i] {
      EmbedText text = bad.contains(i) ? bad.at(i) : text_of(10 + i);
      got[i] = fake.batcher->embed({{std::move(text)}, std::to_string(i)})->texts[0];
    });
  }
  fake.wait_for_pending(4);
  fake.world->open(true);
  for (std::thread& client : clients) client.join();
  blocker.join();
  const std::vector<int> status = {0, 0, 400, 0, 400, 400, 500, 0};
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].status, status[i]) << i;
  EXPECT_EQ(fake.world->sums(), (Sums{1, 10 + 11 + 13 + 17}));  // all other texts in one pass
}

TEST(EmbedBatcher, PK_17_ALoneTextStartsImmediately) {
  // A batcher that waits for more texts does so each time. On a busy machine, any thread may wait.
  constexpr int kMaxRounds = 50;
  bool is_immediate = false;
  for (int round = 0; round < kMaxRounds && !is_immediate; ++round) {
    FakeEmbedders fake({});
    for (int i = 0; i < 20; ++i) fake.batcher->embed({{text_of(10)}});
    const Histogram wait = fake.batcher->state().counts.queue_wait_seconds;
    is_immediate = wait.counts()[0] > 0;  // below half a millisecond
  }
  EXPECT_TRUE(is_immediate);
}

TEST(EmbedBatcher, MT_1_OnePassIsCountedOnce) {
  FakeEmbedders fake({});
  fake.batcher->embed({texts_of({100, 200, 150})});
  ASSERT_TRUE(fake.batcher->wait_until_idle(milliseconds(10000)));
  const EmbedState state = fake.batcher->state();
  EXPECT_EQ(state.counts.n_passes, 1u);
  EXPECT_EQ(state.counts.pass_tokens.sum(), 450.0);
  EXPECT_NEAR(state.counts.utilization_percent.sum(), 21.97, 0.01);
  EXPECT_EQ(state.load.n_pending_tokens, 0u);
  EXPECT_EQ(state.load.n_active_tokens, 0u);
}

double figure_value(const EmbedBatcher& batcher, const std::string& name) {
  const EmbedState state = batcher.state();
  for (const Figure& figure : embed_figures(state.counts, state.load, batcher.sizes()))
    if (figure.name == name) return figure.value;
  ADD_FAILURE() << name;
  return -1;
}

TEST(EmbedBatcher, MT_2_MT_5_PassesInFlightFillTheContext) {
  FakeEmbedders fake({.sizes = {.context_size = 8192}}, 4);
  fake.world->open(false);
  std::vector<std::thread> clients;
  for (size_t n = 1; n <= 4; ++n) {
    clients.emplace_back([&] { fake.batcher->embed({{text_of(2048)}}); });
    fake.world->wait_for_inside(n);
    EXPECT_EQ(figure_value(*fake.batcher, "billow_embed_batches_active"), static_cast<double>(n));
    EXPECT_EQ(figure_value(*fake.batcher, "billow_embed_context_utilization_percent"),
              25.0 * static_cast<double>(n));
  }
  clients.emplace_back([&] { fake.batcher->embed({{text_of(2048)}}); });
  fake.wait_for_pending(1);
  EXPECT_EQ(figure_value(*fake.batcher, "billow_embed_queue_pending_tokens"), 2048.0);
  fake.world->open(true);
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(fake.is_clean());
}

TEST(EmbedBatcher, CC_2_ManyTextsStartSeveralPassesTogether) {
  FakeEmbedders fake({.sizes = {.context_size = 8192}}, 4);
  fake.world->open(false);
  std::thread client([&] { fake.batcher->embed({texts_of(std::vector<size_t>(100, 512))}); });
  fake.world->wait_for_inside(4);
  EXPECT_EQ(fake.batcher->state().load.n_active_tokens, 8192u);
  fake.world->open(true);
  client.join();
  EXPECT_EQ(fake.world->sums(), Sums(25, 2048));
}

TEST(EmbedBatcher, CC_8_SZ_16_ParallelPassesAreLimitedByTheContext) {
  FakeEmbedders fake({.sizes = {.context_size = 4095}}, 4);
  EXPECT_EQ(fake.batcher->state().load.n_max_passes, 1u);
}

TEST(EmbedBatcher, MT_3_UtilizationIsRelativeToNBatch) {
  FakeEmbedders fake({});
  const auto observed = [&](const std::vector<size_t>& lengths) {
    const double before = fake.batcher->state().counts.utilization_percent.sum();
    fake.batcher->embed({texts_of(lengths)});
    return fake.batcher->state().counts.utilization_percent.sum() - before;
  };
  EXPECT_NEAR(observed(std::vector<size_t>(50, 41)), 98.10 + 2.00, 0.01);
  EXPECT_NEAR(observed(std::vector<size_t>(100, 16)), 78.125, 1e-9);
  EXPECT_NEAR(observed({2048, 1, 2047, 2, 2046}), 300.0, 1e-9);
  EXPECT_EQ(fake.batcher->state().counts.n_passes, 2u + 1u + 3u);
}

TEST(EmbedBatcher, MT_5_MT_6_ReportsTheNineFamiliesAndTheirTypes) {
  using Kind = Figure::Kind;
  const std::map<std::string, Kind> wanted = {
      {"billow_embed_batches_created_total", Kind::kCounter},
      {"billow_embed_batch_tokens", Kind::kHistogram},
      {"billow_embed_batch_utilization_percent", Kind::kHistogram},
      {"billow_embed_queue_pending_tokens", Kind::kGauge},
      {"billow_embed_queue_wait_seconds", Kind::kHistogram},
      {"billow_embed_batches_active", Kind::kGauge},
      {"billow_embed_context_utilization_percent", Kind::kGauge},
      {"billow_embed_oom_retries_total", Kind::kCounter},
      {"billow_embed_oom_retry_tokens", Kind::kHistogram},
  };
  std::map<std::string, Kind> shown;
  for (const Figure& figure : embed_figures({}, {}, {})) shown.emplace(figure.name, figure.kind);
  for (const auto& [name, kind] : wanted) {
    ASSERT_TRUE(shown.contains(name)) << name;
    EXPECT_EQ(shown.at(name), kind) << name;
  }
}

TEST(EmbedBatcher, MT_6_ReportsRefusedDroppedAndFailedTextsInNamedBuckets) {
  std::map<std::string, Figure> shown;
  for (const Figure& figure : embed_figures({}, {}, {}))
    shown.emplace(figure.name + (figure.label.empty() ? "" : " " + figure.label_value), figure);
  for (const char* name :
       {"billow_embed_rejected_total full", "billow_embed_rejected_total closing",
        "billow_embed_rejected_total text", "billow_embed_failures_total memory",
        "billow_embed_failures_total model", "billow_embed_dropped_total",
        "billow_embed_inputs_total", "billow_embed_vectors_total", "billow_embed_nan_outputs_total",
        "billow_embed_input_tokens", "billow_embed_inference_seconds", "billow_embed_batches_max"})
    EXPECT_TRUE(shown.contains(name)) << name;
  for (const char* name : {"billow_embed_batch_tokens", "billow_embed_oom_retry_tokens",
                           "billow_embed_input_tokens"}) {
    const std::vector<double>& bounds = shown.at(name).histogram.bounds();
    ASSERT_EQ(bounds.size(), 14u) << name;
    for (size_t i = 0; i < bounds.size(); ++i) EXPECT_EQ(bounds[i], std::exp2(i)) << name;
  }
  const std::vector<double>& waits = shown.at("billow_embed_queue_wait_seconds").histogram.bounds();
  EXPECT_EQ(waits.front(), 0.0005);
  EXPECT_EQ(waits.back(), 10.0);
}

TEST(EmbedBatcher, SV_4_RequestsThatDoNotFitAreRefusedAsAWhole) {
  FakeEmbedders fake({.max_waiting = 512});
  fake.world->open(false);
  std::thread running([&] { fake.batcher->embed({{text_of(1)}}); });
  fake.world->wait_for_inside(1);
  std::thread waiting([&] { fake.batcher->embed({texts_of(std::vector<size_t>(112, 1))}); });
  fake.wait_for_pending(112);
  EXPECT_THROW(fake.batcher->embed({texts_of(std::vector<size_t>(401, 1))}), EmbedBusy);
  std::thread more([&] { fake.batcher->embed({texts_of(std::vector<size_t>(400, 1))}); });
  fake.wait_for_pending(512);
  EXPECT_THROW(fake.batcher->embed({{text_of(1)}}), EmbedBusy);  // while all passes are blocked
  EXPECT_THROW(fake.batcher->embed({texts_of(std::vector<size_t>(600, 1))}), Error);  // never fits
  EXPECT_EQ(fake.batcher->state().counts.n_rejected_full, 402u);
  fake.world->open(true);
  for (std::thread* thread : {&running, &waiting, &more}) thread->join();
  EXPECT_EQ(fake.world->n_tokens, 513u);
  EXPECT_TRUE(fake.is_clean());
}

TEST(EmbedBatcher, SV_5_FI_5_QueuedTextsOfACancelledClientAreDropped) {
  FakeEmbedders fake({});
  fake.world->open(false);
  std::stop_source stop_running;
  std::thread running(
      [&] { EXPECT_FALSE(fake.batcher->embed({{text_of(7)}}, stop_running.get_token())); });
  fake.world->wait_for_inside(1);
  std::stop_source stop;
  std::thread waiting(
      [&] { EXPECT_FALSE(fake.batcher->embed({texts_of({100, 100})}, stop.get_token())); });
  fake.wait_for_pending(2);
  stop.request_stop();
  stop_running.request_stop();  // returns before its pass has ended
  running.join();
  waiting.join();
  EXPECT_EQ(fake.batcher->state().counts.n_dropped, 2u);
  EXPECT_EQ(fake.batcher->state().load.n_pending_tokens, 0u);
  fake.world->open(true);
  EXPECT_TRUE(fake.is_clean());
  EXPECT_EQ(fake.world->n_tokens, 7u);
}

TEST(EmbedBatcher, SV_8_ValuesThatAreNotFiniteAreCounted) {
  FakeEmbedders fake({});
  const auto answers = fake.batcher->embed({{text_of(3, kNanToken), text_of(3)}});
  EXPECT_EQ(answers->texts[0].status, 500);
  EXPECT_EQ(answers->texts[1].status, 0);
  EXPECT_EQ(fake.batcher->state().counts.n_nan_outputs, 1u);
}

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

TEST(EmbedBatcher, SZ_18_AFirstTextWithoutSpaceWaitsWithoutCpuTime) {
  FakeEmbedders fake({.sizes = {.n_batch = 100, .context_size = 200}}, 2);
  fake.world->open(false);
  std::thread first([&] { fake.batcher->embed({{text_of(100)}}); });
  fake.world->wait_for_inside(1);
  fake.batcher->set_context_size(102);  // free space for 2
  std::thread second([&] { fake.batcher->embed({{text_of(100)}, "b"}); });
  fake.wait_for_pending(1);
  std::thread third([&] { fake.batcher->embed({{text_of(1)}, "b"}); });
  fake.wait_for_pending(2);
  double min = 1.0;  // CPU seconds; all threads wait sooner or later
  for (int i = 0; i < 20 && min >= 0.05; ++i) {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(milliseconds(500));
    min = std::min(min, cpu_seconds() - before);
  }
  EXPECT_LT(min, 0.05);
  EXPECT_EQ(fake.world->sums(), Sums{100});
  fake.world->open(true);
  for (std::thread* thread : {&first, &second, &third}) thread->join();
  // If both texts fit, the two models may start in any order.
  Sums sums = fake.world->sums();
  std::ranges::sort(sums);
  EXPECT_EQ(sums, (Sums{1, 100, 100}));
}

TEST(EmbedBatcher, PK_18_NoTokenIsAddedToTexts) {
  FakeEmbedders fake({});
  fake.batcher->embed({texts_of({1, 511, 7, 300})});
  EXPECT_EQ(fake.world->n_tokens, 819u);
}

TEST(EmbedBatcher, ReportsTheBudgetWhenAllModelsHaveIt) {
  FakeEmbedders fake({}, 2);
  EXPECT_EQ(fake.batcher->state().budget_version, 0u);
  fake.batcher->set_memory_budget(1000, 7);
  for (int i = 0; i < 60'000 && fake.batcher->state().budget_version != 7; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(fake.batcher->state().budget_version, 7u);
}

}  // namespace
}  // namespace billow::engine
