#include "registry/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/server.h"

namespace billow::registry {
namespace {

using http::Exchange;
using http::Method;
using std::chrono::milliseconds;

constexpr size_t kLargeBytes = 20'000'000;

std::string large_body() {
  std::string body(kLargeBytes, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 251);
  return body;
}

// Blocks handlers until it is opened.
class Gate {
 public:
  void pass(Exchange& exchange) {
    exchange.on_client_gone([this] {
      const std::scoped_lock lock(
          mutex_);  // without the lock, a handler that is about to wait would miss the notification
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    ++n_inside;
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [&] { return is_open_ || exchange.client_gone(); });
    if (exchange.client_gone()) ++n_gone;
  }
  void open() {
    {
      const std::scoped_lock lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }
  std::atomic<int> n_inside{0};
  std::atomic<int> n_gone{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

class TransportTest : public testing::Test {
 protected:
  TransportTest() : server_(server_options(), routes()) {
    ::setenv("no_proxy", "*", 1);  // ignores any proxy of the machine
  }
  ~TransportTest() override { gate_.open(); }

  static http::ServerOptions server_options() {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }
  std::vector<http::Route> routes() {
    std::vector<http::Route> all;
    const auto add = [&](std::vector<Method> methods, const char* pattern, http::Handler handler) {
      http::Route& route = all.emplace_back();
      route.methods = std::move(methods);
      route.pattern = pattern;
      route.handler = std::move(handler);
    };
    add({Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}, "/echo",
        [this](Exchange& exchange) {
          const http::Request& request = exchange.request();
          {
            const std::scoped_lock lock(mutex_);
            peers_.push_back(request.peer);
          }
          std::string text(http::method_name(request.method));
          text += " " + request.target;
          for (const char* name :
               {"Range", "Content-Type", "Content-Length", "User-Agent", "Expect"})
            if (const std::string* value = request.headers.find(name))
              text += std::string("\n") + name + ": " + *value;
          exchange.respond({.status = 202,
                            .content_type = "text/plain",
                            .headers = {{"X-Name", "some value"}},
                            .body = text + "\n" + request.body});
        });
    add({Method::kGet, Method::kHead}, "/large", [](Exchange& exchange) {
      exchange.respond({.status = 200, .content_type = "x/y", .headers = {}, .body = large_body()});
    });
    add({Method::kGet}, "/moved", [](Exchange& exchange) {
      exchange.respond({.status = 307,
                        .content_type = "",
                        .headers = {{"Location", "http://elsewhere.invalid/"}},
                        .body = "moved"});
    });
    add({Method::kGet}, "/wait", [this](Exchange& exchange) {
      if (exchange.request().query.contains("stream")) {
        exchange.begin_stream(200, "text/plain");
        exchange.write("begin");
      }
      gate_.pass(exchange);
      if (!exchange.request().query.contains("stream"))
        exchange.respond(http::text_response(200, "passed"));
    });
    add({Method::kPut}, "/unread", [this](Exchange& exchange) { gate_.pass(exchange); });
    all.back().streams_body = true;
    return all;
  }

  std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(server_.port()) + path;
  }
  std::string why_not(const Request& request, std::stop_token stop = {}) {
    try {
      transport_.send(request, std::move(stop));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  Gate gate_;
  std::mutex mutex_;
  std::vector<std::string> peers_;  // of requests to /echo
  http::Server server_;
  Transport transport_{{.user_agent = "tester/1"}};
};

TEST_F(TransportTest, SendsRequestsAndReturnsReplies) {
  const Reply reply =
      transport_.send({.url = url("/echo?a=b"), .headers = {{"Range", "bytes=0-5"}}});
  EXPECT_EQ(reply.status, 202);
  EXPECT_EQ(reply.headers.get("x-name"), "some value");
  EXPECT_EQ(reply.headers.get("Content-Type"), "text/plain");
  EXPECT_EQ(reply.body, "GET /echo?a=b\nRange: bytes=0-5\nUser-Agent: tester/1\n");
  EXPECT_EQ(transport_.send({.url = url("/none")}).status, 404);
}

TEST_F(TransportTest, SendsBodies) {
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    const std::string begin = std::string(method) + " /echo\nContent-Length: ";
    EXPECT_EQ(transport_.send({.method = method, .url = url("/echo")}).body,
              begin + "0\nUser-Agent: tester/1\n");
    EXPECT_EQ(transport_.send({.method = method, .url = url("/echo"), .body = "abc"}).body,
              begin + "3\nUser-Agent: tester/1\nabc");
    size_t n_given = 0;
    const auto give = [&](std::span<char> buffer) {
      const size_t n = std::min({buffer.size(), size_t{1000}, 100'000 - n_given});
      std::fill_n(buffer.begin(), n, 'x');
      n_given += n;
      return n;
    };
    const Reply reply = transport_.send({.method = method,
                                         .url = url("/echo"),
                                         .headers = {{"Content-Type", "a/b"}},
                                         .upload = give,
                                         .upload_bytes = 100'000});
    EXPECT_EQ(reply.body, std::string(method) +
                              " /echo\nContent-Type: a/b\nContent-Length: 100000\nUser-Agent: "
                              "tester/1\n" +
                              std::string(100'000, 'x'));
  }
  EXPECT_EQ(transport_.send({.method = "DELETE", .url = url("/echo")}).body,
            "DELETE /echo\nUser-Agent: tester/1\n");
}

TEST_F(TransportTest, HeadHasNoBody) {
  const Reply reply = transport_.send({.method = "HEAD", .url = url("/large")});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("Content-Length"), std::to_string(kLargeBytes));
  EXPECT_EQ(reply.body, "");
}

TEST_F(TransportTest, PassesOnABodyInPieces) {
  std::string body;
  int n_pieces = 0;
  Request request{.url = url("/large")};
  request.on_body = [&](const Reply& head, std::string_view bytes) {
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.get("Content-Type"), "x/y");
    body += bytes;
    ++n_pieces;
    return true;
  };
  const Reply reply = transport_.send(request);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "");
  EXPECT_TRUE(body == large_body());
  EXPECT_GT(n_pieces, 10);
}

TEST_F(TransportTest, EndsIfACallbackStopsOrThrows) {
  Request request{.url = url("/large")};
  size_t n_bytes = 0;
  request.on_body = [&](const Reply&, std::string_view bytes) {
    n_bytes += bytes.size();
    return n_bytes < 1000;
  };
  EXPECT_EQ(transport_.send(request).status, 200);
  EXPECT_LT(n_bytes, kLargeBytes / 2);
  request.on_body = [](const Reply&, std::string_view) -> bool {
    throw std::runtime_error("the disk is full");
  };
  EXPECT_EQ(why_not(request), "the disk is full");
  const Request upload{
      .method = "PUT",
      .url = url("/echo"),
      .upload = [](std::span<char>) -> size_t { throw std::runtime_error("no file"); },
      .upload_bytes = 10};
  EXPECT_EQ(why_not(upload), "no file");
  EXPECT_EQ(transport_.send({.url = url("/echo")}).status, 202) << "other requests still work";
}

TEST_F(TransportTest, LimitsTheCollectedBody) {
  EXPECT_EQ(why_not({.url = url("/large"), .max_body_bytes = kLargeBytes - 1}),
            "127.0.0.1:" + std::to_string(server_.port()) +
                ": the response has more than 19999999 bytes");
  EXPECT_EQ(transport_.send({.url = url("/large"), .max_body_bytes = kLargeBytes}).body.size(),
            kLargeBytes);
}

TEST_F(TransportTest, FollowsNoRedirect) {
  const Reply reply = transport_.send({.url = url("/moved")});
  EXPECT_EQ(reply.status, 307);
  EXPECT_EQ(reply.headers.get("Location"), "http://elsewhere.invalid/");
}

TEST_F(TransportTest, RefusesMalformedRequests) {
  const std::string wrong = "this is not a server address: ";
  for (const char* address : {"", "ftp://h/x", "file:///etc/passwd", "h/x", "http://h/\r\nX: y"})
    EXPECT_EQ(why_not({.url = address}), wrong + address);
  EXPECT_EQ(why_not({.method = "GET / HTTP/1.1\r\nX: y\r\n", .url = url("/echo")}),
            wrong + url("/echo"));
  EXPECT_EQ(why_not({.url = url("/echo"), .headers = {{"Authorization", "a\r\nX: y"}}}),
            "a field of the request cannot be sent: Authorization");
  EXPECT_NE(why_not({.url = "http://a b/"}), "");
}

TEST_F(TransportTest, ErrorNamesTheUnreachableHost) {
  const uint16_t port = server_.port();
  server_.stop();
  const std::string why = why_not({.url = url("/echo")});
  EXPECT_TRUE(why.starts_with("127.0.0.1:" + std::to_string(port) + ": ")) << why;
  EXPECT_TRUE(
      why_not({.url = "http://no-such-host.invalid/"}).starts_with("no-such-host.invalid: "));
}

TEST_F(TransportTest, KeepsItsConnection) {
  for (int i = 0; i < 20; ++i) transport_.send({.url = url("/echo")});
  for (const std::string& peer : peers_) EXPECT_EQ(peer, peers_[0]);
}

TEST_F(TransportTest, SendsManyRequestsInParallel) {
  std::vector<std::jthread> threads;
  std::atomic<int> n_passed{0};
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      if (transport_.send({.url = url("/wait")}).body == "passed") ++n_passed;
    });
  }
  while (gate_.n_inside < 32) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(transport_.send({.url = url("/echo")}).status, 202);
  gate_.open();
  threads.clear();
  EXPECT_EQ(n_passed, 32);
}

TEST_F(TransportTest, StopCancelsARequestImmediately) {
  for (const char* path : {"/wait", "/wait?stream=1"}) {
    const int n_before = gate_.n_inside;
    std::stop_source stop;
    std::jthread stops([&] {
      while (gate_.n_inside == n_before) std::this_thread::sleep_for(milliseconds(1));
      stop.request_stop();
    });
    EXPECT_EQ(why_not({.url = url(path)}, stop.get_token()), "the request was cancelled");
    EXPECT_EQ(why_not({.url = url(path)}, stop.get_token()), "the request was cancelled");
  }
  while (gate_.n_gone < 2) std::this_thread::sleep_for(milliseconds(1));  // the server notices both
}

TEST_F(TransportTest, FailsAfterTheStallTimeout) {
  Transport hasty({.stall_timeout = milliseconds(1000)});
  for (const char* path : {"/wait", "/wait?stream=1"}) {
    try {
      hasty.send({.url = url(path)});
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "127.0.0.1:" + std::to_string(server_.port()) + ": no data moved for 1 s");
    }
  }
}

TEST_F(TransportTest, WaitsLongerForAReplyThanForTheUpload) {
  Transport hasty({.stall_timeout = milliseconds(500)});
  const auto upload = [](std::span<char> buffer) { return buffer.size(); };
  const Request unread{.method = "PUT",
                       .url = url("/unread"),
                       .upload = upload,
                       .upload_bytes = uint64_t{1} << 40,
                       .reply_timeout = std::chrono::minutes(10)};
  EXPECT_THROW(hasty.send(unread), Error);
  std::jthread opens([&] {
    std::this_thread::sleep_for(milliseconds(1500));
    gate_.open();
  });
  const Request slow{.url = url("/wait"), .reply_timeout = std::chrono::minutes(10)};
  EXPECT_EQ(hasty.send(slow).body, "passed");
}

TEST_F(TransportTest, DestructorEndsRunningRequests) {
  std::string why;
  std::jthread waits;
  {
    Transport brief;
    waits = std::jthread([&] {
      try {
        brief.send({.url = url("/wait")});
      } catch (const Error& error) {
        why = error.what();
      }
    });
    while (gate_.n_inside == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  waits.join();
  EXPECT_EQ(why, "the program is ending");
}

}  // namespace
}  // namespace billow::registry
