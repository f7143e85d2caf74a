#include "metrics/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/json.h"

namespace billow::metrics {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::vector<std::string> names_of(const Json& trace) {
  std::vector<std::string> names;
  for (const Json& span : trace.at("spans")) names.push_back(span.at("name"));
  return names;
}

TEST(Trace, SortsSpansByBegin) {
  Trace trace("id-1", "/api/chat", "host-a");
  trace.set_model("m:1b");
  const auto t = trace.began();
  trace.span("decode", t + milliseconds(5), t + milliseconds(9), Json{{"tokens", 3}});
  trace.span("prefill", t + milliseconds(1), t + milliseconds(5));
  trace.span("early", t - milliseconds(1), t - milliseconds(2));
  trace.finish(200);
  const Json json = trace.to_json();
  EXPECT_EQ(names_of(json), (std::vector<std::string>{"early", "prefill", "decode"}));
  EXPECT_EQ(json.at("id"), "id-1");
  EXPECT_EQ(json.at("node"), "host-a");
  EXPECT_EQ(json.at("route"), "/api/chat");
  EXPECT_EQ(json.at("model"), "m:1b");
  EXPECT_EQ(json.at("status"), 200);
  EXPECT_FALSE(json.contains("error"));
  EXPECT_FALSE(json.contains("left_out"));
  EXPECT_GT(json.at("duration"), 0);
  EXPECT_EQ(json.at("spans")[0].at("end"), -1'000'000);  // clamped to its begin
  EXPECT_EQ(json.at("spans")[2].at("begin"), 5'000'000);
  EXPECT_EQ(json.at("spans")[2].at("end"), 9'000'000);
  EXPECT_EQ(json.at("spans")[2].at("attributes"), (Json{{"tokens", 3}}));
  EXPECT_FALSE(json.at("spans")[1].contains("attributes"));
  const std::string at = json.at("began_at");
  EXPECT_EQ(at.size(), std::string("2026-11-22T02:07:29.123456Z").size());
  EXPECT_EQ(at.back(), 'Z');
}

TEST(Trace, IgnoresSpansAfterFinish) {
  Trace trace("id", "/", "n");
  trace.mark("before");
  EXPECT_FALSE(trace.to_json().contains("status"));
  trace.finish(500, "no \xFF memory");
  trace.mark("after");
  trace.finish(200);
  const Json json = trace.to_json();
  EXPECT_EQ(names_of(json), std::vector<std::string>{"before"});
  EXPECT_EQ(json.at("status"), 500);
  EXPECT_EQ(json.at("error"), "no \xEF\xBF\xBD memory");
  EXPECT_EQ(json.at("duration"), trace.to_json().at("duration"));
}

TEST(Trace, CutsLongErrors) {
  const auto kept = [](const std::string& error) {
    Trace trace("id", "/", "n");
    trace.finish(400, error);
    return trace.to_json().value("error", std::string());
  };
  const std::string longest(kMaxErrorBytes, 'x');
  EXPECT_EQ(kept(longest), longest);
  EXPECT_EQ(kept(longest + "x"), longest + "...");
  EXPECT_EQ(kept(std::string(10'000'000, 'x')), longest + "...");
  std::string accents = "x";
  for (size_t i = 0; i < kMaxErrorBytes; ++i) accents += "\u00e9";
  EXPECT_EQ(kept(accents), accents.substr(0, kMaxErrorBytes - 1) + "...") << "whole characters";
  const std::string broken = kept(std::string(kMaxErrorBytes, '\xff'));
  EXPECT_LE(broken.size(), kMaxErrorBytes + 3);
  EXPECT_TRUE(broken.ends_with("\uFFFD..."));
}

TEST(Trace, LimitsAttributesToObjectsOfBoundedSize) {
  Trace trace("id", "/", "n");
  trace.mark("none", Json());
  trace.mark("number", Json(7));
  trace.mark("list", Json::array({1, 2}));
  trace.mark("huge", Json{{"text", std::string(kMaxAttributeBytes, 'a')}});
  trace.mark("bytes", Json{{"text", "\xFF"}});
  const Json json = trace.to_json();
  EXPECT_FALSE(json.at("spans")[0].contains("attributes"));
  EXPECT_EQ(json.at("spans")[1].at("attributes"), (Json{{"value", 7}}));
  EXPECT_EQ(json.at("spans")[2].at("attributes").at("value"), Json::array({1, 2}));
  EXPECT_EQ(json.at("spans")[3].at("attributes").at("left_out_bytes"), kMaxAttributeBytes + 11);
  EXPECT_EQ(json.at("spans")[4].at("attributes").at("text"), "\xEF\xBF\xBD");
}

TEST(Trace, KeepsFirstAndLatestSpans) {
  Trace trace("id", "/", "n");
  const auto t = trace.began();
  constexpr size_t kAll = kMaxSpans + 1000;
  for (size_t i = 0; i < kAll; ++i) {
    trace.span("span " + std::to_string(i), t + microseconds(i), t + microseconds(i + 1));
  }
  const Json json = trace.to_json();
  const std::vector<std::string> names = names_of(json);
  ASSERT_EQ(names.size(), kMaxSpans);
  EXPECT_EQ(json.at("left_out"), 1000);
  for (size_t i = 0; i < kMaxSpans; ++i) {
    const size_t expected = i < kMaxSpans - kLatestSpans ? i : i + 1000;
    EXPECT_EQ(names[i], "span " + std::to_string(expected));
  }
}

TEST(Trace, StoresOnlyValidParent) {
  Trace trace("id", "/", "n");
  EXPECT_FALSE(trace.set_parent("00-nothing"));
  EXPECT_FALSE(trace.to_json().contains("traceparent"));
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_TRUE(trace.set_parent(parent));
  EXPECT_EQ(trace.to_json().at("traceparent"), parent);
  // A future version can have more fields, which are not needed.
  const std::string known = "01" + parent.substr(2);
  EXPECT_TRUE(trace.set_parent(known + "-" + std::string(60'000, 'a')));
  EXPECT_EQ(trace.to_json().at("traceparent"), known);
  EXPECT_EQ(trace.parent()->parent_id, "b7ad6b7169203331");
}

TEST(Trace, WritesFormatOfChromeAndPerfetto) {
  Trace trace("id", "/api/chat", "host-a");
  const auto t = trace.began();
  trace.span("load", t + milliseconds(1), t + milliseconds(4), Json{{"bytes", 1}});
  trace.mark("waiting", Json{{"place", 2}});
  trace.finish(200);
  const Json json = trace.to_chrome_json();
  EXPECT_EQ(json.at("displayTimeUnit"), "ms");
  EXPECT_EQ(json.at("otherData").at("id"), "id");
  std::map<std::string, Json> events;
  for (const Json& event : json.at("traceEvents")) {
    EXPECT_TRUE(event.at("pid").is_number_integer());
    EXPECT_TRUE(event.at("tid").is_number_integer());
    const std::string kind = event.at("ph");
    if (kind == "X") {
      EXPECT_GT(event.at("dur"), 0.0);
    }
    if (kind == "i") {
      EXPECT_EQ(event.at("s"), "t");
    }
    if (kind != "M") {
      EXPECT_TRUE(event.at("ts").is_number());
    }
    events[event.at("name")] = event;
  }
  EXPECT_EQ(events.at("process_name").at("ph"), "M");
  EXPECT_EQ(events.at("process_name").at("args").at("name"), "billow host-a");
  EXPECT_EQ(events.at("thread_name").at("ph"), "M");
  EXPECT_EQ(events.at("load").at("ph"), "X");
  EXPECT_EQ(events.at("load").at("ts"), 1000.0);
  EXPECT_EQ(events.at("load").at("dur"), 3000.0);
  EXPECT_EQ(events.at("load").at("args"), (Json{{"bytes", 1}}));
  EXPECT_EQ(events.at("waiting").at("ph"), "i");
  EXPECT_EQ(events.at("/api/chat").at("ts"), 0.0);
}

// Perfetto drops a span that partly overlaps another span of its track.
TEST(Trace, SpansOfOneChromeTrackAreDisjointOrNested) {
  Trace trace("id", "/", "n");
  const auto t = trace.began();
  for (int i = 0; i < 200; ++i) {
    const int begin = i * 7919 % 101;
    const int length = 1 + i * 104729 % 37;
    trace.span(std::to_string(i), t + nanoseconds(begin), t + nanoseconds(begin + length));
  }
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  const Json json = trace.to_chrome_json();
  size_t n_spans = 0;
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double ts = event.at("ts");
    const double dur = event.at("dur");
    for (const auto& [begin, end] : tracks[event.at("tid")]) {
      const double overlap = std::min(end, ts + dur) - std::max(begin, ts);
      const double min = std::min(end - begin, dur);
      EXPECT_TRUE(overlap < 1e-6 || overlap > min - 1e-6) << event;
    }
    tracks[event.at("tid")].emplace_back(ts, ts + dur);
    ++n_spans;
  }
  EXPECT_EQ(n_spans, 201u);
  EXPECT_LT(tracks.size(), 100u);
}

TEST(Trace, IsThreadSafe) {
  Trace trace("id", "/", "n");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&trace] {
      for (int k = 0; k < 1000; ++k) trace.mark("moment", Json{{"k", k}});
      EXPECT_TRUE(trace.to_json().at("spans").is_array());
    });
  }
  threads.clear();
  const Json json = trace.to_json();
  EXPECT_EQ(json.at("spans").size(), kMaxSpans);
  EXPECT_EQ(json.at("left_out"), 8000 - kMaxSpans);
}

