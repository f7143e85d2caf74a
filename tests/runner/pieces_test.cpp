// Tests the pieces that an answer is sent in.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tiny_loop.h"

namespace billow::runner {
namespace {

TEST(Pieces, ReportsPromptProgress) {
  TinyLoop tiny({}, {.n_batch = 64, .max_cached = 1 << 24});
  for (const size_t known : {0u, 128u}) {
    const auto answer = tiny.loop.submit(request(1, 3, 150));
    std::vector<size_t> done;
    bool written = false;
    while (const std::optional<Chunk> piece = answer->next()) {
      for (const Prefill& part : piece->prefill) {
        done.push_back(part.n_done);
        EXPECT_GT(part.time.count(), 0);
      }
      EXPECT_FALSE(written && !piece->prefill.empty());
      written = written || !piece->text.empty();
    }
    EXPECT_EQ(answer->end().n_shared, known);
    EXPECT_EQ(done, known == 0 ? (std::vector<size_t>{64, 128, 150}) : std::vector<size_t>{150});
  }
}

TEST(Pieces, ReportsPromptChunksImmediately) {
  std::atomic<int> n_left{1};  // passes, before the loop waits
  TinyLoop tiny({.before_pass =
                     [&] {
                       while (n_left.load() == 0)
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       n_left.fetch_sub(1);
                     }},
                {.n_batch = 64});
  const auto answer = tiny.loop.submit(request(1, 3, 100));
  const std::optional<Chunk> first = answer->next();  // while the next pass waits
  ASSERT_TRUE(first && first->prefill.size() == 1);
  EXPECT_EQ(first->prefill[0].n_done, 64u);
  n_left.store(1000);
  read(*answer);
}

TEST(Pieces, MergesTheTextOfAWholeAnswer) {
  TinyLoop roomy;
  TinyLoop tight({.max_unread = 64});
  const Whole expected = read(*roomy.loop.submit(request(1, 200)));
  for (TinyLoop* tiny : {&roomy, &tight}) {
    AnswerRequest wanted = request(1, 200);
    wanted.whole = true;
    const auto answer = tiny->loop.submit(std::move(wanted));
    const Whole whole = read(*answer);
    EXPECT_EQ(whole.text, expected.text);
    EXPECT_EQ(whole.tokens, expected.tokens);
    if (tiny == &roomy)  // one piece comes with the end of the prompt
      EXPECT_LE(whole.n_texts, 2u);
    else
      EXPECT_GT(whole.n_texts, 2u);
  }
}

// A runner uses is_over() to send the last piece and the end as one message.
TEST(Pieces, AnswerIsOverAfterItsLastPiece) {
  TinyLoop tiny;
  const Whole expected = read(*tiny.loop.submit(request(1, 200)));
  for (const bool whole : {false, true}) {
    AnswerRequest wanted = request(1, 200);
    wanted.whole = whole;
    const auto answer = tiny.loop.submit(std::move(wanted));
    EXPECT_FALSE(answer->is_over());
    std::string text;
    while (const std::optional<Chunk> piece = answer->next()) {
      text += piece->text;
      if (!answer->is_over()) continue;
      EXPECT_EQ(text, expected.text);
      EXPECT_EQ(answer->end().tokens, expected.tokens);
      EXPECT_FALSE(answer->next());
      break;
    }
    EXPECT_TRUE(answer->is_over());
    EXPECT_EQ(text, expected.text);
  }
  const auto refused = tiny.loop.submit(request(1, 5, 5000));  // longer than the model's context
  EXPECT_THROW(refused->next(), Error);
  EXPECT_FALSE(refused->is_over()) << "a refused answer has no end to send";
}

TEST(Pieces, MergesTokensWithinTheStreamInterval) {
  TinyLoop each;
  std::atomic<int> n_left{1};  // passes, before the loop waits
  const auto wait_for_turn = [&] {
    while (n_left.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    n_left.fetch_sub(1);
  };
  TinyLoop paced({.stream_interval = std::chrono::hours(1), .before_pass = wait_for_turn});
  TinyLoop tight({.max_unread = 64, .stream_interval = std::chrono::hours(1)});
  const Whole expected = read(*each.loop.submit(request(1, 200)));
  for (TinyLoop* tiny : {&paced, &tight}) {
    const auto answer = tiny->loop.submit(request(1, 200));
    std::string first;
    while (tiny == &paced && first.empty()) first = answer->next()->text;
    n_left.store(1000);
    const Whole whole = read(*answer);
    EXPECT_EQ(first + whole.text, expected.text);
    EXPECT_EQ(whole.tokens, expected.tokens);
    if (tiny == &paced)
      EXPECT_EQ(whole.n_texts, 1u) << "the first token immediately, the others with the end";
    else
      EXPECT_GT(whole.n_texts, 2u) << "the loop and a slow reader must not wait for each other";
  }
}

TEST(Pieces, SendsTextAfterTheStreamInterval) {
  std::atomic<int> n_left{1};  // passes, before the loop waits
  const auto wait_for_turn = [&] {
    while (n_left.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    n_left.fetch_sub(1);
  };
  TinyLoop tiny({.stream_interval = std::chrono::milliseconds(20), .before_pass = wait_for_turn});
  const auto answer = tiny.loop.submit(request(1, 200));
  Whole whole;
  for (int i = 0; i < 2; ++i) {  // the loop waits after each permitted pass
    const std::optional<Chunk> piece = answer->next();
    ASSERT_TRUE(piece);
    whole.text += piece->text;
    n_left.store(20);
  }
  EXPECT_FALSE(whole.text.empty());
  n_left.store(1000);
  whole.text += read(*answer).text;
  TinyLoop each;
  EXPECT_EQ(whole.text, read(*each.loop.submit(request(1, 200))).text);
}

}  // namespace
}  // namespace billow::runner
