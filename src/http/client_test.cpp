#include "http/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/lines.h"
#include "http/listener.h"
#include "http/raw_client.h"
#include "http/server.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

std::vector<Route> sample_routes() {
  return {{.methods = {Method::kGet, Method::kPost, Method::kHead},
           .pattern = "/echo",
           .handler =
               [](Exchange& exchange) {
                 exchange.respond({.status = 202,
                                   .content_type = "text/plain",
                                   .headers = {{"X-Peer", exchange.request().peer}},
                                   .body = exchange.request().body});
               }},
          {.methods = {Method::kGet},
           .pattern = "/stream",
           .handler =
               [](Exchange& exchange) {
                 exchange.begin_stream(200, "application/x-ndjson");
                 for (int i = 0; i < 100; ++i) exchange.write(std::to_string(i) + "\n");
               }},
          {.methods = {Method::kGet},
           .pattern = "/wait",
           .handler =
               [](Exchange& exchange) {
                 if (exchange.request().query.contains("stream")) {
                   exchange.begin_stream(200, "text/plain");
                   exchange.write("begin");
                 }
                 eventually([&] { return exchange.client_gone(); });
               }},
          {.methods = {Method::kPost},
           .pattern = "/upload",
           .handler =
               [](Exchange& exchange) {
                 std::vector<char> buffer(1 << 16);
                 size_t n_bytes = 0;
                 while (const size_t n = exchange.read_body(buffer)) n_bytes += n;
                 exchange.respond(text_response(200, std::to_string(n_bytes)));
               },
           .streams_body = true}};
}

Endpoint local(uint16_t port) { return {.host = "127.0.0.1", .port = port}; }

// A server with one thread that runs the test's script on its connections, one after another.
class ScriptedServer {
 public:
  using Script = std::function<void(int connection, SocketFd& socket)>;
  ScriptedServer(int n_connections, Script script)
      : listener_(Listener::on_tcp("127.0.0.1", 0)),
        thread_([this, n_connections, script = std::move(script)] {
          for (int i = 0; i < n_connections; ++i) {
            Accepted accepted;
            eventually([&] {
              int why = 0;
              accepted = listener_.accept(why);
              return accepted.socket.is_open();
            });
            script(i, accepted.socket);
          }
        }) {}
  ~ScriptedServer() { thread_.join(); }

  Endpoint endpoint() const { return local(listener_.port()); }

  // Waits for the next request without a body, and drops it.
  static void read_request(SocketFd& socket) {
    std::string bytes;
    eventually([&] {
      char byte = 0;
      while (::recv(socket.get(), &byte, 1, 0) == 1) bytes += byte;
      return bytes.ends_with("\r\n\r\n");
    });
  }
  static void send(SocketFd& socket, std::string_view text) {
    static_cast<void>(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }

 private:
  Listener listener_;
  std::thread thread_;
};

std::string failure(Client& client, const Call& call) {
  try {
    client.send(call);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Client, SendsAndReceivesOnOneConnection) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()));
  std::string peer;
  for (int i = 0; i < 5; ++i) {
    const std::string body = "number " + std::to_string(i);
    const Response response =
        client.send({.method = Method::kPost, .target = "/echo", .body = body});
    EXPECT_EQ(response.status, 202);
    EXPECT_EQ(response.content_type, "text/plain");
    EXPECT_EQ(response.body, body);
    if (i == 0) peer = response.headers.get("X-Peer");
    EXPECT_EQ(response.headers.get("X-Peer"), peer);
  }
  EXPECT_EQ(client.send({.method = Method::kHead, .target = "/echo"}).body, "");
  EXPECT_EQ(client.send({.target = "/nothing"}).status, 404);
  EXPECT_EQ(server.n_connections(), 1u);
}

TEST(Client, WorksOverAUnixSocket) {
  const TempFolder folder;
  ServerOptions options;
  options.socket_path = folder.path("socket");
  Server server(options, sample_routes());
  Client client({.socket_path = options.socket_path});
  EXPECT_EQ(client.send({.target = "/echo"}).headers.get("X-Peer"), "unix");
}

