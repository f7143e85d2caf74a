#include "server/server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "base/json.h"
#include "http/client.h"
#include "server/operations.h"
#include "server/sample_server.h"

namespace billow::server {
namespace {

using http::Method;
using http::Response;
using std::chrono::milliseconds;

class ServerTest : public testing::Test, protected ServerFixture {};

TEST_F(ServerTest, EveryResponseHasRequestIdAndNodeName) {
  start();
  const Response own = generate({{"X-Request-Id", "abc.1-2_3"}});
  EXPECT_EQ(own.status, 200) << own.body;
  EXPECT_EQ(own.headers.get("X-Request-Id"), "abc.1-2_3");
  EXPECT_EQ(own.headers.get("X-Billow-Node"), "node-7");
  EXPECT_EQ(get("/api/version").headers.get("X-Request-Id").size(), 32u);
  EXPECT_NE(generate({{"X-Request-Id", "not/an id"}}).headers.get("X-Request-Id"), "not/an id");
}

TEST_F(ServerTest, ErrorsHaveTheFormatOfTheirApi) {
  start();
  EXPECT_EQ(send(Method::kPost, "/api/chat", "{}").body, R"({"error":"model is required"})");
  EXPECT_EQ(Json::parse(send(Method::kPost, "/v1/chat/completions", "{}").body)["error"]["type"],
            "invalid_request_error");
  EXPECT_EQ(get("/nowhere").body, "404 page not found");
  EXPECT_EQ(send(Method::kPost, "/api/tags").status, 405);
}

// Errors can repeat what the client has sent. Traces are kept, so these must stay small.
TEST_F(ServerTest, LongErrorsAreCut) {
  start();
  const std::string body =
      R"({"model":"m","prompt":"hi","keep_alive":"5)" + std::string(1 << 20, 'z') + "\"}";
  const Response refused = send(Method::kPost, "/api/generate", body, {{"X-Request-Id", "long"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_LT(refused.body.size(), 2200u);
  EXPECT_NE(refused.body.find("unknown unit"), std::string::npos) << refused.body;
  Json trace;
  ASSERT_TRUE(becomes_true([&] {
    trace = Json::parse(get("/api/trace/long").body);
    return trace.contains("status");
  }));
  EXPECT_LT(trace.dump().size(), 4000u);
}

TEST_F(ServerTest, TraceShowsPathOfRequest) {
  start();
  generate({{"X-Request-Id", "one"},
            {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  Json trace;
  ASSERT_TRUE(becomes_true([&] {
    trace = Json::parse(get("/api/trace/one").body);
    return trace.contains("status");
  }));
  EXPECT_EQ(trace["model"], "m:latest");
  EXPECT_EQ(trace["route"], "/api/generate");
  EXPECT_EQ(trace["status"], 200);
  EXPECT_NE(trace.dump().find("0af7651916cd43dd8448eb211c80319c"), std::string::npos);
  EXPECT_TRUE(Json::parse(get("/api/trace/one?format=chrome").body).contains("traceEvents"));
  EXPECT_EQ(get("/api/trace/one?format=xml").status, 400);
  EXPECT_EQ(get("/api/trace/two").status, 404);
  const Json list = Json::parse(get("/api/trace").body);
  ASSERT_EQ(list["traces"].size(), 1u) << "only model requests are kept";
  EXPECT_EQ(list["traces"][0]["id"], "one");
}

TEST_F(ServerTest, MetricsCountRequestsAndLoads) {
  start();
  generate();
  send(Method::kPost, "/api/generate", R"({"model":"made up","prompt":"hi"})");
  std::string text;
  ASSERT_TRUE(becomes_true([&] {
    text = get("/metrics").body;
    return text.find("billow_requests_total{") != std::string::npos;
  }));
  EXPECT_NE(text.find("billow_model_loads_total{"), std::string::npos);
  EXPECT_NE(text.find("reason=\"first\""), std::string::npos);
  EXPECT_EQ(text.find("made up"), std::string::npos) << "invented names must not become labels";
  EXPECT_NE(text.find("version=\"1.2.3\""), std::string::npos);
  EXPECT_NE(get("/metrics/load").body.find("billow_requests_running"), std::string::npos);
}

TEST_F(ServerTest, IsReadyAfterPreload) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = true; });
  Options wanted = options();
  wanted.preload = {"m"};
  start(std::move(wanted));
  const Response cold = get("/readyz");
  EXPECT_EQ(cold.status, 503);
  EXPECT_EQ(cold.headers.get("Retry-After"), "1");
  EXPECT_EQ(cold.body, R"({"ready":false,"reasons":["model 'm': being loaded"]})");
  EXPECT_EQ(get("/healthz").status, 200);
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = false; });
  EXPECT_TRUE(becomes_true([&] { return get("/readyz").status == 200; }));
  EXPECT_EQ(runners_.completions().size(), 1u) << "one warm-up request";
}

TEST_F(ServerTest, FailedPreloadKeepsServerNotReady) {
  Options wanted = options();
  wanted.preload = {"nope"};
  start(std::move(wanted));
  EXPECT_TRUE(becomes_true(
      [&] { return get("/readyz").body.find("model 'nope': not found") != std::string::npos; }));
}

TEST_F(ServerTest, PreloadOfAModelThatIsNamedTwiceMayFailOnce) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.n_load_failures = 1; });
  Options wanted = options();
  wanted.preload = {"m", "m"};
  start(std::move(wanted));
  EXPECT_TRUE(becomes_true([&] { return get("/readyz").status == 200; })) << get("/readyz").body;
}

