// Tests the server's streams and uploads, and clients that disconnect or read slowly.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/raw_client.h"
#include "http/server.h"
#include "http/status.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

class Event {
 public:
  void set() {
    {
      const std::lock_guard lock(mutex_);
      is_set_ = true;
    }
    changed_.notify_all();
  }
  bool wait(milliseconds timeout = RawClient::kTimeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

Route get_route(std::string pattern, Handler handler) {
  return {.methods = {Method::kGet, Method::kHead},
          .pattern = std::move(pattern),
          .handler = std::move(handler)};
}

Route upload_route(Handler handler) {
  return {.methods = {Method::kPost},
          .pattern = "/upload",
          .handler = std::move(handler),
          .streams_body = true};
}

// Answers with the number of received body bytes.
void count_body(Exchange& exchange) {
  std::vector<char> buffer(10'000);
  size_t n_bytes = 0;
  while (const size_t n = exchange.read_body(buffer)) n_bytes += n;
  exchange.respond(text_response(200, std::to_string(n_bytes)));
}

TEST(Stream, ArrivesChunkByChunk) {
  Event go_on;
  Server server(local_options(), {get_route("/stream", [&](Exchange& exchange) {
                  exchange.begin_stream(200, "application/x-ndjson", {{"X-A", "b"}});
                  exchange.write("{\"n\":1}\n");
                  exchange.write("");
                  go_on.wait();
                  exchange.write("{\"n\":2}\n");
                  exchange.finish();
                })});
  RawClient client(server.port());
  client.send(get("/stream"));
  const std::string head = client.receive_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Type: application/x-ndjson\r\n"), std::string::npos);
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(head.find("X-A: b\r\n"), std::string::npos);
  EXPECT_EQ(client.receive_until("}\n\r\n"), "8\r\n{\"n\":1}\n\r\n");
  go_on.set();
  EXPECT_EQ(client.receive_until("0\r\n\r\n"), "8\r\n{\"n\":2}\n\r\n0\r\n\r\n");
  client.send("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n" + get("/nothing"));
  EXPECT_EQ(client.response(true)->status, 200);
  EXPECT_EQ(client.response()->status, 404);
}

TEST(Stream, EndsWithItsHandler) {
  Server server(local_options(), {get_route("/stream", [](Exchange& exchange) {
                  exchange.begin_stream(201, "text/event-stream", {{"Connection", "keep-alive"}});
                  exchange.write("data: x\n\n");
                })});
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send(get("/stream"));
    const auto response = client.response();
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, "data: x\n\n");
    EXPECT_EQ(response->headers.get("Connection"), "keep-alive");
  }
  RawClient old(server.port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.receive_all().ends_with("\r\n\r\ndata: x\n\n"));
}

TEST(Gone, NotifiesWaitingHandlersPromptly) {
  for (const bool is_reset : {false, true}) {
    Event began;
    Event gone;
    Event returned;
    std::atomic<int> n_calls{0};
    Server server(local_options(), {get_route("/wait", [&](Exchange& exchange) {
                    exchange.on_client_gone([&] {
                      ++n_calls;
                      gone.set();
                    });
                    EXPECT_FALSE(exchange.client_gone());
                    began.set();
                    gone.wait();
                    EXPECT_TRUE(exchange.client_gone());
                    EXPECT_FALSE(exchange.begin_stream(200, "text/plain"));
                    EXPECT_FALSE(exchange.write("x"));
                    returned.set();
                  })});
    RawClient client(server.port());
    client.send(get("/wait"));
    ASSERT_TRUE(began.wait());
    if (is_reset) {
      client.reset();
    } else {
      client.close();
    }
    ASSERT_TRUE(gone.wait());
    EXPECT_TRUE(returned.wait());
    EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
    EXPECT_EQ(n_calls, 1);
  }
}

TEST(Gone, CallsACallbackThatIsSetLate) {
  Event began;
  Event notified;
  Server server(local_options(), {get_route("/wait", [&](Exchange& exchange) {
                  began.set();
                  EXPECT_TRUE(eventually([&] { return exchange.client_gone(); }));
                  exchange.on_client_gone([&] { notified.set(); });
                  EXPECT_TRUE(notified.wait());
                })});
  RawClient client(server.port());
  client.send(get("/wait"));
  ASSERT_TRUE(began.wait());
  client.close();
  EXPECT_TRUE(notified.wait());
}

TEST(Gone, RunsNoCallbackAfterTheHandler) {
  std::atomic<int> n_late_calls{0};
  Server server(local_options(), {get_route("/quick", [&](Exchange& exchange) {
                  const auto is_inside = std::make_shared<std::atomic<bool>>(true);
                  exchange.on_client_gone([&n_late_calls, is_inside] {
                    if (!*is_inside) ++n_late_calls;
                  });
                  exchange.respond(text_response(200, "quick"));
                  exchange.on_client_gone(nullptr);
                  *is_inside = false;
                })});
  for (int i = 0; i < 100; ++i) {
    RawClient client(server.port());
    client.send(get("/quick"));
    EXPECT_EQ(client.response()->body, "quick");
    client.close();
  }
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
  EXPECT_EQ(n_late_calls, 0);
}

TEST(Gone, EndsHandlersThatWrite) {
  Event returned;
  Server server(local_options(), {get_route("/flood", [&](Exchange& exchange) {
                  const std::string piece(100'000, 'x');
                  exchange.begin_stream(200, "text/plain");
                  while (exchange.write(piece)) continue;
                  returned.set();
                })});
  RawClient client(server.port());
  client.send(get("/flood"));
  client.receive_until("xxxx");
  client.close();
  EXPECT_TRUE(returned.wait());
}

TEST(Gone, HalfClosedClientsStillGetTheirResponse) {
  Server server(local_options(), {get_route("/hello", [](Exchange& exchange) {
                  exchange.respond(text_response(200, "hello"));
                })});
  RawClient client(server.port());
  client.send(get("/hello") + get("/hello"));
  client.half_close();
  EXPECT_EQ(client.response()->body, "hello");
  EXPECT_EQ(client.response()->body, "hello");
  EXPECT_TRUE(client.is_closed());
}

TEST(SlowReader, DoesNotSlowOtherClients) {
  std::atomic<size_t> n_written{0};
  Server server(local_options(), {get_route("/flood",
                                            [&](Exchange& exchange) {
                                              const std::string piece(50'000, 'x');
                                              exchange.begin_stream(200, "text/plain");
                                              while (exchange.write(piece))
                                                n_written += piece.size();
                                            }),
                                  get_route("/hello", [](Exchange& exchange) {
                                    exchange.respond(text_response(200, "hello"));
                                  })});
  RawClient slow(server.port(), 10'000);
  slow.send(get("/flood"));
  ASSERT_TRUE(eventually([&] { return n_written > 500'000; }));
  RawClient quick(server.port());
  for (int i = 0; i < 100; ++i) {  // the slow client reads nothing in the meantime
    quick.send(get("/hello"));
    const auto response = quick.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "hello");
  }
  // The unsent output stays limited to max_unsent_bytes, the buffers of the system, and one piece.
  const size_t n_stuck = n_written;
  EXPECT_LT(n_stuck, 16u << 20);
  EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 1; }));
}

TEST(SlowReader, TimesOut) {
  Event returned;
  ServerOptions options = local_options();
  options.slow_reader_timeout = milliseconds(200);
  Server server(options, {get_route("/flood", [&](Exchange& exchange) {
                  const std::string piece(50'000, 'x');
                  exchange.begin_stream(200, "text/plain");
                  while (exchange.write(piece)) continue;
                  EXPECT_TRUE(exchange.client_gone());
                  returned.set();
                })});
  RawClient slow(server.port(), 10'000);
  slow.send(get("/flood"));
  EXPECT_TRUE(returned.wait());
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
}

TEST(Upload, StreamsWithBoundedMemory) {
  std::atomic<size_t> n_read{0};
  Event may_read;
  Server server(local_options(), {upload_route([&](Exchange& exchange) {
                  EXPECT_EQ(exchange.request().body, "");
                  may_read.wait();
                  std::vector<char> buffer(100'000);
                  unsigned char expected = 0;
                  bool is_right = true;
                  while (const size_t n = exchange.read_body(buffer)) {
                    for (size_t i = 0; i < n; ++i) {
                      is_right &= static_cast<unsigned char>(buffer[i]) == expected++;
                    }
                    n_read += n;
                  }
                  exchange.respond(text_response(200, is_right ? "right" : "wrong"));
                })});
  constexpr size_t kBytes = 64 << 20;
  std::string block(1 << 20, '\0');
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i);
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(kBytes) +
              "\r\n\r\n");
  std::atomic<size_t> n_sent{0};
  std::thread sender([&] {
    for (size_t i = 0; i < kBytes / block.size() && client.send(block); ++i) n_sent += block.size();
  });
  // The server takes at most max_unread_bytes plus the buffers of the system.
  size_t before = 0;
  EXPECT_TRUE(eventually([&] {
    const size_t now = n_sent;
    std::this_thread::sleep_for(milliseconds(100));
    return now > 0 && now == n_sent && now == std::exchange(before, now);
  }));
  EXPECT_LT(n_sent, 32u << 20);
  may_read.set();
  EXPECT_EQ(client.response()->body, "right");
  sender.join();
  EXPECT_EQ(n_read, kBytes);
}

TEST(Upload, CanArriveInChunks) {
  Server server(local_options(), {upload_route(count_body)});
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("5\r\nhello\r\n");
    client.send("1\r\n!\r\n0\r\n\r\n");
    EXPECT_EQ(client.response()->body, "6");
    client.send(post("/upload", ""));
    EXPECT_EQ(client.response()->body, "0");
  }
}

TEST(Upload, SendsContinueToClientsThatExpectIt) {
  for (const char* path : {"/upload", "/whole"}) {
    Server server(local_options(),
                  {upload_route(count_body),
                   {.methods = {Method::kPost}, .pattern = "/whole", .handler = [](Exchange& e) {
                      e.respond(text_response(200, std::to_string(e.request().body.size())));
                    }}});
    RawClient client(server.port());
    const std::string head = "POST " + std::string(path) +
                             " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                             "Content-Length: 5\r\n\r\n";
    for (int i = 0; i < 2; ++i) {
      client.send(head);
      EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
      client.send("hello");
      const auto response = client.response();
      EXPECT_EQ(response->status, 200);
      EXPECT_EQ(response->body, "5");
      EXPECT_EQ(response->headers.find("Connection"), nullptr);
    }
  }
}

TEST(Upload, CanBeRefusedBeforeItIsSent) {
  Server server(
      local_options(),
      {upload_route([](Exchange& exchange) { exchange.respond(text_response(403, "no")); })});
  RawClient client(server.port());
  client.send(
      "POST /upload HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  const auto response = client.response();
  EXPECT_EQ(response->status, 403);
  EXPECT_EQ(response->headers.get("Connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST(Upload, ClientCanReadTheResponseWhileItSends) {
  Server server(
      local_options(),
      {upload_route([](Exchange& exchange) { exchange.respond(text_response(403, "no")); })});
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 20 && client.send(block); ++i) continue;
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "no");
}

TEST(Upload, FailsIfTheClientDisconnects) {
  std::atomic<int> n_failed{0};
  Server server(local_options(), {upload_route([&](Exchange& exchange) {
                  try {
                    count_body(exchange);
                  } catch (const StatusError& error) {
                    EXPECT_EQ(error.status(), 400);
                    n_failed.fetch_add(1);
                    throw;
                  }
                })});
  for (const int n_clients : {1, 2}) {
    RawClient client(server.port());
    client.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
    if (n_clients == 1) {
      client.half_close();
      EXPECT_EQ(client.response()->status, 400);
    } else {
      client.close();
    }
    EXPECT_TRUE(eventually([&] { return n_failed == n_clients; }));
  }
  EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 0; }));
}

TEST(Upload, MalformedChunksAreRefused) {
  Server server(local_options(), {upload_route(count_body)});
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("1\r\na\r\nzz\r\n");
  EXPECT_EQ(client.response()->status, 400);
  EXPECT_TRUE(client.is_closed());
}

TEST(Upload, HasTheLimitOfItsRoute) {
  Route route = upload_route(count_body);
  route.max_body_bytes = 100;
  Server server(local_options(), {route});
  RawClient honest(server.port());
  honest.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n");
  EXPECT_EQ(honest.response()->status, 413);
  RawClient sly(server.port());
  sly.send("POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) sly.send("30\r\n" + std::string(0x30, 'x') + "\r\n");
  EXPECT_EQ(sly.response()->status, 413);
  RawClient modest(server.port());
  modest.send(post("/upload", std::string(100, 'x')));
  EXPECT_EQ(modest.response()->body, "100");
}

}  // namespace
}  // namespace billow::http