TEST(Client, ReceivesStreamsInPieces) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()));
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> lines;
    LineSplitter splitter(100);
    const Response response = client.send(
        {.target = "/stream", .on_body = [&](const Response& head, std::string_view piece) {
           EXPECT_EQ(head.status, 200);
           EXPECT_EQ(head.content_type, "application/x-ndjson");
           splitter.feed(piece, [&](std::string_view line) { lines.emplace_back(line); });
           return true;
         }});
    EXPECT_EQ(response.body, "");
    ASSERT_EQ(lines.size(), 100u);
    EXPECT_EQ(lines[99], "99");
  }
  EXPECT_EQ(server.n_connections(), 1u);
}

TEST(Client, CanStopAStream) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()));
  std::string got;
  client.send({.target = "/wait?stream", .on_body = [&](const Response&, std::string_view piece) {
                 got += piece;
                 return false;
               }});
  EXPECT_EQ(got, "begin");
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
  EXPECT_EQ(client.send({.target = "/echo"}).status, 202);
}

TEST(Client, UploadsFromAFunction) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()));
  constexpr uint64_t kBytes = 10'000'000;
  uint64_t n_given = 0;
  const Response response = client.send({.method = Method::kPost,
                                         .target = "/upload",
                                         .upload =
                                             [&](std::span<char> buffer) {
                                               std::fill(buffer.begin(), buffer.end(), 'x');
                                               n_given += buffer.size();
                                               return buffer.size();
                                             },
                                         .upload_bytes = kBytes});
  EXPECT_EQ(response.body, std::to_string(kBytes));
  EXPECT_EQ(n_given, kBytes);
  const std::string why = failure(client, {.method = Method::kPost,
                                           .target = "/upload",
                                           .upload = [](std::span<char>) { return size_t{0}; },
                                           .upload_bytes = 5});
  EXPECT_NE(why.find("5 bytes too early"), std::string::npos) << why;
  EXPECT_EQ(client.send({.target = "/echo"}).status, 202);
}

TEST(Client, ReadsAResponseThatComesBeforeAllIsSent) {
  ServerOptions options = local_options();
  options.max_body_bytes = 1000;
  Server server(options, sample_routes());
  Client client(local(server.port()));
  const Response response = client.send(
      {.method = Method::kPost, .target = "/echo", .body = std::string(8'000'000, 'x')});
  EXPECT_EQ(response.status, 413);
}

TEST(Client, CanBeCancelledFromAnotherThread) {
  Server server(local_options(), sample_routes());
  for (const char* target : {"/wait", "/wait?stream"}) {
    Client client(local(server.port()));
    std::atomic<bool> is_over{false};
    std::string why;
    std::thread caller([&] {
      why = failure(client, {.target = target});
      is_over = true;
    });
    EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 1; }));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(is_over);
    client.cancel();
    caller.join();  // the route waits while its client is connected
    EXPECT_NE(why.find("was cancelled"), std::string::npos) << why;
    EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 0; }));
    EXPECT_TRUE(client.cancelled());
    EXPECT_NE(failure(client, {.target = "/echo"}).find("was cancelled"), std::string::npos);
  }
}

TEST(Client, FailsIfItCannotConnect) {
  uint16_t port = 0;
  {
    const Listener listener = Listener::on_tcp("127.0.0.1", 0);
    port = listener.port();
  }
  Client nobody(local(port));
  EXPECT_EQ(failure(nobody, {}).find("cannot connect to 127.0.0.1:"), 0u);
  const TempFolder folder;
  Client missing({.socket_path = folder.path("missing")});
  try {
    missing.send({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
  Client unknown({.host = "no.such.host.invalid", .port = 1});
  EXPECT_NE(failure(unknown, {}), "");
}

TEST(Client, TimesOutOnASilentServer) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()), {.idle_timeout = milliseconds(100)});
  const std::string why = failure(client, {.target = "/wait"});
  EXPECT_EQ(why.find("timed out waiting for 127.0.0.1:"), 0u) << why;
  // The client works again. On a busy machine, this answer can be late, too.
  EXPECT_TRUE(eventually([&] {
    try {
      return client.send({.target = "/echo"}).status == 202;
    } catch (const Error&) {
      return false;
    }
  }));
}

