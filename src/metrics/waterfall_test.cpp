#include "metrics/waterfall.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "metrics/trace.h"

namespace billow::metrics {
namespace {

using namespace std::string_literals;

std::string trace_with(const std::string& spans) {
  return R"({"id":"1f","node":"host-a","route":"/api/chat","model":"m:1b",)"
         R"("began_at":"2026-11-22T02:07:29.000000Z","duration":1000000000,"status":200,"spans":[)" +
         spans + "]}";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

size_t width_of(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Waterfall, DrawsEachSpanAtItsTime) {
  const std::string text = waterfall(
      trace_with(
          R"({"name":"received","begin":0,"end":0},)"
          R"({"name":"queued","begin":0,"end":250000000},)"
          R"({"name":"prefill","begin":250000000,"end":500000000,"attributes":{"tokens":512}},)"
          R"({"name":"decode","begin":500000000,"end":1000000000})"),
      {.n_columns = 49});
  EXPECT_EQ(text,
            "/api/chat  m:1b  200  1.00 s\n"
            "1f  host-a  2026-11-22T02:07:29.000000Z\n"
            "received \u2502                    at 0 ns\n"
            "queued   \u2588\u2588\u2588\u2588                  250 ms\n"
            "prefill      \u2588\u2588\u2588\u2588              250 ms  tokens=512\n"
            "decode           \u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588      500 ms\n");
}

TEST(Waterfall, FoldsManySpansOfOneName) {
  std::string spans;
  for (int i = 0; i < 7; ++i) {
    const std::string begin = std::to_string(i * 100'000'000);
    const std::string end = std::to_string(i * 100'000'000 + 50'000'000);
    spans += R"({"name":"prefill","begin":)" + begin + R"(,"end":)" + end +
             R"(,"attributes":{"tokens":512,"model":"m","chunk":)" + std::to_string(i) + "}},";
  }
  spans += R"({"name":"grow","begin":1,"end":2},{"name":"grow","begin":3,"end":4})";
  const std::vector<std::string> lines = lines_of(waterfall(trace_with(spans)));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[2].starts_with("prefill x 7 \u2588")) << lines[2];
  EXPECT_TRUE(lines[2].ends_with("350 ms  tokens=3584 model=m")) << lines[2];
  EXPECT_NE(lines[2].find("\u2588 "), std::string::npos);  // the gaps are visible
  EXPECT_TRUE(lines[3].starts_with("grow "));
  EXPECT_TRUE(lines[4].starts_with("grow "));
}

TEST(Waterfall, NeverExceedsTerminalWidth) {
  std::string spans;
  for (int i = 0; i < 20; ++i) {
    spans += R"({"name":"a name that is long )" + std::string(static_cast<size_t>(i), '\xC3') +
             R"(","begin":)" + std::to_string(i) + R"(,"end":)" + std::to_string(i * 40000000000) +
             R"(,"attributes":{"text":")" + std::string(500, 'x') + R"(","n":1.5}},)";
  }
  spans.pop_back();
  Json trace = Json::parse(trace_with(R"({"name":"x","begin":-5,"end":100000000000000})"));
  trace["route"] = std::string(1000, '/');
  trace["error"] = std::string(1000, 'e');
  trace["left_out"] = 12;
  for (const size_t n : {0u, 40u, 41u, 80u, 133u, 10000u}) {
    for (const std::string& text : {trace.dump(), trace_with("")}) {
      for (const std::string& line : lines_of(waterfall(text, {.n_columns = n}))) {
        EXPECT_LE(width_of(line), std::clamp(n, kMinColumns, kMaxColumns)) << line;
        EXPECT_TRUE(utf8::is_valid(line));
      }
    }
  }
  EXPECT_THROW(waterfall(trace_with(spans)), Error);  // invalid UTF-8, so invalid JSON
}

TEST(Waterfall, ShowsErrorAndDroppedSpans) {
  const std::vector<std::string> lines = lines_of(waterfall(
      R"({"id":"i","route":"/r","duration":5,"error":"no memory","spans":[],"left_out":12})"));
  EXPECT_EQ(lines, (std::vector<std::string>{"/r  running  5 ns", "i", "error: no memory",
                                             "12 more spans were dropped"}));
}

TEST(Waterfall, UsesColoursOnlyOnRequest) {
  const std::string trace = trace_with(R"({"name":"a","begin":0,"end":9})");
  EXPECT_EQ(waterfall(trace).find('\033'), std::string::npos);
  EXPECT_NE(waterfall(trace, {.colour = true}).find("\033[36m"), std::string::npos);
}

