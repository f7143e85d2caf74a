#include "server/watching.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/json.h"
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
}

TEST(History, KeepsTheLatestSamplesInOrder) {
  std::atomic<uint64_t> n = 0;
  History history(std::chrono::milliseconds(0), [&] { return Sample{.n_prompt = ++n}; });
  while (n < History::kMaxSamples + 50) std::this_thread::yield();
  const Json samples = history.json()["samples"];
  ASSERT_EQ(samples.size(), History::kMaxSamples);
  for (size_t i = 1; i < samples.size(); ++i)
    EXPECT_EQ(samples[i][5].get<uint64_t>(), samples[i - 1][5].get<uint64_t>() + 1);
}

class WatchingTest : public testing::Test, protected ServerFixture {};

TEST_F(WatchingTest, MemoryAndHistoryHaveRoutes) {
  start();
  ASSERT_EQ(generate().status, 200);
  const Json memory = Json::parse(get("/api/memory").body);
  ASSERT_EQ(memory["models"].size(), 1u);
  EXPECT_EQ(memory["models"][0]["name"], "m:latest");
  EXPECT_EQ(memory["budget_bytes"], uint64_t{1} << 30);
  const Json history = Json::parse(get("/api/history").body);
  EXPECT_EQ(history["interval_ms"], 2000);
  ASSERT_FALSE(history["samples"].empty());
  EXPECT_EQ(history["samples"][0].size(), 7u);
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
