#include "server/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <thread>

#include "base/json.h"
#include "base/test_folder.h"
#include "http/raw_client.h"
#include "server/sample_server.h"
#include "store/digest.h"

namespace billow::server {
namespace {

using http::Method;
using http::Response;

TEST(RouteAccess, EachPatternHasOneRow) {
  std::set<std::string_view> patterns;
  for (const RouteAccess& row : route_accesses())
    EXPECT_TRUE(patterns.insert(row.pattern).second) << row.pattern;
  EXPECT_EQ(access_of("/healthz").role, std::nullopt);
  EXPECT_EQ(access_of("/api/chat").role, keys::Role::kUse);
  EXPECT_EQ(access_of("/not/in/the/table").role, keys::Role::kManage);
}

TEST(KeyOf, TakesBearerTokensAndApiKeys) {
  EXPECT_EQ(key_of({{"Authorization", "Bearer abc"}}), "abc");
  EXPECT_EQ(key_of({{"authorization", "bearer   abc "}}), "abc");
  EXPECT_EQ(key_of({{"X-Api-Key", "abc"}}), "abc");
  EXPECT_EQ(key_of({{"Authorization", "Basic abc"}, {"x-api-key", "def"}}), "def");
  EXPECT_EQ(key_of({{"Authorization", "Bearer abc"}, {"x-api-key", "def"}}), "abc");
  EXPECT_EQ(key_of({{"Authorization", "Bearer "}}), "");
  EXPECT_EQ(key_of({}), "");
}

class GateTest : public testing::Test, protected ServerFixture {
 protected:
  static std::string table(const std::string& name, const std::string& rest = "") {
    return "[[key]]\nname = \"" + name + "\"\nsha256 = \"" +
           store::digest_of("key-of-" + name).hex() + "\"\n" + rest;
  }
  void write(const std::string& text) {
    write_test_file(path_ + ".new", text);
    std::filesystem::rename(path_ + ".new", path_);
  }
  void start_with(const std::string& text) {
    write(text);
    Options wanted = options();
    wanted.api_keys = path_;
    start(std::move(wanted));
  }
  static http::Headers as(const std::string& name) {
    return {{"Authorization", "Bearer key-of-" + name}};
  }
  Response get_as(const std::string& name, const std::string& target) {
    return send(Method::kGet, target, "", as(name));
  }

  const TestFolder folder_;
  const std::string path_ = folder_.path() + "/keys.toml";
};

TEST_F(GateTest, EveryRouteHasARowAndEveryRowARoute) {
  Options wanted = options();
  wanted.web_page = true;
  start(std::move(wanted));
  std::set<std::string> routes;
  for (const std::string& pattern : server_->routes()) routes.insert(pattern);
  std::set<std::string> rows;
  for (const RouteAccess& row : route_accesses()) rows.insert(std::string(row.pattern));
  EXPECT_EQ(rows, routes);
}

TEST_F(GateTest, RequestsNeedAKey) {
  start_with(table("ann"));
  const Response none = get("/api/tags");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.headers.get("WWW-Authenticate"), "Bearer realm=\"billow\"");
  EXPECT_NE(none.body.find("needs an API key"), std::string::npos) << none.body;
  EXPECT_EQ(get_as("bob", "/api/tags").status, 401);
  EXPECT_EQ(get_as("ann", "/api/tags").status, 200);
  EXPECT_EQ(send(Method::kGet, "/api/tags", "", {{"x-api-key", "key-of-ann"}}).status, 200);
  EXPECT_EQ(generate(as("ann")).status, 200);
  for (const char* open : {"/", "/healthz", "/readyz", "/health"})
    EXPECT_EQ(get(open).status, 200) << open;
  EXPECT_EQ(get("/nowhere").status, 404);
}

TEST_F(GateTest, RefusesBeforeTheBodyIsRead) {
  start_with(table("ann"));
  http::RawClient client(server_->port());
  client.send("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n");
  EXPECT_EQ(client.response()->status, 401);
}

TEST_F(GateTest, RoutesNeedARole) {
  start_with(table("ann") + table("op", "roles = [\"observe\"]\n") +
             table("boss", "roles = [\"manage\", \"use\"]\n"));
  const Response refused = get_as("ann", "/metrics");
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("the API key 'ann' lacks the role 'observe'"), std::string::npos)
      << refused.body;
  EXPECT_EQ(get_as("op", "/metrics").status, 200);
  EXPECT_EQ(get_as("op", "/api/tags").status, 403);
  EXPECT_EQ(generate(as("op")).status, 403);
  const std::string gone = R"({"model":"m"})";
  EXPECT_EQ(send(Method::kDelete, "/api/delete", gone, as("ann")).status, 403);
  EXPECT_EQ(send(Method::kDelete, "/api/delete", gone, as("boss")).status, 200);
}

TEST_F(GateTest, ErrorsHaveTheFormatOfTheirApi) {
  start_with(table("ann"));
  const auto error = [&](const char* path) {
    return Json::parse(send(Method::kPost, path, "{}").body);
  };
  EXPECT_TRUE(error("/api/chat")["error"].is_string());
  EXPECT_EQ(error("/v1/chat/completions")["error"]["type"], "api_error");  // as in Ollama
  EXPECT_EQ(error("/v1/messages")["error"]["type"], "authentication_error");
  EXPECT_EQ(error("/completion")["error"]["type"], "authentication_error");
  EXPECT_EQ(error("/rerank")["error_type"], "Validation");
}

