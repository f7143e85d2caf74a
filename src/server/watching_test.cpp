#include "server/watching.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "http/sse.h"
#include "server/sample_server.h"

namespace billow::server {
namespace {

using http::Method;
using http::Response;

TEST(Memory, IsReportedPerModelAndClass) {
  scheduler::SchedulerState state;
  state.budget_bytes = 1000;
  state.granted_bytes = 600;
  scheduler::LoadedModel& ready = state.models.emplace_back();
  ready.model.name = "m:latest";
  ready.model.phase = scheduler::Phase::kReady;
  ready.model.granted_bytes = 500;
  ready.model.held_bytes = 400;
  ready.health.kv_used_bytes = 60;
  ready.health.cached_bytes = 30;
  scheduler::LoadedModel& loading = state.models.emplace_back();
  loading.model.phase = scheduler::Phase::kLoading;
  loading.health.n_loaded = 1;
  loading.health.n_to_load = 4;
  const Json json = memory_json(state);
  EXPECT_EQ(json["budget_bytes"], 1000);
  EXPECT_EQ(json["models"][0]["state"], "ready");
  EXPECT_EQ(json["models"][0]["held_bytes"], 400);
  EXPECT_EQ(json["models"][0]["kv_in_use_bytes"], 60);
  EXPECT_EQ(json["models"][0]["kv_cached_bytes"], 30);
  EXPECT_FALSE(json["models"][0].contains("load_ratio"));
  EXPECT_EQ(json["models"][1]["state"], "loading");
  EXPECT_EQ(json["models"][1]["load_ratio"], 0.25);
  EXPECT_EQ(json["models"][1]["loaded_bytes"], 1);
  EXPECT_EQ(json["models"][1]["to_load_bytes"], 4);
}

scheduler::LoadedModel& add_model(scheduler::SchedulerState& state, const char* name, pid_t pid) {
  scheduler::LoadedModel& loaded = state.models.emplace_back();
  loaded.model.name = loaded.model.key = name;
  loaded.model.phase = scheduler::Phase::kReady;
  loaded.pid = pid;
  return loaded;
}

TEST(Changes, FindsMemoryOnlyIfItHasChanged) {
  Changes changes;
  scheduler::SchedulerState state;
  EXPECT_EQ(changes.look(state, {}).memory, memory_json(state));
  EXPECT_TRUE(changes.look(state, {}).memory.is_null());
  add_model(state, "m", 1).model.held_bytes = 5;
  EXPECT_EQ(changes.look(state, {}).memory["models"][0]["held_bytes"], 5);
  EXPECT_TRUE(changes.look(state, {}).memory.is_null());
}

TEST(Changes, FindsEvictionsByClass) {
  Changes changes;
  scheduler::SchedulerState state;
  add_model(state, "m", 1).health.kv_evicted_bytes = 100;
  const auto time = WallClock::time_point(std::chrono::milliseconds(7));
  auto found = changes.look(state, time);
  ASSERT_EQ(found.evictions.size(), 1u);
  EXPECT_EQ(eviction_json(found.evictions[0]).dump(),
            R"({"time":7,"model":"m","class":"kv_cached","bytes":100})");
  EXPECT_TRUE(changes.look(state, time).evictions.empty());
  state.models[0].health.kv_evicted_bytes = 130;
  state.models[0].health.adapters_evicted_bytes = 9;
  found = changes.look(state, time);
  ASSERT_EQ(found.evictions.size(), 2u);
  EXPECT_EQ(found.evictions[0].bytes, 30u);
  EXPECT_EQ(found.evictions[1].memory_class, "adapters");
  EXPECT_EQ(found.evictions[1].bytes, 9u);
  // A new runner counts from 0 again.
  state.models[0].pid = 2;
  state.models[0].health.kv_evicted_bytes = 4;
  state.models[0].health.adapters_evicted_bytes = 0;
  found = changes.look(state, time);
  ASSERT_EQ(found.evictions.size(), 1u);
  EXPECT_EQ(found.evictions[0].bytes, 4u);
}

TEST(Changes, FindsNewPassesAndCountsThoseThatAreLost) {
  Changes changes;
  scheduler::SchedulerState state;
  auto& health = add_model(state, "e", 1).health;
  health.embed_passes = {{.number = 1, .time_ms = 10, .n_texts = 2, .n_tokens = 30, .ms = 1.5},
                         {.number = 2, .time_ms = 20, .n_texts = 1, .n_tokens = 5, .ms = 0.5}};
  auto found = changes.look(state, {});
  ASSERT_EQ(found.passes.size(), 1u);
  EXPECT_EQ(passes_json(found.passes[0], {}).dump(),
            R"({"time":0,"model":"e","passes":[[10,2,30,1.5],[20,1,5,0.5]]})");
  EXPECT_TRUE(changes.look(state, {}).passes.empty());
  health.embed_passes = {{.number = 5, .time_ms = 30}, {.number = 6, .time_ms = 40}};
  found = changes.look(state, {});
  ASSERT_EQ(found.passes.size(), 1u);
  EXPECT_EQ(found.passes[0].list.size(), 2u);
  EXPECT_EQ(passes_json(found.passes[0], {})["left_out"], 2);
}

TEST(News, ArePublishedAndModelsThatMakeRoomAreEvictions) {
  using Kind = scheduler::ModelNews::Kind;
  EventFeed feed;
  History history(std::chrono::milliseconds(2000));
  publish_news({.kind = Kind::kUnloading, .name = "m", .makes_room = true, .bytes = 9}, feed,
               history);
  EXPECT_EQ(history.json()["evictions"].size(), 1u) << "the history needs no reader";
  const auto reader = feed.read();
  publish_news({.kind = Kind::kFailed, .name = "m", .detail = "why"}, feed, history);
  publish_news({.kind = Kind::kUnloading, .name = "m", .bytes = 9}, feed, history);
  EXPECT_EQ(history.json()["evictions"].size(), 1u);
  publish_news({.kind = Kind::kUnloading, .name = "m", .makes_room = true, .bytes = 9}, feed,
               history);
  const Json evictions = history.json()["evictions"];
  ASSERT_EQ(evictions.size(), 2u);
  EXPECT_EQ(evictions[1]["class"], "model");
  EXPECT_EQ(evictions[1]["bytes"], 9);
  std::vector<std::string> seen;
  http::SseReader events(1 << 20);
  events.feed(*reader->next({}, std::chrono::milliseconds(0)), [&](const http::SseEvent& event) {
    Json data = Json::parse(event.data);
    data.erase("time");
    seen.push_back(event.event + " " + data.dump());
  });
  EXPECT_EQ(seen, (std::vector<std::string>{
                      R"(model {"model":"m","state":"failed","detail":"why"})",
                      R"(model {"model":"m","state":"unloading"})",
                      R"(eviction {"model":"m","class":"model","bytes":9})",
                      R"(model {"model":"m","state":"unloading","makes_room":true})"}));
}

TEST(History, KeepsTheLatestSamplesInOrder) {
  History history(std::chrono::milliseconds(2000));
  for (uint64_t n = 0; n < History::kMaxSamples + 50; ++n) history.add(Sample{.n_prompt = n});
  const Json samples = history.json()["samples"];
  ASSERT_EQ(samples.size(), History::kMaxSamples);
  for (size_t i = 1; i < samples.size(); ++i)
    EXPECT_EQ(samples[i][5].get<uint64_t>(), samples[i - 1][5].get<uint64_t>() + 1);
}

TEST(History, HasTheMemoryOfEachModel) {
  History history(std::chrono::milliseconds(2000));
  history.add(Sample{.held = {{"a", 5}, {"b", 7}, {"a", 1}}});  // two runners of one name
  const Json sample = history.json()["samples"][0];
  EXPECT_EQ(sample[4], 13);
  EXPECT_EQ(sample[7], (Json{{"a", 6}, {"b", 7}}));
}

TEST(History, KeepsTheLatestEvictionsAndPasses) {
  History history(std::chrono::milliseconds(2000));
  for (uint64_t n = 1; n <= 1000; ++n) {
    history.add(Eviction{.model = "m", .memory_class = "model", .bytes = n});
    history.add(Passes{.model = "e", .list = {{.number = n, .n_tokens = n}}});
  }
  const Json json = history.json();
  ASSERT_EQ(json["evictions"].size(), History::kMaxEvictions);
  EXPECT_EQ(json["evictions"].back()["bytes"], 1000);
  ASSERT_EQ(json["passes"].size(), History::kMaxPasses);
  EXPECT_EQ(json["passes"].back(), (Json{0, 0, 1000, 0.0, "e"}));
}

class WatchingTest : public testing::Test, protected ServerFixture {};

TEST_F(WatchingTest, MemoryAndHistoryHaveRoutes) {
  start();
  ASSERT_EQ(generate().status, 200);
  const Json memory = Json::parse(get("/api/memory").body);
  ASSERT_EQ(memory["models"].size(), 1u);
  EXPECT_EQ(memory["models"][0]["name"], "m:latest");
  EXPECT_EQ(memory["budget_bytes"], uint64_t{1} << 30);
  Json history;
  ASSERT_TRUE(becomes_true([&] {
    history = Json::parse(get("/api/history").body);
    return !history["samples"].empty();
  }));
  EXPECT_EQ(history["interval_ms"], 2000);
  EXPECT_EQ(history["samples"][0].size(), 8u);
  EXPECT_EQ(history["evictions"], Json::array());
  EXPECT_EQ(history["passes"], Json::array());
}

// A client of /api/events, on a connection and a thread of its own.
class Listener {
 public:
  explicit Listener(uint16_t port) : client_({.host = "127.0.0.1", .port = port}) {
    thread_ = std::thread([this] {
      http::Call call;
      call.target = "/api/events";
      http::SseReader reader(1 << 20);
      call.on_body = [&](const Response& head, std::string_view piece) {
        reader.feed(piece, [&](const http::SseEvent& event) {
          const std::scoped_lock lock(mutex_);
          type_ = head.content_type;
          events_.emplace_back(event.event, Json::parse(event.data));
        });
        return true;
      };
      try {
        status_ = client_.send(call).status;
      } catch (const Error&) {
        status_ = -1;  // the server has closed the connection
      }
      has_ended_ = true;
    });
  }
  ~Listener() { thread_.join(); }

