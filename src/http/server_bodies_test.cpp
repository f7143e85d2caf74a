// Tests the memory limit of all bodies: one limit for all connections, and memory is freed early.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <optional>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "http/live_exchange.h"
#include "http/raw_client.h"
#include "http/server.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMiB = 1 << 20;

Route post_route(std::string pattern, Handler handler) {
  return {.methods = {Method::kPost}, .pattern = std::move(pattern), .handler = std::move(handler)};
}

// The body's memory is freed before the client gets its response.
void say_ok(Exchange& exchange) {
  exchange.take_body();
  exchange.respond(text_response(200, "ok"));
}

std::string beginning_of_post(size_t n_bytes) {
  return "POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(n_bytes) + "\r\n\r\n";
}

int status(const std::optional<Response>& response) { return response ? response->status : 0; }

TEST(Bodies, AllConnectionsShareOneLimit) {
  ServerOptions options = local_options();
  options.max_body_bytes = kMiB;
  options.max_bodies_bytes = kMiB + kMiB / 2;
  std::atomic<int> n_refused = 0;
  options.on_unhandled = [&](const UnhandledAnswer& answer) {
    if (answer.status == 503 && answer.route == "/ok") ++n_refused;
    return Headers{{"X-Why", std::string(answer.why)}};
  };
  Server server(options, {post_route("/ok", say_ok)});
  // Four bodies lack their last byte. One of them has room, whichever came first.
  std::list<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    RawClient& client = clients.emplace_back(server.port());
    client.send(beginning_of_post(kMiB) + std::string(kMiB - 1, 'x'));
  }
  EXPECT_TRUE(eventually([&] { return n_refused == 3; }));
  // Small bodies still pass.
  RawClient small(server.port());
  small.send(post("/ok", std::string(10'000, 'x')));
  EXPECT_EQ(status(small.response()), 200);
  std::multiset<int> statuses;
  for (RawClient& client : clients) {
    client.send("x");
    const std::optional<Response> response = client.response();
    statuses.insert(status(response));
    if (status(response) == 503) {
      EXPECT_NE(response->body.find("1572864 bytes that all bodies may use together"),
                std::string::npos);
      EXPECT_EQ(response->headers.get("X-Why"), response->body);
    }
  }
  EXPECT_EQ(statuses, (std::multiset<int>{200, 503, 503, 503}));
  for (int i = 0; i < 3; ++i) {
    small.send(post("/ok", std::string(kMiB, 'x')));
    EXPECT_EQ(status(small.response()), 200) << "all memory is free again";
  }
}

// A handler that has taken and freed the body may run for any time.
TEST(Bodies, MemoryIsFreeOnceTheHandlerHasReleasedIt) {
  ServerOptions options = local_options();
  options.max_body_bytes = options.max_bodies_bytes = kMiB;
  std::binary_semaphore begun(0);
  std::binary_semaphore end(0);
  const auto takes = [&](Exchange& exchange) {
    const size_t n_bytes = exchange.take_body().text.size();
    begun.release();
    end.acquire();
    exchange.respond(text_response(
        200, std::to_string(n_bytes) + " " + std::to_string(exchange.take_body().text.size())));
  };
  const auto keeps = [&](Exchange& exchange) {
    begun.release();
    end.acquire();
    say_ok(exchange);
  };
  Server server(options, {post_route("/takes", takes), post_route("/keeps", keeps),
                          post_route("/ok", say_ok)});
  RawClient client(server.port());
  const auto ask_meanwhile = [&](const char* path) {
    client.send(post(path, std::string(900'000, 'x')));
    begun.acquire();
    RawClient other(server.port());
    other.send(post("/ok", std::string(900'000, 'x')));
    const int answer = status(other.response());
    end.release();
    return answer;
  };
  EXPECT_EQ(ask_meanwhile("/takes"), 200);
  EXPECT_EQ(client.response()->body, "900000 0");
  EXPECT_EQ(ask_meanwhile("/keeps"), 503);
  EXPECT_EQ(status(client.response()), 200);
  // The connection is still open but holds no body memory.
  RawClient other(server.port());
  other.send(post("/ok", std::string(kMiB, 'x')));
  EXPECT_EQ(status(other.response()), 200);
}

TEST(Bodies, StalledBodiesTimeOut) {
  ServerOptions options = local_options();
  options.body_idle_timeout = milliseconds(50);
  Server server(options, {post_route("/ok", say_ok)});
  RawClient client(server.port());
  client.send(beginning_of_post(100) + "x");
  EXPECT_EQ(status(client.response()), 408);
}

// Bytes that arrive just before the timeout must not count as late.
TEST(Bodies, AHandlerWithNewBytesDoesNotWaitForMore) {
  LiveExchange exchange(Request{}, Framing{}, Headers{}, kMiB, [] {});
  const std::jthread handler([&] {
    std::vector<char> buffer(10);
    EXPECT_EQ(exchange.read_body(buffer), 1u);
  });
  EXPECT_TRUE(eventually([&] { return exchange.reading_since().has_value(); }));
  exchange.put_body("x");
  EXPECT_FALSE(exchange.reading_since()) << "the thread may not have noticed the bytes yet";
}

TEST(Bodies, ArriveCompleteInChunksOfAnySize) {
  ServerOptions options = local_options();
  options.max_body_bytes = options.max_bodies_bytes = kMiB;
  const auto count = [](Exchange& exchange) {
    // Frees the memory before the response, because the next body needs it.
    const size_t n_bytes = exchange.take_body().text.size();
    exchange.respond(text_response(200, std::to_string(n_bytes)));
  };
  Server server(options, {post_route("/count", count)});
  for (const size_t n_bytes : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}, kMiB}) {
    RawClient client(server.port());
    client.send("POST /count HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t left = n_bytes; left > 0;) {
      const size_t n = std::min<size_t>(left, 100'000);
      client.send(fmt::format("{:x}\r\n{}\r\n", n, std::string(n, 'x')));
      left -= n;
    }
    client.send("0\r\n\r\n");
    EXPECT_EQ(client.response()->body, std::to_string(n_bytes));
  }
}

}  // namespace
}  // namespace billow::http
