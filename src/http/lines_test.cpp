#include "http/lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "http/sse.h"

namespace billow::http {
namespace {

using Strings = std::vector<std::string>;

// Returns the lines of a stream that arrives in pieces of `n` bytes.
Strings lines_of(std::string_view text, size_t n, size_t max_bytes = 100,
                 LineSplitter::Ends ends = LineSplitter::Ends::kNewline) {
  Strings lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter(max_bytes, ends);
  for (size_t i = 0; i < text.size(); i += n) splitter.feed(text.substr(i, n), take);
  splitter.finish(take);
  return lines;
}

TEST(LineSplitter, SplitsPiecesOfAnySize) {
  const std::string text = "{\"a\":1}\n\n{\"b\":2}\r\nx\ry\nlast";
  const Strings wanted{"{\"a\":1}", "", "{\"b\":2}", "x\ry", "last"};
  for (size_t n = 1; n <= text.size(); ++n) EXPECT_EQ(lines_of(text, n), wanted) << n;
}

TEST(LineSplitter, AcceptsAllLineEndsOfTheWeb) {
  const std::string text = "a\rb\r\nc\n\r\r\nd\n\ne";
  const Strings wanted{"a", "b", "c", "", "", "d", "", "e"};
  for (size_t n = 1; n <= text.size(); ++n) {
    EXPECT_EQ(lines_of(text, n, 100, LineSplitter::Ends::kAnyOfTheWeb), wanted) << n;
  }
}

TEST(LineSplitter, RefusesLinesThatAreTooLong) {
  for (size_t n = 1; n <= 12; ++n) {
    EXPECT_EQ(lines_of("12345\n1\n12345\r\n12345", n, 5).size(), 4u);
    EXPECT_THROW(lines_of("1234567\n", n, 5), Error);
    EXPECT_THROW(lines_of("123456\n", n, 5), Error);
    EXPECT_THROW(lines_of("1\n123456", n, 5), Error);
    EXPECT_THROW(lines_of("1\n12345678", n, 5), Error);
    EXPECT_THROW(lines_of("123456\r", n, 5, LineSplitter::Ends::kAnyOfTheWeb), Error);
  }
}

TEST(LineSplitter, DropsLongLinesAndNoOthers) {
  const std::string text = "1\n123456\n2\n123456789\r\n12345\r\n123456";
  for (size_t n = 1; n <= text.size(); ++n) {
    Strings lines;
    const auto take = [&](std::string_view line) { lines.emplace_back(line); };
    LineSplitter splitter(5, LineSplitter::Ends::kNewline, LineSplitter::LongLines::kAreDropped);
    for (size_t i = 0; i < text.size(); i += n) splitter.feed(text.substr(i, n), take);
    splitter.finish(take);
    EXPECT_EQ(lines, (Strings{"1", "2", "12345"})) << n;
  }
}

TEST(LineSplitter, RefusesEndlessLinesEarly) {
  LineSplitter splitter(1000);
  const std::string piece(900, 'x');
  splitter.feed(piece, [](std::string_view) { FAIL(); });
  EXPECT_THROW(splitter.feed(piece, [](std::string_view) { FAIL(); }), Error);
}

std::vector<SseEvent> events_of(std::string_view text, size_t n, size_t max_bytes = 100) {
  std::vector<SseEvent> events;
  SseReader reader(max_bytes);
  for (size_t i = 0; i < text.size(); i += n) {
    reader.feed(text.substr(i, n), [&](const SseEvent& event) { events.push_back(event); });
  }
  return events;
}

TEST(Sse, WritesEvents) {
  EXPECT_EQ(sse_event("[DONE]"), "data: [DONE]\n\n");
  EXPECT_EQ(sse_event("{}", "ping"), "event: ping\ndata: {}\n\n");
  EXPECT_EQ(sse_event(""), "data: \n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

TEST(Sse, ReadsItsOwnEvents) {
  const std::string text =
      sse_event("one") + sse_event("two\nlines", "name") + sse_event("") + sse_event(" blank");
  for (size_t n = 1; n <= text.size(); ++n) {
    const std::vector<SseEvent> events = events_of(text, n);
    ASSERT_EQ(events.size(), 4u) << n;
    EXPECT_EQ(events[0].data, "one");
    EXPECT_EQ(events[0].event, "");
    EXPECT_EQ(events[1].data, "two\nlines");
    EXPECT_EQ(events[1].event, "name");
    EXPECT_EQ(events[2].data, "");
    EXPECT_EQ(events[3].data, " blank");
  }
}

TEST(Sse, ReadsStreamsOfOtherServers) {
  const std::string text =
      "\xEF\xBB\xBF: comment\r\nid: 7\rdata:x\r\rretry: 10\nevent: only a name\n\ndata\ndata\n\n"
      "unknown: y\ndata: z\n\ndata: broken off";
  for (size_t n = 1; n <= text.size(); ++n) {
    const std::vector<SseEvent> events = events_of(text, n);
    ASSERT_EQ(events.size(), 3u) << n;
    EXPECT_EQ(events[0].data, "x");
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[1].data, "\n");
    EXPECT_EQ(events[1].event, "");
    EXPECT_EQ(events[2].data, "z");
    EXPECT_EQ(events[2].id, "7");
  }
}

TEST(Sse, RefusesEventsThatAreTooLarge) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "data: 12345\n";
  EXPECT_THROW(events_of(text + "\n", 7), Error);
  EXPECT_THROW(events_of("data: " + std::string(200, 'x') + "\n\n", 7), Error);
  EXPECT_EQ(events_of("data: 12345\n\n", 7, 11).size(), 1u);
}

}  // namespace
}  // namespace billow::http