  bool has_ended() const { return has_ended_; }
  int status() const { return status_; }
  std::string type() const {
    const std::scoped_lock lock(mutex_);
    return type_;
  }
  // Returns the first event of the type whose data has this field.
  std::optional<Json> find(const std::string& type, const char* field = nullptr,
                           const Json& value = {}) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, data] : events_)
      if (name == type && (field == nullptr || (data.contains(field) && data[field] == value)))
        return data;
    return std::nullopt;
  }
  std::string last() const {
    const std::scoped_lock lock(mutex_);
    return events_.empty() ? "" : events_.back().first;
  }

 private:
  http::Client client_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, Json>> events_;
  std::string type_;
  std::atomic<bool> has_ended_{false};
  std::atomic<int> status_{0};
  std::thread thread_;
};

TEST_F(WatchingTest, EventsShowLoadsRequestsAndMemory) {
  start();
  Listener listener(server_->port());
  ASSERT_TRUE(becomes_true([&] { return listener.find("memory").has_value(); }));
  EXPECT_EQ(listener.type(), "text/event-stream");
  EXPECT_EQ(listener.find("memory")->at("models"), Json::array());
  ASSERT_EQ(generate({{"X-Request-Id", "r-1"}}).status, 200);
  ASSERT_TRUE(becomes_true([&] { return listener.find("request", "state", "ended").has_value(); }));
  const Json begun = *listener.find("request", "state", "begun");
  EXPECT_EQ(begun["id"], "r-1");
  EXPECT_EQ(begun["route"], "/api/generate");
  const Json ended = *listener.find("request", "state", "ended");
  EXPECT_EQ(ended["id"], "r-1");
  EXPECT_EQ(ended["model"], "m:latest");
  EXPECT_EQ(ended["status"], 200);
  for (const char* state : {"loading", "ready"}) {
    ASSERT_TRUE(listener.find("model", "state", state)) << state;
    EXPECT_EQ(listener.find("model", "state", state)->at("model"), "m:latest");
  }
  EXPECT_TRUE(becomes_true([&] { return listener.find("sample").has_value(); }));
  ASSERT_EQ(send(Method::kPost, "/api/generate", R"({"model":"m","keep_alive":0})").status, 200);
  EXPECT_TRUE(
      becomes_true([&] { return listener.find("model", "state", "unloaded").has_value(); }));
  const std::string metrics = get("/metrics").body;
  EXPECT_NE(metrics.find("billow_event_readers 1"), std::string::npos);
  EXPECT_NE(metrics.find("billow_events_missed_total 0"), std::string::npos);
  server_->stop();
}