TEST(Waterfall, SendsNoControlCharacters) {
  const std::string text =
      waterfall(trace_with(R"({"name":"a\u001b[31m\n\u009b","begin":0,"end":9,)"
                           R"("attributes":{"k\u0007":"v\u001b]0;title"}})"));
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find("\xC2\x9B"), std::string::npos);
  EXPECT_EQ(text.find('\a'), std::string::npos);
  EXPECT_EQ(lines_of(text).size(), 3u);
}

TEST(Waterfall, RejectsOtherText) {
  const std::string nested(100'000, '[');
  for (const std::string& text :
       {std::string(),
        std::string("{"),
        std::string("[]"),
        std::string("7"),
        std::string("{}"),
        nested,
        R"({"spans":7,"duration":1})"s,
        R"({"spans":[],"duration":"1"})"s,
        R"({"spans":[],"duration":1.5})"s,
        R"({"spans":[]})"s,
        trace_with("7"),
        trace_with(R"({"name":"a"})"),
        trace_with(R"({"name":7,"begin":0,"end":1})"),
        trace_with(R"({"name":"a","begin":2,"end":1})"),
        trace_with(R"({"name":"a","begin":0,"end":9223372036854775807})"),
        trace_with(R"({"name":"a","begin":-9223372036854775808,"end":0})"),
        trace_with(R"({"name":"a","begin":0,"end":18446744073709551615})"),
        trace_with(R"({"name":"a","begin":0,"end":1e300})"),
        trace_with(R"({"name":"a","begin":0,"end":1,"attributes":[]})"),
        R"({"spans":[],"duration":1,"id":7})"s}) {
    EXPECT_THROW(waterfall(text), Error) << text.substr(0, 80);
  }
}

TEST(Waterfall, AcceptsDeeplyNestedAttributes) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  std::string spans;
  for (int i = 0; i < 5; ++i) {
    spans += R"({"name":"a","begin":0,"end":1,"attributes":{"deep":)" + deep + "}},";
  }
  spans.pop_back();
  EXPECT_NE(waterfall(trace_with(spans)).find("deep=[...]"), std::string::npos);
}

TEST(Waterfall, DrawsRecordedTrace) {
  Trace trace("id", "/api/chat", "host-a");
  const auto t = trace.began();
  for (int i = 0; i < 5; ++i) {
    trace.span("decode", t + std::chrono::milliseconds(i), t + std::chrono::milliseconds(i + 1),
               Json{{"tokens", 2}});
  }
  trace.finish(200);
  const std::string text = waterfall(trace.to_json().dump());
  EXPECT_NE(text.find("decode x 5"), std::string::npos);
  EXPECT_NE(text.find("5.00 ms  tokens=10"), std::string::npos);
}

TEST(TraceTable, HasOneLinePerTrace) {
  EXPECT_EQ(
      trace_table(R"({"traces":[{"id":"1f","route":"/api/chat","model":"m:1b","began_at":"T",)"
                  R"("duration":1500000,"status":200},)"
                  R"({"id":"abc","route":"/api/tags","began_at":"T","duration":5}]})"),
      "ID   ROUTE      MODEL  STATUS   DURATION  BEGAN\n"
      "1f   /api/chat  m:1b   200      1.50 ms   T\n"
      "abc  /api/tags         running  5 ns      T\n");
}

TEST(TraceTable, RejectsOtherText) {
  for (const char* text : {"", "[]", "{}", R"({"traces":{}})", R"({"traces":[1]})",
                           R"({"traces":[{"id":"a"}]})", R"({"traces":[{"id":7,"duration":1}]})"}) {
    EXPECT_THROW(trace_table(text), Error) << text;
  }
  TraceStore store(4);
  store.start("a", "/", "n");
  EXPECT_NE(trace_table(store.list(4).dump()).find("\na "), std::string::npos);
}

TEST(Waterfall, FormatsDurationsWithThreeDigits) {
  const std::pair<int64_t, const char*> cases[] = {
      {0, "0 ns"},
      {999, "999 ns"},
      {1'000, "1.00 \u00b5s"},
      {1'234'567, "1.23 ms"},
      {12'345'678, "12.3 ms"},
      {123'456'789, "123 ms"},
      {999'499'999, "999 ms"},
      {999'500'000, "1.00 s"},
      {9'994'000'000, "9.99 s"},
      {9'996'000'000, "10.0 s"},
      {59'400'000'000, "59.4 s"},
      {59'500'000'000, "1m00s"},
      {125'000'000'000, "2m05s"},
      {11'220'000'000'000, "3h07m"},
      {-1'500'000, "-1.50 ms"},
  };
  for (const auto& [nanoseconds, text] : cases) EXPECT_EQ(duration_text(nanoseconds), text);
}

}  // namespace
}  // namespace billow::metrics