TEST(TraceStore, KeepsTheLatestTraces) {
  TraceStore store(2);
  store.start("a", "/", "n");
  store.start("b", "/", "n");
  const auto first = store.find("a");
  store.start("c", "/", "n");
  EXPECT_EQ(store.ids(), (std::vector<std::string>{"c", "b"}));
  EXPECT_FALSE(store.find("a"));
  EXPECT_EQ(first->id(), "a");  // an evicted trace lives while it has an owner
  EXPECT_TRUE(store.find("b"));
}

TEST(TraceStore, NeverReplacesAnotherTrace) {
  TraceStore store(3);
  const auto first = store.start("a", "/first", "n");
  store.start("b", "/", "n");
  const auto second = store.start("a", "/second", "n");
  EXPECT_EQ(store.find("a"), first);
  EXPECT_EQ(second->id(), "a~3");
  EXPECT_FALSE(is_request_id(second->id())) << "no client can use this id";
  EXPECT_EQ(store.find("a~3"), second);
  EXPECT_EQ(store.ids(), (std::vector<std::string>{"a~3", "b", "a"}));
  store.start("a", "/third", "n");
  EXPECT_EQ(store.ids(), (std::vector<std::string>{"a~4", "a~3", "b"}));
  EXPECT_EQ(store.start("a", "/fourth", "n")->id(), "a") << "the name is free again";
  EXPECT_EQ(store.find("a~3"), second);
}