TEST_F(WatchingTest, EventsEndSoonWhenTheServerDrains) {
  start();
  Listener listener(server_->port());
  ASSERT_TRUE(becomes_true([&] { return listener.find("memory").has_value(); }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(server_->drain(std::chrono::milliseconds(0), std::chrono::seconds(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(becomes_true([&] { return listener.has_ended(); }));
  EXPECT_EQ(listener.status(), 200);
  EXPECT_EQ(listener.last(), "end");
}

TEST_F(WatchingTest, EventsHaveTheAccessRulesOfOtherRoutes) {
  start();
  EXPECT_EQ(send(Method::kGet, "/api/events", "", {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(send(Method::kGet, "/api/events", "", {{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(send(Method::kPost, "/api/events").status, 405);
}

TEST_F(WatchingTest, TooManyReadersAreRefused) {
  start();
  std::vector<std::unique_ptr<Listener>> listeners;
  for (size_t i = 0; i < EventFeed::kMaxReaders; ++i)
    listeners.push_back(std::make_unique<Listener>(server_->port()));
  for (const auto& listener : listeners)
    ASSERT_TRUE(becomes_true([&] { return listener->find("memory").has_value(); }));
  const Response refused = get("/api/events");
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("64 at most"), std::string::npos) << refused.body;
  server_->stop();
  listeners.clear();
}

TEST_F(WatchingTest, ServerInfoHasFieldsOfThePage) {
  Options made = options();
  made.read_only = true;
  start(made);
  const Json info = Json::parse(get("/api/server").body);
  EXPECT_EQ(info["version"], "1.2.3");
  EXPECT_EQ(info["node"], "node-7");
  EXPECT_EQ(info["read_only"], true);
  EXPECT_EQ(info["on_network"], false);
  EXPECT_EQ(info["api_keys"], false);
}

// The Accept field of a browser, which requests HTML.
constexpr const char* kBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

TEST_F(WatchingTest, OnlyBrowsersAreRedirectedToThePage) {
  start();
  for (const char* accepted : {"", "*/*", "application/json", "text/html;q=0"}) {
    const Response response = send(Method::kGet, "/", "", {{"Accept", accepted}});
    EXPECT_EQ(response.status, 200) << accepted;
    EXPECT_EQ(response.body, "Ollama is running") << accepted;
  }
  const Response browser = send(Method::kGet, "/", "", {{"Accept", kBrowser}});
  if (server_->has_web_page()) {
    EXPECT_EQ(browser.status, 302);
    EXPECT_EQ(browser.headers.get("Location"), "ui/");
    EXPECT_EQ(browser.headers.get("Vary"), "Accept");
    const Response page = get("/ui/");
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
    EXPECT_EQ(send(Method::kHead, "/ui/").body, "");
    EXPECT_EQ(
        send(Method::kGet, "/ui/", "", {{"If-None-Match", std::string(page.headers.get("ETag"))}})
            .status,
        304);
  } else {
    EXPECT_EQ(browser.status, 200);
    EXPECT_EQ(get("/ui/").status, 404);
    EXPECT_EQ(get("/ui/").body, "this program was built without its web page\n");
  }
  EXPECT_EQ(get("/ui").status, 308);
  EXPECT_EQ(get("/ui").headers.get("Location"), "ui/");
  EXPECT_EQ(get("/ui/nothing.js").status, 404);
  EXPECT_EQ(get("/ui/assets/..%2Findex.html").status, 404);
  EXPECT_EQ(send(Method::kPost, "/ui/").status, 405);
}

TEST_F(WatchingTest, WebPageCanBeDisabled) {
  Options made = options();
  made.web_page = false;
  start(made);
  EXPECT_EQ(send(Method::kGet, "/", "", {{"Accept", kBrowser}}).body, "Ollama is running");
  EXPECT_EQ(get("/ui/").status, 404);
  EXPECT_EQ(get("/ui").status, 404);
}

}  // namespace
}  // namespace billow::server
