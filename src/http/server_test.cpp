#include "http/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/client.h"
#include "http/raw_client.h"

namespace billow::http {
namespace {

void say_hello(Exchange& exchange) { exchange.respond(text_response(200, "hello")); }

void echo(Exchange& exchange) {
  exchange.respond({.status = 200,
                    .content_type = std::string(exchange.request().headers.get("Content-Type")),
                    .body = exchange.request().body});
}

std::vector<Route> sample_routes() {
  return {
      {.methods = {Method::kGet, Method::kHead}, .pattern = "/hello", .handler = say_hello},
      {.methods = {Method::kPost, Method::kHead}, .pattern = "/echo", .handler = echo},
      {.methods = {Method::kGet},
       .pattern = "/show/:name",
       .handler =
           [](Exchange& exchange) {
             const Request& request = exchange.request();
             exchange.respond(text_response(
                 200, request.path + "|" + request.parameters.at("name") + "|" +
                          (request.query.contains("q") ? request.query.at("q") : "none") + "|" +
                          request.target + "|" + request.peer));
           }},
      {.methods = {Method::kPost},
       .pattern = "/unread",
       .handler = say_hello,
       .streams_body = true},
  };
}

TEST(Server, AnswersAndKeepsTheConnection) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(get("/hello"));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hello");
    EXPECT_EQ(response->content_type, "text/plain; charset=utf-8");
    EXPECT_EQ(response->headers.get("Content-Length"), "5");
    EXPECT_TRUE(response->headers.get("Date").ends_with(" GMT"));
    EXPECT_EQ(response->headers.find("Connection"), nullptr);
  }
  EXPECT_EQ(server.n_connections(), 1u);
}

TEST(Server, ClosesTheConnectionOnRequest) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send(get("/hello", "Connection: close\r\n"));
  EXPECT_EQ(client.response()->headers.get("Connection"), "close");
  EXPECT_TRUE(client.is_closed());
  client.close();
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 0; }));
}

TEST(Server, SupportsHttp10) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.response()->body, "hello");
  EXPECT_TRUE(client.is_closed());
  RawClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(kept.response()->headers.get("Connection"), "keep-alive");
  }
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += post("/echo", "body " + std::to_string(i)) + "\r\n" + get("/nothing");
  }
  client.send(requests);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.response()->body, "body " + std::to_string(i));
    EXPECT_EQ(client.response()->status, 404);
  }
}

TEST(Server, PassesTheRequestToHandlers) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send(get("/show/a%2Fb?q=x+y%26"));
  const std::string body = client.response()->body;
  EXPECT_TRUE(body.starts_with("/show/a/b|a/b|x y&|/show/a%2Fb?q=x+y%26|127.0.0.1:")) << body;
}

TEST(Server, AcceptsBodiesOfKnownLengthAndInChunks) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send(post("/echo", "some text", "Content-Type: a/b\r\n"));
  auto response = client.response();
  EXPECT_EQ(response->body, "some text");
  EXPECT_EQ(response->content_type, "a/b");
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("4\r\ndefg\r\n0\r\n\r\n");
  response = client.response();
  EXPECT_EQ(response->body, "abcdefg");
  EXPECT_EQ(response->content_type, "");
}

TEST(Server, AnswersHeadWithoutABody) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n" + get("/hello"));
  const auto response = client.response(true);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.get("Content-Length"), "5");
  EXPECT_EQ(client.response()->body, "hello");
  client.send("HEAD /show/x HTTP/1.1\r\nHost: h\r\n\r\n" + get("/hello"));
  EXPECT_EQ(client.response(true)->status, 405);
  EXPECT_EQ(client.response()->body, "hello");
}

TEST(Server, AnswersRequestsWithoutARoute) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send(get("/nothing"));
  auto response = client.response();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->body, "404 page not found");
  EXPECT_EQ(response->content_type, "text/plain");
  client.send(post("/hello", "a body nobody reads"));
  response = client.response();
  EXPECT_EQ(response->status, 405);
  EXPECT_EQ(response->body, "405 method not allowed");
  EXPECT_EQ(response->headers.get("Allow"), "GET, HEAD");
  client.send("BREW /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.response()->status, 405);
  client.send(get("/hello/?a=b"));
  response = client.response();
  EXPECT_EQ(response->status, 301);
  EXPECT_EQ(response->headers.get("Location"), "/hello?a=b");
  client.send(get("/show/%zz"));
  EXPECT_EQ(client.response()->status, 400);
  client.send(get("/hello"));
  EXPECT_EQ(client.response()->status, 200);
}