TEST(TraceStore, KeepsNothingIfItsSizeIsZero) {
  TraceStore store(0);
  EXPECT_TRUE(store.start("a", "/", "n"));
  EXPECT_TRUE(store.ids().empty());
  EXPECT_EQ(store.list(9), (Json{{"traces", Json::array()}}));
}

TEST(TraceStore, ListsSummaries) {
  TraceStore store(8);
  store.start("a", "/api/chat", "n")->finish(200, "late");
  store.start("b", "/api/embed", "n")->set_model("m");
  const Json list = store.list(8).at("traces");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].at("id"), "b");
  EXPECT_EQ(list[0].at("model"), "m");
  EXPECT_FALSE(list[0].contains("status"));
  EXPECT_EQ(list[1].at("status"), 200);
  for (const auto& [name, value] : list[1].items()) {
    EXPECT_TRUE(name == "id" || name == "route" || name == "began_at" || name == "duration" ||
                name == "status")
        << name;
  }
  EXPECT_EQ(store.list(1).at("traces").size(), 1u);
}

TEST(TraceStore, IsThreadSafe) {
  TraceStore store(16);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&store, i] {
      for (int k = 0; k < 200; ++k) {
        const auto trace = store.start(std::to_string((i * 31 + k) % 40), "/", "n");
        trace->mark("moment");
        trace->finish(200);
        EXPECT_LE(store.list(16).at("traces").size(), 16u);
        (void)store.find("7");
      }
    });
  }
  threads.clear();
  EXPECT_EQ(store.ids().size(), 16u);
}

}  // namespace
}  // namespace billow::metrics