TEST(LoadOf, AddsUpRunnersWithTheSameName) {
  scheduler::SchedulerState state;
  for (const char* key : {"old", "new"}) {
    scheduler::LoadedModel& loaded = state.models.emplace_back();
    loaded.model.key = key;
    loaded.model.name = "m:latest";
    loaded.model.held_bytes = 5;
  }
  const metrics::Load load = load_of(state);
  ASSERT_EQ(load.models.size(), 1u);
  EXPECT_EQ(load.models[0].held_bytes, 10u);
}

TEST_F(ServerTest, ReportsReadinessPerModel) {
  start();
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/readyz?model=m").status, 503);
  EXPECT_EQ(get("/readyz?model=m&loadable=1").status, 200);
  EXPECT_EQ(get("/readyz?model=nope&loadable=1").status, 503);
  generate();
  EXPECT_EQ(get("/readyz?model=m").status, 200);
  models_.facts.memory.weight_bytes = uint64_t{1} << 40;
  models_.add({.name = "big", .go = api::kLines, .max_context = 4096});
  EXPECT_NE(get("/readyz?model=big&loadable=1").body.find("requires more system memory"),
            std::string::npos);
}

TEST_F(ServerTest, RejectsWritesToReadOnlyStore) {
  Options wanted = options();
  wanted.read_only = true;
  start(std::move(wanted));
  EXPECT_EQ(send(Method::kDelete, "/api/delete", R"({"model":"m"})").status, 403);
  EXPECT_EQ(send(Method::kPost, "/api/copy", R"({"source":"m","destination":"n"})").status, 403);
  EXPECT_EQ(send(Method::kPost, "/api/create", R"({"model":"n","from":"m"})").status, 403);
  EXPECT_EQ(generate().status, 200);
}

TEST_F(ServerTest, DrainsRunningAndRejectsNewRequests) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_answers = true; });
  start();
  std::optional<Response> answer;
  std::thread running([&] {
    http::Client other({.host = "127.0.0.1", .port = server_->port()});
    http::Call call;
    call.method = Method::kPost;
    call.target = "/api/generate";
    call.body = R"({"model":"m","prompt":"hi","stream":false})";
    answer = other.send(call);
  });
  ASSERT_TRUE(becomes_true([&] { return runners_.n_running() == 1; }));
  bool drained = false;
  // The server accepts requests for some more seconds. Then it waits for running requests.
  constexpr milliseconds kDelay(6000);
  const auto begun = std::chrono::steady_clock::now();
  std::thread draining([&] { drained = server_->drain(kDelay, milliseconds(60000)); });
  EXPECT_TRUE(becomes_true([&] { return !server_->not_ready().empty(); }));
  const auto status_of = [&](const char* target) {
    try {
      return get(target).status;
    } catch (const Error&) {  // the server accepts no connection
      return 0;
    }
  };
  const int ready = status_of("/readyz");
  const int tags = status_of("/api/tags");
  // On a busy machine, the delay can end before the responses.
  if (std::chrono::steady_clock::now() - begun < kDelay) {
    EXPECT_EQ(ready, 503);
    EXPECT_EQ(tags, 200) << "the delay has not ended";
    EXPECT_TRUE(becomes_true([&] { return status_of("/api/tags") == 503; }));
  }
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_answers = false; });
  running.join();
  draining.join();
  EXPECT_TRUE(drained);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(runners_.n_alive(), 0u);
}

TEST_F(ServerTest, StopsDuringAnyWork) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = true; });
  Options wanted = options();
  wanted.preload = {"m"};
  start(std::move(wanted));
  std::vector<std::thread> asking;
  for (int i = 0; i < 8; ++i) {
    asking.emplace_back([port = server_->port()] {
      http::Client other({.host = "127.0.0.1", .port = port});
      http::Call call;
      call.method = Method::kPost;
      call.target = "/api/generate";
      call.body = R"({"model":"m","prompt":"hi"})";
      try {
        other.send(call);
      } catch (const Error&) {  // the connection is closed
      }
    });
  }
  ASSERT_TRUE(becomes_true([&] { return runners_.n_alive() == 1; }));
  server_->stop();
  for (std::thread& thread : asking) thread.join();
  server_.reset();
  EXPECT_EQ(runners_.n_alive(), 0u);
}

// Signals can arrive in any order: every order of drain and stop ends the same way.
TEST_F(ServerTest, ManyThreadsMayDrainAndStop) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = true; });
  for (int round = 0; round < 5; ++round) {
    Options wanted = options();
    wanted.preload = {"m"};
    start(std::move(wanted));
    std::vector<std::jthread> ending;
    for (int i = 0; i < 3; ++i) {
      ending.emplace_back([&] { server_->drain(milliseconds(0), milliseconds(20)); });
      ending.emplace_back([&] { server_->stop(); });
    }
    ending.clear();
    server_.reset();
    EXPECT_EQ(runners_.n_alive(), 0u);
  }
}

// A repeated id is used in the second response, but the first request keeps its trace.
TEST_F(ServerTest, RepeatedIdKeepsTheFirstTrace) {
  start();
  generate({{"X-Request-Id", "one"}});
  const Json first = Json::parse(get("/api/trace/one").body);
  const Response second = send(Method::kPost, "/api/chat", R"({"model":"nope","messages":[]})",
                               {{"X-Request-Id", "one"}});
  EXPECT_EQ(second.headers.get("X-Request-Id"), "one");
  EXPECT_EQ(Json::parse(get("/api/trace/one").body)["began_at"], first["began_at"]);
  const Json list = Json::parse(get("/api/trace").body)["traces"];
  ASSERT_EQ(list.size(), 2u);
  const std::string name = list[0]["id"];
  EXPECT_TRUE(name.starts_with("one~")) << name;
  EXPECT_EQ(Json::parse(get("/api/trace/" + name).body)["route"], "/api/chat");
}

}  // namespace
}  // namespace billow::server