TEST(Server, LetsApisFormatTheirErrors) {
  ServerOptions options = local_options();
  options.max_body_bytes = 10;
  options.shape_error = [](int status, std::string_view path, std::string_view text) {
    return Response{.status = status,
                    .content_type = "application/json",
                    .body = "{" + std::string(path) + "|" + std::string(text) + "}"};
  };
  Server server(options, sample_routes());
  RawClient client(server.port());
  client.send(get("/nothing"));
  EXPECT_EQ(client.response()->body, "{/nothing|404 page not found}");
  client.send(get("/echo"));
  const auto response = client.response();
  EXPECT_EQ(response->body, "{/echo|405 method not allowed}");
  EXPECT_EQ(response->headers.get("Allow"), "HEAD, POST");
  client.send(post("/echo", "more than ten bytes"));
  EXPECT_EQ(client.response()->body, "{/echo|the body has more than 10 bytes}");
}

TEST(Server, ChecksAccess) {
  ServerOptions options = local_options();
  options.admit = [](const Request& request, BindKind bind, std::string_view) {
    return check_access(AllowedOrigins(), MachineNames{}, bind, request);
  };
  Server server(options, sample_routes());
  RawClient client(server.port());
  client.send("GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  auto response = client.response();
  EXPECT_EQ(response->status, 403);
  EXPECT_NE(response->body.find("\"evil.example\" is not a name of this machine"),
            std::string::npos);
  client.send(get("/nothing", "Origin: http://localhost:1\r\n"));
  response = client.response();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->headers.get("Access-Control-Allow-Origin"), "http://localhost:1");
  client.send("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n" +
              get("/hello"));
  response = client.response();
  EXPECT_EQ(response->status, 204);
  EXPECT_EQ(response->headers.find("Content-Length"), nullptr);
  EXPECT_EQ(client.response()->body, "hello");
}

TEST(Server, AnswersIfAHandlerThrows) {
  struct Strange {};
  const auto throwing = [](Exchange& exchange) {
    const std::string& kind = exchange.request().query.at("kind");
    if (kind == "missing") throw Error(ErrorCode::kNotFound, "no such thing");
    if (kind == "input") throw Error(ErrorCode::kInvalidInput, "bad input");
    if (kind == "standard") throw std::out_of_range("out of range");
    if (kind == "strange") throw Strange{};
    if (kind == "late") {
      exchange.begin_stream(200, "text/plain");
      exchange.write("a part");
      throw Error(ErrorCode::kIo, "lost the rest");
    }
  };
  Server server(local_options(),
                {{.methods = {Method::kGet}, .pattern = "/throw", .handler = throwing}});
  RawClient client(server.port());
  const auto status_of_kind = [&](const std::string& kind) {
    client.send(get("/throw?kind=" + kind));
    return client.response()->status;
  };
  EXPECT_EQ(status_of_kind("missing"), 404);
  EXPECT_EQ(status_of_kind("input"), 400);
  EXPECT_EQ(status_of_kind("standard"), 500);
  EXPECT_EQ(status_of_kind("strange"), 500);
  EXPECT_EQ(status_of_kind("silent"), 500);
  client.send(get("/throw?kind=late"));
  const std::string all = client.receive_all();
  EXPECT_NE(all.find("a part"), std::string::npos);
  EXPECT_EQ(all.find("0\r\n\r\n"), std::string::npos);
}

TEST(Server, HeaderValuesCannotAddHeaderLines) {
  Server server(
      local_options(),
      {{.methods = {Method::kGet}, .pattern = "/fields", .handler = [](Exchange& exchange) {
          exchange.respond({.status = 200,
                            .content_type = "a\r\nX-Bad: 1",
                            .headers = {{"X-Good", "b\nX-Bad: 2"}},
                            .body = ""});
        }}});
  RawClient client(server.port());
  client.send(get("/fields"));
  const auto response = client.response();
  EXPECT_EQ(response->headers.find("X-Bad"), nullptr);
  EXPECT_EQ(response->headers.get("X-Good"), "b X-Bad: 2");
}

