#include "server/event_feed.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/json.h"

namespace billow::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNow{0};
constexpr milliseconds kLong{60'000};

std::string next(EventFeed::Reader& reader) { return reader.next({}, kNow).value_or("ended"); }

TEST(EventFeed, EachReaderGetsTheEventsSinceItsBeginning) {
  EventFeed feed;
  feed.publish("a", {{"n", 0}});  // nobody reads it
  const auto first = feed.read();
  feed.publish("a", {{"n", 1}});
  const auto second = feed.read();
  feed.publish("b", {{"n", 2}});
  EXPECT_EQ(next(*first), "event: a\ndata: {\"n\":1}\n\nevent: b\ndata: {\"n\":2}\n\n");
  EXPECT_EQ(next(*second), "event: b\ndata: {\"n\":2}\n\n");
  EXPECT_EQ(next(*first), "");
  const EventFeed::Counts counts = feed.counts();
  EXPECT_EQ(counts.n_readers, 2u);
  EXPECT_EQ(counts.n_sent, 3u);
  EXPECT_EQ(counts.n_missed, 0u);
}

TEST(EventFeed, ASlowReaderLosesTheOldestEventsAndLearnsHowMany) {
  EventFeed feed;
  const auto slow = feed.read();
  for (size_t i = 0; i < EventFeed::kMaxEvents + 7; ++i) feed.publish("a", {{"n", i}});
  const std::string text = next(*slow);
  EXPECT_TRUE(
      text.starts_with("event: missed\ndata: {\"events\":7}\n\nevent: a\ndata: {\"n\":7}\n\n"))
      << text.substr(0, 200);
  EXPECT_EQ(feed.counts().n_missed, 7u);
  EXPECT_EQ(feed.counts().n_sent, EventFeed::kMaxEvents);
  EXPECT_EQ(next(*slow), "");
}

TEST(EventFeed, LimitsItsReaders) {
  EventFeed feed;
  std::vector<std::unique_ptr<EventFeed::Reader>> readers;
  for (size_t i = 0; i < EventFeed::kMaxReaders; ++i) readers.push_back(feed.read());
  EXPECT_NE(readers.back(), nullptr);
  EXPECT_EQ(feed.read(), nullptr);
  readers.pop_back();
  EXPECT_NE(feed.read(), nullptr);
}

TEST(EventFeed, AReaderThatComesAfterTheLastOneLeftGetsNoOldEvents) {
  EventFeed feed;
  {
    const auto reader = feed.read();
    feed.publish("a", {{"n", 1}});
  }
  EXPECT_FALSE(feed.has_readers());
  const auto reader = feed.read();
  EXPECT_EQ(next(*reader), "");
  feed.publish("a", {{"n", 2}});
  EXPECT_EQ(next(*reader), "event: a\ndata: {\"n\":2}\n\n");
}

TEST(EventFeed, ClosingEndsReadersAfterTheirLastEvents) {
  EventFeed feed;
  const auto reader = feed.read();
  std::string waited;
  const auto waiting = feed.read();
  std::thread thread([&] { waited = waiting->next({}, kLong).value_or("ended"); });
  feed.publish("a", {{"n", 1}});
  thread.join();
  EXPECT_EQ(waited, "event: a\ndata: {\"n\":1}\n\n");
  std::thread other([&] { waited = waiting->next({}, kLong).value_or("ended"); });
  feed.close();
  other.join();
  EXPECT_EQ(waited, "ended");
  feed.publish("a", {{"n", 2}});
  EXPECT_EQ(next(*reader), "event: a\ndata: {\"n\":1}\n\n");
  EXPECT_EQ(next(*reader), "ended");
  EXPECT_EQ(next(*feed.read()), "ended");
}

TEST(EventFeed, AStopRequestEndsAWait) {
  EventFeed feed;
  const auto reader = feed.read();
  std::stop_source stop;
  std::thread thread([&] { EXPECT_FALSE(reader->next(stop.get_token(), kLong)); });
  stop.request_stop();
  thread.join();
}

TEST(EventFeed, ManyThreadsPublishAndRead) {
  constexpr size_t kEach = 300;
  EventFeed feed;
  std::vector<std::thread> threads;
  std::atomic<size_t> n_ready = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto reader = feed.read();
      ++n_ready;
      size_t n = 0;
      while (const auto text = reader->next({}, kLong))
        for (size_t at = text->find("data: {\"n\""); at != std::string::npos;
             at = text->find("data: {\"n\"", at + 1))
          ++n;
      EXPECT_EQ(n, 3 * kEach);  // fewer than the ring holds, so none is lost
    });
  }
  while (n_ready < 3) std::this_thread::yield();
  {
    std::vector<std::jthread> publishers;
    for (int i = 0; i < 3; ++i)
      publishers.emplace_back([&] {
        for (size_t n = 0; n < kEach; ++n) feed.publish("a", {{"n", n}});
      });
  }
  feed.close();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace billow::server
