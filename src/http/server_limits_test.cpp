// Tests the server's limits and its shutdown.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/raw_client.h"
#include "http/server.h"
#include "http/socket_address.h"

namespace billow::http {
namespace {

using std::chrono::milliseconds;

std::vector<Route> sample_routes() {
  const auto echo = [](Exchange& exchange) {
    exchange.respond(text_response(200, exchange.request().body));
  };
  const auto count = [](Exchange& exchange) {
    std::vector<char> buffer(1000);
    size_t n_bytes = 0;
    while (const size_t n = exchange.read_body(buffer)) n_bytes += n;
    exchange.respond(text_response(200, std::to_string(n_bytes)));
  };
  return {
      {.methods = {Method::kGet, Method::kPost}, .pattern = "/echo", .handler = echo},
      {.methods = {Method::kPost}, .pattern = "/upload", .handler = count, .streams_body = true}};
}

TEST(Limits, MalformedRequestsAreRefused) {
  Server server(local_options(), sample_routes());
  for (const char* text :
       {"nonsense\r\n\r\n", "GET /echo\r\n\r\n", "GET  /echo HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /echo HTTP/3.0\r\nHost: h\r\n\r\n", "GET /echo HTTP/1.1\r\n\r\n",
        "GET echo HTTP/1.1\r\nHost: h\r\n\r\n", "\x16\x03\x01\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n"}) {
    RawClient client(server.port());
    client.send(text);
    const auto response = client.response();
    ASSERT_TRUE(response) << text;
    EXPECT_EQ(response->status, 400) << text;
  }
  RawClient client(server.port());
  client.send("GET /echo HTTP/1.1\r\nHost");
  client.half_close();
  EXPECT_EQ(client.response()->status, 400);
}

TEST(Limits, BlankLinesBeforeARequestAreIgnored) {
  Server server(local_options(), sample_routes());
  RawClient client(server.port());
  client.send("\r\n\r\n" + get("/echo"));
  EXPECT_EQ(client.response()->status, 200);
}

TEST(Limits, LargeHeadersAreRefused) {
  ServerOptions options = local_options();
  options.max_header_bytes = 4096;
  Server server(options, sample_routes());
  RawClient client(server.port());
  client.send(get("/echo", "X: " + std::string(3900, 'x') + "\r\n"));
  EXPECT_EQ(client.response()->status, 200);
  client.send(get("/echo", "X: " + std::string(5000, 'x') + "\r\n"));
  EXPECT_EQ(client.response()->status, 431);
  EXPECT_TRUE(client.is_closed());
  RawClient endless(server.port());
  endless.send("GET /");
  for (int i = 0; i < 10; ++i) endless.send(std::string(1000, 'x'));
  EXPECT_EQ(endless.response()->status, 431);
}

TEST(Limits, LargeBodiesAreRefused) {
  ServerOptions options = local_options();
  options.max_body_bytes = 1000;
  Server server(options, sample_routes());
  RawClient client(server.port());
  client.send(post("/echo", std::string(1000, 'x')));
  EXPECT_EQ(client.response()->body.size(), 1000u);
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(client.response()->status, 413);
  EXPECT_TRUE(client.is_closed());
  RawClient chunked(server.port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.send("190\r\n" + std::string(0x190, 'x') + "\r\n");
  EXPECT_EQ(chunked.response()->status, 413);
}

TEST(Limits, LongChunkExtensionsAreRefused) {
  Server server(local_options(), sample_routes());
  for (const char* path : {"/echo", "/upload"}) {
    RawClient client(server.port());
    client.send("POST " + std::string(path) +
                " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=");
    const std::string more(100'000, 'x');
    for (int i = 0; i < 20 && client.send(more); ++i) continue;
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 400);
  }
}

TEST(Limits, SlowSendersTimeOut) {
  ServerOptions options = local_options();
  options.header_timeout = milliseconds(150);
  options.body_timeout = milliseconds(150);
  options.body_idle_timeout = milliseconds(150);
  Server server(options, sample_routes());
  RawClient header(server.port());
  RawClient body(server.port());
  RawClient upload(server.port());
  header.send("GET /echo HT");
  body.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
  upload.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
  for (RawClient* client : {&header, &body, &upload}) {
    const auto response = client->response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 408);
    EXPECT_EQ(response->headers.get("Connection"), "close");
    EXPECT_TRUE(client->is_closed());
  }
}

TEST(Limits, SteadyUploadsDoNotTimeOut) {
  ServerOptions options = local_options();
  options.header_timeout = milliseconds(500);
  options.body_timeout = milliseconds(500);
  options.body_idle_timeout = milliseconds(60'000);
  Server server(options, sample_routes());
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(milliseconds(80));
    client.send("x");
  }
  EXPECT_EQ(client.response()->body, "10");
}

TEST(Limits, IdleConnectionsAreClosed) {
  ServerOptions options = local_options();
  options.idle_timeout = milliseconds(1000);
  Server server(options, sample_routes());
  std::optional<RawClient> client;
  // On a busy machine, a request can arrive after the timeout.
  ASSERT_TRUE(eventually([&] {
    client.emplace(server.port());
    client->send(get("/echo"));
    const auto response = client->response();
    return response && response->status == 200;
  }));
  EXPECT_TRUE(client->is_closed());
  RawClient silent(server.port());
  EXPECT_TRUE(silent.is_closed());
}

TEST(Limits, ConnectionsBeyondTheMaxGet503) {
  ServerOptions options = local_options();
  options.max_connections = 3;
  Server server(options, sample_routes());
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get("/echo"));
    EXPECT_EQ(clients.back().response()->status, 200);
  }
  RawClient more(server.port());
  const auto response = more.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->headers.get("Connection"), "close");
  EXPECT_TRUE(more.is_closed());
  EXPECT_EQ(server.n_connections(), 3u);
  clients[0].send(get("/echo"));
  EXPECT_EQ(clients[0].response()->status, 200);
  clients.pop_back();
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 2; }));
  RawClient again(server.port());
  again.send(get("/echo"));
  EXPECT_EQ(again.response()->status, 200);
}