TEST(Server, ListensOnIpv6) {
  ServerOptions options;
  options.host = "::1";
  try {
    Server server(options, sample_routes());
    Client client({.host = "::1", .port = server.port()});
    EXPECT_TRUE(client.send({.target = "/show/x"}).body.find("|[::1]:") != std::string::npos);
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
}

TEST(Server, ThrowsIfItCannotListen) {
  Server first(local_options(), sample_routes());
  ServerOptions options = local_options();
  options.port = first.port();
  EXPECT_THROW(Server(options, sample_routes()), Error);
  EXPECT_THROW(Server(ServerOptions{}, sample_routes()), Error);
  options.host = "192.0.2.1";
  EXPECT_THROW(Server(options, sample_routes()), Error);
}

TEST(Server, ServesAUnixSocketForThisUserOnly) {
  const TempFolder folder;
  ServerOptions options;
  options.socket_path = folder.path("socket");
  struct stat info{};
  {
    Server server(options, sample_routes());
    EXPECT_EQ(server.port(), 0);
    ASSERT_EQ(::stat(options.socket_path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
    RawClient client(options.socket_path);
    client.send(get("/show/x"));
    EXPECT_TRUE(client.response()->body.ends_with("|unix"));
    EXPECT_THROW(Server(options, sample_routes()), Error);
    client.send(get("/hello"));
    EXPECT_EQ(client.response()->body, "hello");
  }
  EXPECT_NE(::stat(options.socket_path.c_str(), &info), 0);
}

TEST(Server, ReplacesAStaleSocketFile) {
  const TempFolder folder;
  ServerOptions options = local_options();
  options.socket_path = folder.path("socket");
  {
    Server first(options, sample_routes());
    // A killed server leaves the socket file without a process that listens.
    ASSERT_EQ(::link(options.socket_path.c_str(), folder.path("stale").c_str()), 0);
  }
  options.socket_path = folder.path("stale");
  Server server(options, sample_routes());
  RawClient client(options.socket_path);
  client.send(get("/hello"));
  EXPECT_EQ(client.response()->body, "hello");
  RawClient by_tcp(server.port());
  by_tcp.send(get("/hello"));
  EXPECT_EQ(by_tcp.response()->body, "hello");
}

TEST(Server, LeavesOtherFilesAlone) {
  const TempFolder folder;
  ServerOptions options;
  options.socket_path = folder.path("file");
  std::ofstream(options.socket_path) << "precious";
  EXPECT_THROW(Server(options, sample_routes()), Error);
  EXPECT_EQ(::access(options.socket_path.c_str(), F_OK), 0);
  options.socket_path = folder.path(std::string(200, 'x'));
  EXPECT_THROW(Server(options, sample_routes()), Error);
}

TEST(Server, DropsBodiesThatHandlersDoNotRead) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/unread", std::string(100'000, 'x')));
    EXPECT_EQ(client.response()->body, "hello");
  }
  // A rest that is too long to drop ends the connection, and the response announces that.
  client.send("POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\nbegin");
  EXPECT_EQ(client.response()->headers.get("Connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST(Server, RunsFiveHundredRequestsInParallel) {
  ServerOptions options = local_options();
  options.max_connections = 600;
  std::latch all_inside(500);
  Server server(
      options,
      {{.methods = {Method::kPost}, .pattern = "/echo", .handler = [&](Exchange& exchange) {
          all_inside.arrive_and_wait();  // all handlers must run in parallel, or this waits forever
          echo(exchange);
        }}});
  std::vector<RawClient> clients;
  for (int i = 0; i < 500; ++i) {
    clients.emplace_back(server.port());
    ASSERT_TRUE(clients.back().is_connected());
    clients.back().send(post("/echo", std::to_string(i)));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const std::optional<Response> response = clients[i].response();
    ASSERT_TRUE(response.has_value()) << i;
    EXPECT_EQ(response->body, std::to_string(i));
  }
  EXPECT_EQ(server.n_connections(), 500u);
  EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 0; }));
}

}  // namespace
}  // namespace billow::http
