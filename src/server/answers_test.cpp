// Every response of the server is counted once and logged in one line, whichever layer produced it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "http/raw_client.h"
#include "server/sample_server.h"

namespace billow::server {
namespace {

using http::get;
using http::post;
using http::RawClient;
using std::chrono::milliseconds;

constexpr const char* kNone = "none";

using MaybeAnswer = std::optional<http::Response>;

struct Case {
  const char* name;
  int status;
  const char* route;
  std::function<void(Options&)> configure = [](Options&) {};
  // Sends one request and returns the response, if there is one. Further requests must go to
  // /healthz.
  std::function<MaybeAnswer(ServerFixture& server, uint16_t port)> ask{};
};

// Sends the bytes and waits for the response or the end of the connection.
std::function<MaybeAnswer(ServerFixture&, uint16_t)> sent(std::string bytes) {
  return [bytes](ServerFixture&, uint16_t port) {
    RawClient client(port);
    client.send(bytes);
    return client.response();
  };
}

std::function<MaybeAnswer(ServerFixture&, uint16_t)> sent_and_reset(std::string bytes) {
  return [bytes](ServerFixture&, uint16_t port) {
    RawClient other(port);
    RawClient client(port);
    client.send(bytes);
    // The server serves connections in turn. A response to a later request proves that the server
    // read the bytes.
    for (int i = 0; i < 20; ++i) {
      other.send(get("/healthz"));
      other.response();
    }
    client.reset();
    return std::nullopt;
  };
}

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

// Disconnects after the first words of a streamed answer.
std::function<MaybeAnswer(ServerFixture&, uint16_t)> left(std::string path,
                                                          const std::string& fields) {
  const std::string body = R"({"model":"m","stream":true,)" + fields + "}";
  return [path = std::move(path), body](ServerFixture& server, uint16_t port) {
    server.runners_.change(server.key(),
                           [](scheduler::FakeScript& script) { script.holds_after = 1; });
    RawClient client(port);
    client.send(post(path, body));
    client.receive_until("Hello");
    client.reset();
    return MaybeAnswer();
  };
}

std::string chunked(const std::string& chunks) {
  return "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
         chunks;
}

std::string of_length(size_t n_bytes, const std::string& body) {
  return "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(n_bytes) + "\r\n\r\n" + body;
}

std::vector<Case> cases() {
  const auto small_body = [](Options& options) { options.max_body_bytes = 1000; };
  const auto quick_body = [](Options& options) { options.body_timeout = milliseconds(20); };
  const auto quick_header = [](Options& options) { options.header_timeout = milliseconds(20); };
  const auto small_bodies = [](Options& options) { options.max_bodies_bytes = 100 << 10; };
  const auto read_only = [](Options& options) { options.read_only = true; };
  const std::string foreign = "GET /api/tags HTTP/1.1\r\nHost: evil.example\r\n\r\n";
  return {
      {"no request", 400, kNone, {}, sent("GET\r\n\r\n")},
      {"malformed target", 400, kNone, {}, sent(get("/%zz"))},
      {"malformed host", 400, kNone, {}, sent("GET / HTTP/1.1\r\nHost: [::1]evil.com\r\n\r\n")},
      {"no host", 400, kNone, {}, sent("GET / HTTP/1.1\r\n\r\n")},
      {"bare newline", 400, "/api/chat", {}, sent(chunked("3\nabc\n0\n\n"))},
      {"bad chunk", 400, "/api/chat", {}, sent(chunked("zz\r\n"))},
      {"half a header",
       400,
       kNone,
       {},
       [](ServerFixture&, uint16_t port) {
         RawClient client(port);
         client.send("GET / HTTP");
         client.half_close();
         return client.response();
       }},
      {"half a body",
       400,
       "/api/chat",
       {},
       [](ServerFixture&, uint16_t port) {
         RawClient client(port);
         client.send(of_length(100, "{"));
         client.half_close();
         return client.response();
       }},
      {"foreign host", 403, "/api/tags", {}, sent(foreign)},
      {"foreign page",
       403,
       "/api/tags",
       {},
       sent(get("/api/tags", "Origin: http://evil.example\r\n"))},
      {"store is read-only", 403, "/api/copy", read_only, sent(post("/api/copy", "{}"))},
      {"no such route", 404, kNone, {}, sent(get("/nowhere"))},
      {"a path with a line end", 404, kNone, {}, sent(get("/no%0a200%20GET%20/x%200.1%20ms"))},
      {"no such model", 404, "/api/show", {}, sent(post("/api/show", R"({"model":"nope"})"))},
      {"wrong method", 405, kNone, {}, sent(get("/api/chat"))},
      {"slow header", 408, kNone, quick_header, sent("GET / HTTP/1.1\r\n")},
      {"slow body", 408, "/api/chat", quick_body, sent(of_length(100, "{"))},
      {"long body", 413, "/api/chat", small_body, sent(of_length(2000, ""))},
      {"long chunks", 413, "/api/chat", small_body,
       sent(chunked("7d0\r\n" + std::string(2000, ' ') + "\r\n"))},
      {"long header", 431, kNone, {}, sent(get("/", "X: " + std::string(100'000, 'x') + "\r\n"))},
      {"redirect", 307, kNone, {}, sent(post("/api/chat/", ""))},
      {"preflight",
       204,
       kNone,
       {},
       sent("OPTIONS /api/chat HTTP/1.1\r\nHost: localhost\r\nOrigin: "
            "http://localhost:3000\r\n\r\n")},
      {"bad JSON", 400, "/api/chat", {}, sent(post("/api/chat", "{"))},
      {"success", 200, "/api/tags", {}, sent(get("/api/tags"))},
      {"no room for bodies", 503, "/api/chat", small_bodies,
       sent(post("/api/chat", std::string(200 << 10, ' ')))},
      {"too many connections", 503, kNone, [](Options& options) { options.max_connections = 2; },
       [](ServerFixture&, uint16_t port) {
         // The second connection is the fixture's client.
         RawClient first(port);
         first.send(get("/healthz"));
         first.response();
         RawClient second(port);
         return second.response();
       }},
      {"left in the header", 499, kNone, {}, sent_and_reset("GET / HTTP/1.1\r\n")},
      {"left in the body", 499, "/api/chat", {}, sent_and_reset(of_length(100, "{"))},
      {"left in the answer", 499, "/api/generate", {}, left("/api/generate", R"("prompt":"hi")")},
      {"left in a chat", 499, "/api/chat", {}, left("/api/chat", kMessages)},
      {"left in OpenAI's chat",
       499,
       "/v1/chat/completions",
       {},
       left("/v1/chat/completions", kMessages)},
      {"left in a completion",
       499,
       "/v1/completions",
       {},
       left("/v1/completions", R"("prompt":"hi")")},
      {"left in a response", 499, "/v1/responses", {}, left("/v1/responses", R"("input":"hi")")},
      {"left in Anthropic's message",
       499,
       "/v1/messages",
       {},
       left("/v1/messages", std::string(kMessages) + R"(,"max_tokens":9)")},
  };
}

// Parses the request counts by code and route. Skips the test's own requests.
std::map<std::string, int> counts(const std::string& metrics) {
  std::map<std::string, int> counts;
  const std::regex sample(
      R"re(billow_requests_total\{code="(\d+)",model="[^"]*",route="([^"]*)"\} (\d+))re");
  for (auto at = std::sregex_iterator(metrics.begin(), metrics.end(), sample);
       at != std::sregex_iterator(); ++at) {
    const std::string route = (*at)[2];
    if (route != "/metrics" && route != "/healthz")
      counts[(*at)[1].str() + " " + route] += std::stoi((*at)[3]);
  }
  return counts;
}

// Returns the log lines of responses. Skips the test's own requests.
std::vector<std::string> answers_in(const std::string& log) {
  const std::regex answer(R"(: (\d{3}) (\S+) (\S+) [\d.]+ ms.*)");
  std::vector<std::string> lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    std::smatch found;
    if (std::regex_search(line, found, answer) && found[3] != "/metrics" && found[3] != "/healthz")
      lines.push_back(line);
  }
  return lines;
}

void show_all_lines() {
  ::unsetenv("BILLOW_LOG");
  log::show_info();
}

TEST(Answers, AreCountedAndLoggedOnceWithAnId) {
  show_all_lines();
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    ServerFixture server;
    Options options = server.options();
    if (one.configure) one.configure(options);
    server.start(std::move(options));
    const auto now = [&] { return counts(server.get("/metrics").body); };
    ASSERT_EQ(now().size(), 0u);
    testing::internal::CaptureStderr();
    const MaybeAnswer answer = one.ask(server, server.server_->port());
    const std::map<std::string, int> wanted{{std::to_string(one.status) + " " + one.route, 1}};
    const bool is_there = server.becomes_true([&] { return !now().empty(); });
    const std::map<std::string, int> found = now();
    server.server_->stop();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(is_there);
    EXPECT_EQ(found, wanted);
    EXPECT_EQ(log.find("failed after the head"), log.npos) << log;
    ASSERT_EQ(answer.has_value(), one.status != 499);
    const std::vector<std::string> lines = answers_in(log);
    ASSERT_EQ(lines.size(), 1u) << log;
    EXPECT_NE(lines[0].find(": " + std::to_string(one.status) + " "), std::string::npos) << log;
    if (answer) {
      const std::string id(answer->headers.get("X-Request-Id"));
      EXPECT_EQ(id.size(), 32u);
      EXPECT_NE(lines[0].find(" id=" + id), std::string::npos) << log;
      EXPECT_EQ(answer->headers.get("X-Billow-Node"), "node-7");
    }
    if (one.status >= 400 && one.status != 404 && one.status != 405) {
      EXPECT_TRUE(std::regex_search(lines[0], std::regex(R"( ms.*: \S)"))) << "why: " << lines[0];
    }
  }
}

// Requests that still run at the end of the drain get 503, if their response has not begun.
TEST(Answers, OfCancelledRequestsAreErrors) {
  const std::string ollama = R"({"error":"the server is shutting down"})";
  const std::string message = R"("message":"the server is shutting down")";
  struct Asked {
    const char* path;
    const char* body;
    const std::string& text;
  };
  const std::vector<Asked> cases = {
      {"/api/generate", R"({"model":"m","prompt":"hi","stream":false})", ollama},
      {"/api/generate", R"({"model":"m","prompt":"hi"})", ollama},
      {"/v1/completions", R"({"model":"m","prompt":"hi"})", message},
      {"/v1/messages",
       R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})", message}};
  for (const Asked& one : cases) {
    ServerFixture server;
    server.runners_.change(server.key(),
                           [](scheduler::FakeScript& script) { script.holds_answers = true; });
    server.start();
    RawClient running(server.server_->port());
    running.send(post(one.path, one.body));
    ASSERT_TRUE(server.becomes_true([&] { return server.runners_.n_running() == 1; }));
    EXPECT_FALSE(server.server_->drain(milliseconds(0), milliseconds(10)));
    const std::optional<http::Response> answer = running.response();
    ASSERT_TRUE(answer) << one.path;
    EXPECT_EQ(answer->status, 503) << one.path;
    EXPECT_NE(answer->body.find(one.text), std::string::npos) << answer->body;
    EXPECT_EQ(answer->headers.get("Retry-After"), "1") << one.path;
  }
}

// While the server drains, no client can read the metrics. Only the log shows this response.
TEST(Answers, OfADrainingServerAreLogged) {
  show_all_lines();
  ServerFixture server;
  server.runners_.change(server.key(),
                         [](scheduler::FakeScript& script) { script.holds_answers = true; });
  server.start();
  RawClient running(server.server_->port());
  running.send(post("/api/generate", R"({"model":"m","prompt":"hi","stream":false})"));
  ASSERT_TRUE(server.becomes_true([&] { return server.runners_.n_running() == 1; }));
  RawClient other(server.server_->port());
  ASSERT_TRUE(other.send(get("/api/tags")));  // its response proves that the connection is accepted
  ASSERT_TRUE(other.response());
  testing::internal::CaptureStderr();
  std::jthread draining([&] { server.server_->drain(milliseconds(0), milliseconds(60'000)); });
  int status = 200;
  while (status == 200 && other.send(get("/api/tags"))) {
    const std::optional<http::Response> answer = other.response();
    status = answer ? answer->status : 0;
  }
  server.runners_.change(server.key(),
                         [](scheduler::FakeScript& script) { script.holds_answers = false; });
  draining.join();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 503);
  size_t n_refused = 0;
  for (const std::string& line : answers_in(log))
    n_refused += line.find(": 503 GET /api/tags ") != std::string::npos ? 1 : 0;
  EXPECT_EQ(n_refused, 1u) << log;
}

TEST(Answers, ErrorsOfModelsHaveTheFormOfTheClientsApi) {
  ServerFixture server;
  server.start();
  const auto answer = [&](const std::string& fields) {
    RawClient client(server.server_->port());
    client.send("GET /v1/models/none HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
    http::Response got = *client.response();
    EXPECT_EQ(got.status, 404);
    return got;
  };
  const http::Response theirs = answer("anthropic-version: 2023-06-01\r\n");
  const Json error = Json::parse(theirs.body);
  EXPECT_EQ(error.at("error").at("type"), "not_found_error");
  EXPECT_EQ(error.at("request_id"), std::string(theirs.headers.get("request-id")));
  const http::Response openais = answer("");
  EXPECT_TRUE(Json::parse(openais.body).at("error").contains("param"));
  EXPECT_EQ(openais.headers.find("request-id"), nullptr);
}

TEST(Answers, ExplainForbiddenAccess) {
  ServerFixture server;
  server.start();
  const auto why = [&](const char* path, const std::string& fields) {
    RawClient client(server.server_->port());
    client.send("GET " + std::string(path) + " HTTP/1.1\r\n" + fields + "\r\n");
    const http::Response answer = *client.response();
    EXPECT_EQ(answer.status, 403);
    return Json::parse(answer.body)["error"];
  };
  const std::string host = "Host: evil.example\r\n";
  const std::string origin = "Host: localhost\r\nOrigin: http://evil.example\r\n";
  EXPECT_NE(why("/api/tags", host).get<std::string>().find("evil.example"), std::string::npos);
  EXPECT_NE(why("/api/tags", origin).get<std::string>().find("--origins"), std::string::npos);
  EXPECT_NE(why("/v1/models", origin)["message"].get<std::string>().find("--origins"),
            std::string::npos);
}

}  // namespace
}  // namespace billow::server