TEST_F(GateTest, MetricsAndTracesNameTheKey) {
  start_with(table("ann", "roles = [\"use\", \"observe\"]\n"));
  get("/api/tags");
  get_as("bob", "/api/tags");
  send(Method::kDelete, "/api/delete", "{}", as("ann"));
  http::Headers headers = as("ann");
  headers.add("X-Request-Id", "one");
  generate(headers);
  std::string text;
  ASSERT_TRUE(becomes_true([&] {
    text = get_as("ann", "/metrics").body;
    return text.find("billow_key_tokens_total{key=\"ann\",kind=\"generated\"} 0") ==
           std::string::npos;
  }));
  for (const char* line : {"billow_key_refused_total{key=\"\",reason=\"no_key\"} 1",
                           "billow_key_refused_total{key=\"\",reason=\"unknown_key\"} 1",
                           "billow_key_refused_total{key=\"ann\",reason=\"role\"} 1",
                           "billow_key_file_failures_total 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(text.find("key-of-"), std::string::npos);
  EXPECT_EQ(Json::parse(get_as("ann", "/api/trace/one").body)["key"], "ann");
}

TEST_F(GateTest, FileIsReadAgainWhenItChanges) {
  start_with(table("ann"));
  write(table("bob"));
  EXPECT_TRUE(becomes_true([&] { return get_as("bob", "/api/tags").status == 200; }));
  EXPECT_EQ(get_as("ann", "/api/tags").status, 401);
}

TEST_F(GateTest, KeyThatIsRevokedDuringTheBodyIsRefused) {
  const std::string op = table("op", "roles = [\"observe\"]\n");
  start_with(table("ann") + op);
  const std::string body = R"({"model":"m","prompt":"hi","stream":false})";
  http::RawClient client(server_->port());
  client.send(
      "POST /api/generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-ann\r\n"
      "Expect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  client.receive_until("\r\n\r\n");  // the key was accepted
  write(op);
  // The last of these requests is a refused one, too.
  ASSERT_TRUE(becomes_true([&] { return get_as("ann", "/api/tags").status == 401; }));
  client.send(body);
  const std::optional<Response> refused = client.response();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(refused->headers.get("WWW-Authenticate"), "Bearer realm=\"billow\"");
  const std::string text = get_as("op", "/metrics").body;
  EXPECT_NE(text.find("billow_key_refused_total{key=\"\",reason=\"unknown_key\"} 2"),
            std::string::npos)
      << text;
}

TEST_F(GateTest, KeyPaysForAnAnswerThatItsRunnerDidNotEnd) {
  runners_.change(key(), [](scheduler::FakeScript& script) {
    script.n_deaths = 1;
    script.dies_after = 1;
  });
  start_with(table("ann", "roles = [\"use\", \"observe\"]\n"));
  const Response broken =
      send(Method::kPost, "/api/generate", R"({"model":"m","prompt":"hi"})", as("ann"));
  EXPECT_NE(broken.body.find("Hello"), std::string::npos) << broken.body;
  EXPECT_NE(broken.body.find("\"error\""), std::string::npos) << broken.body;
  const auto has = [&](const std::string& line) {
    return get_as("ann", "/metrics").body.find(line + "\n") != std::string::npos;
  };
  const std::string first =
      "billow_time_to_first_token_seconds_count{model=\"m:latest\",route=\"/api/generate\"} 1";
  EXPECT_TRUE(becomes_true(
      [&] { return has("billow_key_tokens_total{key=\"ann\",kind=\"generated\"} 1"); }));
  EXPECT_FALSE(has("billow_key_tokens_total{key=\"ann\",kind=\"evaluated\"} 0"));
  EXPECT_TRUE(has("billow_generated_tokens_total{model=\"m:latest\"} 1"));
  EXPECT_TRUE(has(first));
}

TEST_F(GateTest, LimitsRequestsAtTheSameTime) {
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = true; });
  start_with(table("ann", "max_requests = 1\n") + table("op", "roles = [\"observe\"]\n"));
  std::jthread first([&] {
    http::Client client({.host = "127.0.0.1", .port = server_->port()});
    http::Call call{.method = Method::kPost, .target = "/api/generate"};
    call.headers = as("ann");
    call.body = R"({"model":"m","prompt":"hi","stream":false})";
    EXPECT_EQ(client.send(call).status, 200);
  });
  ASSERT_TRUE(becomes_true([&] {
    return get_as("op", "/metrics").body.find("billow_key_requests_running{key=\"ann\"} 1") !=
           std::string::npos;
  }));
  const Response refused = generate(as("ann"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.get("Retry-After"), "1");
  EXPECT_EQ(get_as("ann", "/api/tags").status, 200) << "a list is not limited";
  runners_.change(key(), [](scheduler::FakeScript& script) { script.holds_load = false; });
  first.join();
  EXPECT_TRUE(becomes_true([&] { return generate(as("ann")).status == 200; }));
}

TEST_F(GateTest, LimitsTokensPerMinute) {
  start_with(table("ann", "tokens_per_minute = 1\n"));
  EXPECT_EQ(generate(as("ann")).status, 200);
  Response refused;
  ASSERT_TRUE(becomes_true([&] {
    refused = generate(as("ann"));
    return refused.status == 429;
  }));
  EXPECT_GE(std::stoi(std::string(refused.headers.get("Retry-After"))), 1);
  EXPECT_NE(refused.body.find("1 tokens per minute"), std::string::npos) << refused.body;
}

TEST_F(GateTest, MissingFileIsAnErrorAtTheStart) {
  Options wanted = options();
  wanted.api_keys = path_;
  EXPECT_ANY_THROW(start(wanted));
}

}  // namespace
}  // namespace billow::server
