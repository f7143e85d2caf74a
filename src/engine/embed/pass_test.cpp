#include "engine/embed/pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "engine/embed/fake_model.h"

namespace billow::engine {
namespace {

using Sums = std::vector<size_t>;

struct PassRun {
  explicit PassRun(const std::vector<size_t>& lengths, size_t limit = SIZE_MAX)
      : texts(texts_of(lengths)) {
    world->memory_limit = limit;
  }
  void run(size_t max_attempts = 4) {
    pass.clear();
    for (const EmbedText& text : texts) pass.add(text);
    end = pass.run(model, max_attempts,
                   {.on_retry = [this](size_t n) { retries.push_back(n); },
                    .is_wanted = [this](size_t i) { return !wanted || wanted(i); }});
    answers.clear();
    for (size_t i = 0; i < texts.size(); ++i) answers.push_back(pass.take_answer(i));
  }
  // Compares the answers with the fake model's vectors.
  void expect_vectors() const {
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(answers[i].values, FakeEmbedModel::vector_of(texts[i])) << i;
  }

  std::shared_ptr<FakeWorld> world = std::make_shared<FakeWorld>();
  FakeEmbedModel model{world};
  EmbedPass pass{64};
  std::vector<EmbedText> texts;
  std::function<bool(size_t)> wanted;
  std::vector<EmbedAnswer> answers;
  std::vector<size_t> retries;
  PassEnd end;
};

TEST(EmbedPass, OM_19_TextsArePackedAgainForASmallerSize) {
  PassRun run({512, 512, 512, 512}, 1024);
  run.run();
  EXPECT_EQ(run.world->sums(), (Sums{2048, 1024, 1024}));
  EXPECT_EQ(run.retries, Sums{1024});
  EXPECT_TRUE(run.end.was_retried);
  EXPECT_EQ(run.end.n_good_tokens, 1024u);
  run.expect_vectors();
}

TEST(EmbedPass, OM_20_ALongTextRunsAlone) {
  PassRun run({900, 100, 100}, 950);
  run.run();
  EXPECT_EQ(run.world->sums(), (Sums{1100, 900, 200}));
  EXPECT_EQ(run.retries, Sums{550});
  run.expect_vectors();
}

TEST(EmbedPass, OM_21_ATextThatDoesNotFitAloneFailsAlone) {
  PassRun run({900, 100, 100}, 800);
  run.run();
  EXPECT_EQ(run.world->sums(), (Sums{1100, 900, 200}));
  EXPECT_EQ(run.answers[0].status, 503);
  EXPECT_TRUE(run.answers[0].values.empty());
  EXPECT_FALSE(run.answers[1].values.empty());
  EXPECT_FALSE(run.answers[2].values.empty());
}

TEST(EmbedPass, OM_22_FinishedTextsAreNotEvaluatedAgain) {
  PassRun run({512, 512, 512, 512});
  size_t n_calls = 0;
  run.world->before_pass = [&] {
    ++n_calls;
    if (n_calls == 1 || n_calls == 3) throw std::bad_alloc();  // the whole pass and its second half
  };
  run.run();
  EXPECT_EQ(run.world->sums(), (Sums{2048, 1024, 1024, 512, 512}));
  EXPECT_EQ(run.retries, (Sums{1024, 512}));
  run.expect_vectors();
}

TEST(EmbedPass, OM_24_OtherErrorsAreNotRetried) {
  PassRun run({100, 100});
  run.world->before_pass = [] { throw Error(ErrorCode::kIo, "the disk is gone"); };
  run.run();
  EXPECT_EQ(run.world->sums(), Sums{200});
  EXPECT_TRUE(run.retries.empty());
  EXPECT_EQ(run.answers[0].status, 500);
  EXPECT_NE(run.answers[1].error.find("the disk is gone"), std::string::npos);
  EXPECT_NE(run.end.failure, "");
}

TEST(EmbedPass, OM_25_FI_18_OutOfMemoryIsDetectedByTypeNotByMessage) {
  for (const char* words : {"room", "zoom", "classroom", "illegal memory access",
                            "invalid allocation flag", "out of memory, he said"}) {
    PassRun run({100, 100});
    run.world->before_pass = [&] { throw std::runtime_error(words); };
    run.run();
    EXPECT_TRUE(run.retries.empty()) << words;
    EXPECT_EQ(run.answers[0].status, 500) << words;
  }
  for (const bool is_bad_alloc : {false, true}) {
    PassRun run({100, 100}, 100);
    run.world->throws_bad_alloc = is_bad_alloc;
    run.run();
    EXPECT_EQ(run.retries, Sums{100});
    run.expect_vectors();
  }
}

TEST(EmbedPass, OM_26_FI_3_RetriesAreCountedUpToTheLastAttempt) {
  for (size_t k = 1; k <= 5; ++k) {
    PassRun run(std::vector<size_t>(32, 64));
    run.world->memory_limit = size_t{2048} >> (k - 1);
    run.run();
    const Sums all = {1024, 512, 256};
    const size_t n = std::min<size_t>(k - 1, 3);
    EXPECT_EQ(run.retries, Sums(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
    if (k <= 4) run.expect_vectors();
    if (k == 5) {
      for (const EmbedAnswer& answer : run.answers) EXPECT_EQ(answer.status, 503);
    }
  }
}

// Takes the shortest of 20 runs, because other processes make some runs slow.
TEST(EmbedPass, OM_27_RetriesDoNotSleep) {
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    PassRun run(std::vector<size_t>(32, 64), 0);
    const auto begin = std::chrono::steady_clock::now();
    run.run();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
    EXPECT_EQ(run.retries.size(), 3u);
  }
  EXPECT_LT(shortest, std::chrono::milliseconds(50));
}

TEST(EmbedPass, FI_7_AThrownValueThatIsNoExceptionFailsThePass) {
  PassRun run({10});
  run.world->before_pass = [] { throw 7; };
  run.run();
  EXPECT_EQ(run.answers[0].status, 500);
}

TEST(EmbedPass, FI_9_SV_8_ValuesThatAreNotFiniteFailTheirTextOnly) {
  PassRun run({10, 10, 10});
  run.texts[1] = text_of(5, kNanToken);
  run.texts[2] = text_of(5, kZeroToken);
  run.run();
  EXPECT_FALSE(run.answers[0].values.empty());
  EXPECT_EQ(run.answers[1].status, 500);
  EXPECT_TRUE(run.answers[1].values.empty());
  EXPECT_EQ(run.answers[2].values, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run.pass.n_nan(), 1u);
  EXPECT_EQ(run.end.failure, "");
}

TEST(EmbedPass, FI_5_UnwantedTextsAreDroppedBeforeTheNextCall) {
  PassRun run({512, 512, 512, 512}, 1024);
  // After a retry, the last two texts are unwanted.
  run.wanted = [&](size_t i) { return i < 2 || run.retries.empty(); };
  run.run();
  EXPECT_EQ(run.world->sums(), (Sums{2048, 1024}));
  EXPECT_FALSE(run.answers[1].values.empty());
  EXPECT_TRUE(run.answers[3].values.empty());
}

TEST(EmbedPass, PK_10_PG_3_TokensAreNotCopiedAndBuffersAreReused) {
  PassRun run({100, 200});
  for (int i = 0; i < 10; ++i) run.run();
  for (size_t i = 0; i < run.world->tokens.size(); ++i)
    EXPECT_EQ(run.world->tokens[i], run.texts[i % 2].tokens.data());
  for (const void* buffer : run.world->buffers) EXPECT_EQ(buffer, run.world->buffers[0]);
}

}  // namespace
}  // namespace billow::engine