TEST(Limits, AConnectionFloodLeavesOpenConnectionsUsable) {
  ServerOptions options = local_options();
  options.max_connections = 2;
  Server server(options, sample_routes());
  RawClient first(server.port());
  first.send(get("/echo"));
  EXPECT_EQ(first.response()->status, 200);
  {
    std::vector<RawClient> flood;
    for (int i = 0; i < 200; ++i) flood.emplace_back(server.port());
    for (RawClient& client : flood) client.send(get("/echo"));
    first.send(get("/echo"));
    EXPECT_EQ(first.response()->status, 200);
  }
  EXPECT_TRUE(eventually([&] { return server.n_connections() == 1; }));
}

// The process can open no more files during the lifetime of this object.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

// Returns the CPU time of this process.
std::chrono::microseconds cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Returns whether the captured standard error has any text. Opens no file.
bool has_captured_text() {
  struct stat status{};
  return ::fstat(STDERR_FILENO, &status) == 0 && status.st_size > 0;
}

// Clang's UndefinedBehaviorSanitizer opens a pipe to check whether memory is readable, and ends the
// program if it cannot.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BILLOW_SANITIZER_OPENS_FILES
#endif
#endif

// The doors of TCP and of the Unix socket wait without using the CPU, and the log has one line.
TEST(Limits, ClientsWaitWhileNoFileCanBeOpened) {
#ifdef BILLOW_SANITIZER_OPENS_FILES
  GTEST_SKIP() << "the sanitizers of this build need to open files";
#endif
  const TempFolder folder;
  ServerOptions options = local_options();
  options.socket_path = folder.path("socket");
  Server server(options, sample_routes());
  SocketFd by_tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketFd by_unix(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in tcp{};
  tcp.sin_family = AF_INET;
  tcp.sin_port = htons(server.port());
  tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const sockaddr_un local = unix_address(options.socket_path);
  std::chrono::microseconds used{};
  testing::internal::CaptureStderr();
  {
    const NoMoreFiles none;
    EXPECT_EQ(::connect(by_tcp.get(), reinterpret_cast<const sockaddr*>(&tcp), sizeof tcp), 0);
    EXPECT_EQ(::connect(by_unix.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
    EXPECT_TRUE(eventually(has_captured_text));
    const std::chrono::microseconds before = cpu_time();
    std::this_thread::sleep_for(milliseconds(1500));
    used = cpu_time() - before;
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LT(used, milliseconds(200));
  EXPECT_EQ(count(log, "cannot accept connections: Too many open files"), 1u) << log;
  for (SocketFd* socket : {&by_tcp, &by_unix}) {
    RawClient client(std::move(*socket));
    client.send(get("/echo"));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
  }
}

// A route whose response continues until the test ends it.
struct LongAnswer {
  std::atomic<bool> may_end{false};
  Route route() {
    return {.methods = {Method::kGet}, .pattern = "/long", .handler = [this](Exchange& exchange) {
              exchange.begin_stream(200, "text/plain");
              while (!may_end && exchange.write("x")) {
                std::this_thread::sleep_for(milliseconds(5));
              }
              if (exchange.write("the end")) exchange.finish();
            }};
  }
};

TEST(Drain, LetsActiveRequestsFinish) {
  LongAnswer answer;
  std::vector<Route> routes = sample_routes();
  routes.push_back(answer.route());
  Server server(local_options(), routes);
  RawClient busy(server.port());
  busy.send(get("/long"));
  busy.receive_until("x");
  RawClient idle(server.port());
  idle.send(get("/echo"));
  EXPECT_EQ(idle.response()->status, 200);
  const uint16_t port = server.port();
  std::atomic<bool> all_answered{false};
  std::thread drainer([&] { all_answered = server.drain(RawClient::kTimeout); });
  EXPECT_TRUE(eventually([&] { return !RawClient(port).is_connected(); }));
  idle.send(get("/echo"));
  const auto response = idle.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->headers.get("Connection"), "close");
  answer.may_end = true;
  EXPECT_TRUE(busy.receive_all().ends_with("the end\r\n0\r\n\r\n"));
  drainer.join();
  EXPECT_TRUE(all_answered);
  EXPECT_EQ(server.n_connections(), 0u);
}

// A page of another origin may read the 503 and its Retry-After. A foreign page may not.
TEST(Drain, ChecksAccessFirst) {
  LongAnswer answer;
  std::vector<Route> routes = sample_routes();
  routes.push_back(answer.route());
  ServerOptions options = local_options();
  options.admit = [](const Request& request, BindKind bind, std::string_view) {
    return check_access(AllowedOrigins(), {}, bind, request);
  };
  Server server(options, routes);
  RawClient busy(server.port());
  busy.send(get("/long"));
  busy.receive_until("x");
  RawClient page(server.port());
  RawClient foreign(server.port());
  for (RawClient* client : {&page, &foreign}) {
    client->send(get("/echo"));
    EXPECT_EQ(client->response()->status, 200);
  }
  const uint16_t port = server.port();
  std::thread drainer([&] { server.drain(RawClient::kTimeout); });
  EXPECT_TRUE(eventually([&] { return !RawClient(port).is_connected(); }));
  page.send(get("/echo", "Origin: http://localhost:3000\r\n"));
  const auto told = page.response();
  foreign.send(get("/echo", "Origin: http://evil.example\r\n"));
  const auto refused = foreign.response();
  answer.may_end = true;
  drainer.join();
  ASSERT_TRUE(told && refused);
  EXPECT_EQ(told->status, 503);
  EXPECT_EQ(told->headers.get("Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_TRUE(told->headers.has_token("Access-Control-Expose-Headers", "Retry-After"));
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(refused->headers.get("Connection"), "close");
}

TEST(Drain, TimesOut) {
  LongAnswer answer;
  Server server(local_options(), {answer.route()});
  RawClient client(server.port());
  client.send(get("/long"));
  client.receive_until("x");
  EXPECT_FALSE(server.drain(milliseconds(100)));
  EXPECT_EQ(server.n_connections(), 0u);
  EXPECT_FALSE(client.receive_all().ends_with("0\r\n\r\n"));
}

// A route whose response is delayed until the request is cancelled. `is_running`: set when the
// handler starts. A request that is still being read when the server drains gets another response.
Route cancelled_route(bool begins, std::atomic<bool>& is_running) {
  return {.methods = {Method::kGet},
          .pattern = "/held",
          .handler = [begins, &is_running](Exchange& exchange) {
            is_running = true;
            std::atomic<bool> is_cancelled{false};
            if (begins) exchange.begin_stream(200, "text/plain", {}, "x");
            exchange.on_client_gone([&] { is_cancelled = true; });
            if (!eventually([&] { return is_cancelled.load(); })) return;
            const std::string text = exchange.client_gone() ? "gone" : "cancelled";
            if (begins)
              exchange.finish(text);
            else
              exchange.respond(text_response(503, text));
          }};
}

TEST(Drain, CancelledRequestsCanRespond) {
  for (const bool begins : {false, true}) {
    std::atomic<bool> is_running{false};
    Server server(local_options(), {cancelled_route(begins, is_running)});
    RawClient client(server.port());
    client.send(get("/held"));
    ASSERT_TRUE(eventually([&] { return is_running.load(); }));
    EXPECT_FALSE(server.drain(milliseconds(10), RawClient::kTimeout));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, begins ? 200 : 503);
    EXPECT_EQ(response->body, begins ? "xcancelled" : "cancelled");
    EXPECT_TRUE(client.is_closed());
  }
}

TEST(Drain, CancellationUnblocksUploads) {
  std::atomic<bool> is_running{false};
  std::vector<Route> routes = sample_routes();
  routes.back().handler = [&, upload = routes.back().handler](Exchange& exchange) {
    is_running = true;
    upload(exchange);
  };
  Server server(local_options(), routes);
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
  ASSERT_TRUE(eventually([&] { return is_running.load(); }));
  EXPECT_FALSE(server.drain(milliseconds(10), RawClient::kTimeout));
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
}

TEST(Drain, RequestsThatIgnoreCancellationAreAborted) {
  LongAnswer answer;
  Server server(local_options(), {answer.route()});
  RawClient client(server.port());
  client.send(get("/long"));
  client.receive_until("x");
  EXPECT_FALSE(server.drain(milliseconds(10), milliseconds(10)));
  EXPECT_EQ(server.n_connections(), 0u);
  EXPECT_FALSE(client.receive_all().ends_with("0\r\n\r\n"));
}

TEST(Stop, EndsAllConnectionsImmediately) {
  LongAnswer answer;
  std::vector<Route> routes = sample_routes();
  routes.push_back(answer.route());
  Server server(local_options(), routes);
  std::vector<RawClient> clients;
  for (const char* text : {"GET /long HTTP/1.1\r\nHost: h\r\n\r\n", "GET /lo", "",
                           "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello",
                           "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello"}) {
    clients.emplace_back(server.port());
    clients.back().send(text);
  }
  EXPECT_TRUE(eventually([&] { return server.n_active_requests() == 3; }));
  EXPECT_EQ(server.n_connections(), 5u);
  server.stop();
  EXPECT_EQ(server.n_connections(), 0u);
  EXPECT_EQ(server.n_active_requests(), 0u);
  EXPECT_FALSE(RawClient(server.port()).is_connected());
  server.stop();
  EXPECT_TRUE(server.drain(milliseconds(0)));
}

TEST(Stop, WorksRightAfterStart) {
  for (int i = 0; i < 20; ++i) {
    Server server(local_options(), sample_routes());
    RawClient client(server.port());
    client.send(get("/echo"));
  }
}

}  // namespace
}  // namespace billow::http