TEST(Client, RefusesRequestsThatContainASecondOne) {
  Client client(local(1));
  EXPECT_NE(failure(client, {.target = "/x y"}), "");
  EXPECT_NE(failure(client, {.target = "x"}), "");
  EXPECT_NE(failure(client, {.target = "/x\r\nX: y"}), "");
  EXPECT_NE(failure(client, {.headers = {{"X", "a\r\nY: b"}}}).find("line break"),
            std::string::npos);
}

TEST(Client, DetectsAnIncompleteResponse) {
  for (const char* text : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "HTTP/1.1 200",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"}) {
    ScriptedServer server(1, [&](int, SocketFd& socket) {
      ScriptedServer::read_request(socket);
      ScriptedServer::send(socket, text);
    });
    Client client(server.endpoint());
    const std::string why = failure(client, {});
    EXPECT_NE(why.find("in the middle of its response"), std::string::npos) << why;
  }
}

TEST(Client, RefusesAMalformedResponse) {
  for (const char* text : {"nonsense\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"}) {
    ScriptedServer server(1, [&](int, SocketFd& socket) {
      ScriptedServer::read_request(socket);
      ScriptedServer::send(socket, text);
    });
    Client client(server.endpoint());
    EXPECT_NE(failure(client, {}), "") << text;
  }
}

TEST(Client, ReadsUntilTheConnectionEnds) {
  ScriptedServer server(1, [](int, SocketFd& socket) {
    ScriptedServer::read_request(socket);
    ScriptedServer::send(socket, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nall of it");
  });
  Client client(server.endpoint());
  EXPECT_EQ(client.send({}).body, "all of it");
}

TEST(Client, RetriesIfTheKeptConnectionWasClosed) {
  constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  ScriptedServer server(2, [&](int connection, SocketFd& socket) {
    ScriptedServer::read_request(socket);
    ScriptedServer::send(socket, kAnswer);
    // Closes after the second request has arrived, so that the client could not know earlier.
    if (connection == 0) ScriptedServer::read_request(socket);
  });
  Client client(server.endpoint());
  EXPECT_EQ(client.send({}).body, "ok");
  EXPECT_EQ(client.send({}).body, "ok");
}

TEST(Client, RetriesOnlyOnce) {
  ScriptedServer server(2, [&](int connection, SocketFd& socket) {
    ScriptedServer::read_request(socket);
    if (connection > 0) return;
    ScriptedServer::send(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ScriptedServer::read_request(socket);
  });
  Client client(server.endpoint());
  EXPECT_EQ(client.send({}).body, "ok");
  EXPECT_NE(failure(client, {}).find("without a response"), std::string::npos);
}

TEST(Client, DetectsAConnectionThatEndedBetweenCalls) {
  ServerOptions options = local_options();
  options.idle_timeout = milliseconds(5000);  // also for the first bytes of a request
  Server server(options, sample_routes());
  Client client(local(server.port()));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
    uint64_t left = 10;
    const Response response = client.send({.method = Method::kPost,
                                           .target = "/upload",
                                           .upload =
                                               [&](std::span<char> buffer) {
                                                 left -= buffer.size();
                                                 return buffer.size();
                                               },
                                           .upload_bytes = 10});
    EXPECT_EQ(response.body, "10");
    EXPECT_EQ(left, 0u);
  }
}

TEST(Client, LimitsTheResponseBody) {
  Server server(local_options(), sample_routes());
  Client client(local(server.port()), {.max_body_bytes = 100});
  EXPECT_EQ(client.send({.method = Method::kPost, .target = "/echo", .body = std::string(100, 'x')})
                .body.size(),
            100u);
  EXPECT_NE(
      failure(client, {.method = Method::kPost, .target = "/echo", .body = std::string(101, 'x')})
          .find("more than 100 bytes"),
      std::string::npos);
}

TEST(Client, ManyClientsRunInParallel) {
  Server server(local_options(), sample_routes());
  std::vector<std::thread> threads;
  std::atomic<int> n_right{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      Client client(local(server.port()));
      for (int i = 0; i < 50; ++i) {
        const std::string body = std::to_string(t * 1000 + i);
        if (client.send({.method = Method::kPost, .target = "/echo", .body = body}).body == body) {
          ++n_right;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right, 16 * 50);
}

}  // namespace
}  // namespace billow::http
