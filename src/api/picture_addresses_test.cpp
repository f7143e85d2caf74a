#include "api/picture_addresses.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/server.h"
#include "http/status.h"

namespace billow::api {
namespace {

using http::Exchange;
using http::Method;

class PictureAddressesTest : public testing::Test {
 protected:
  static http::ServerOptions options() {
    http::ServerOptions made;
    made.host = "127.0.0.1";
    made.port = 0;
    return made;
  }
  void respond(Exchange& exchange, int status, std::string body, http::Headers headers = {}) {
    ++n_requests;
    exchange.respond({.status = status, .headers = std::move(headers), .body = std::move(body)});
  }
  std::vector<http::Route> routes() {
    const auto at = [](std::string path, http::Handler handler) {
      return http::Route{
          .methods = {Method::kGet}, .pattern = std::move(path), .handler = std::move(handler)};
    };
    return {at("/a.png", [this](Exchange& e) { respond(e, 200, "picture a"); }),
            at("/b.png", [this](Exchange& e) { respond(e, 200, "picture b"); }),
            at("/large", [this](Exchange& e) { respond(e, 200, std::string(2000, 'x')); }),
            at("/moved", [this](Exchange& e) { respond(e, 302, "", {{"Location", "/a.png"}}); }),
            at("/away",
               [this](Exchange& e) {
                 respond(e, 302, "", {{"Location", "http://localhost:" + port() + "/a.png"}});
               }),
            at("/circle", [this](Exchange& e) { respond(e, 307, "", {{"Location", "/circle"}}); }),
            at("/slow-circle",
               [this](Exchange& e) {
                 std::this_thread::sleep_for(std::chrono::milliseconds(100));
                 respond(e, 307, "", {{"Location", "/slow-circle"}});
               }),
            at("/slow", [this](Exchange& e) {
              ++n_slow;
              e.begin_stream(200, "image/png");
              while (e.write("x")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            })};
  }

  std::string port() const { return std::to_string(server.port()); }
  std::string url(const std::string& path) const { return "http://127.0.0.1:" + port() + path; }
  PictureAddressOptions allowed() const {
    return {.hosts = {"127.0.0.1:" + port()}, .max_bytes = 1000, .allows_private = true};
  }
  static std::vector<Message> messages(const std::vector<std::string>& addresses) {
    std::vector<Message> made = {{.role = "system", .parts = {TextPart{"s"}}}, {.role = "user"}};
    made[1].parts.emplace_back(ImagePart{.bytes = "own"});
    for (const std::string& address : addresses)
      made[1].parts.emplace_back(ImagePart{.bytes = {}, .address = address});
    return made;
  }
  // Returns the status and the message of the refusal.
  static std::pair<int, std::string> refusal(PictureAddressOptions options,
                                             const std::string& address) {
    PictureAddresses addresses(std::move(options));
    std::vector<Message> given = messages({address});
    try {
      addresses.fetch(given, {});
    } catch (const http::StatusError& error) {
      return {error.status(), error.what()};
    }
    return {0, "not refused"};
  }

  std::atomic<int> n_requests{0};
  std::atomic<int> n_slow{0};  // requests for /slow
  http::Server server{options(), routes()};
};

TEST_F(PictureAddressesTest, AddressesBecomeBytes) {
  PictureAddresses addresses(allowed());
  std::vector<Message> given = messages({url("/a.png"), url("/b.png"), url("/moved")});
  ASSERT_TRUE(has_picture_addresses(given));
  addresses.fetch(given, {});
  EXPECT_FALSE(has_picture_addresses(given));
  const auto bytes = [&](size_t i) { return std::get<ImagePart>(given[1].parts[i]).bytes; };
  EXPECT_EQ(bytes(0), "own");
  EXPECT_EQ(bytes(1), "picture a");
  EXPECT_EQ(bytes(2), "picture b");
  EXPECT_EQ(bytes(3), "picture a");
}

TEST_F(PictureAddressesTest, WithoutHostsNothingIsFetched) {
  const auto [status, text] = refusal({.allows_private = true}, url("/a.png"));
  EXPECT_EQ(status, 400);
  EXPECT_NE(text.find("image 2: image URLs are not currently supported"), std::string::npos);
  EXPECT_EQ(n_requests, 0);
}

TEST_F(PictureAddressesTest, OtherHostsAndPortsAreRefused) {
  for (const std::string& address :
       {std::string("http://localhost:") + port() + "/a.png", std::string("http://127.0.0.1/a.png"),
        std::string("http://127.0.0.1:") + port() + "@evil/a.png", std::string("http://127.0.0.2/"),
        "http://a@127.0.0.1:" + port() + "/a.png"}) {
    const auto [status, text] = refusal(allowed(), address);
    EXPECT_EQ(status, 400) << address;
    EXPECT_NE(text.find("--picture-hosts does not allow it"), std::string::npos) << text;
  }
  EXPECT_EQ(n_requests, 0);
}

TEST_F(PictureAddressesTest, RedirectsToOtherHostsAreRefused) {
  const auto [status, text] = refusal(allowed(), url("/away"));
  EXPECT_EQ(status, 400);
  EXPECT_NE(text.find("--picture-hosts does not allow it"), std::string::npos) << text;
  EXPECT_EQ(n_requests, 1);
}

TEST_F(PictureAddressesTest, PrivateAddressesAreRefused) {
  PictureAddressOptions options = allowed();
  options.allows_private = false;
  options.hosts = {"*:" + port()};
  for (const char* host : {"127.0.0.1", "localhost", "[::1]", "2130706433"}) {
    const auto [status, text] =
        refusal(options, "http://" + std::string(host) + ":" + port() + "/a.png");
    EXPECT_EQ(status, 400) << host;
    EXPECT_NE(text.find("is not a public address"), std::string::npos) << text;
  }
  EXPECT_EQ(n_requests, 0);
}

TEST_F(PictureAddressesTest, FailuresNameTheReason) {
  const std::pair<std::string, std::string> kCases[] = {
      {"/nothing", "status 404"},
      {"/large", "the picture has more than 1000 bytes"},
      {"/circle", "too many redirects"}};
  for (const auto& [path, why] : kCases) {
    const auto [status, text] = refusal(allowed(), url(path));
    EXPECT_EQ(status, 400) << path;
    EXPECT_NE(text.find(why), std::string::npos) << text;
  }
}

TEST_F(PictureAddressesTest, SlowPicturesEnd) {
  PictureAddressOptions options = allowed();
  options.timeout = std::chrono::milliseconds(200);
  for (const char* path : {"/slow", "/slow-circle"})
    EXPECT_NE(refusal(options, url(path)).second.find("took too long"), std::string::npos) << path;
}

TEST_F(PictureAddressesTest, CancelledRequestsEnd) {
  // Only the cancellation ends this download.
  PictureAddressOptions options = allowed();
  options.max_bytes = size_t{1} << 40;
  options.timeout = std::chrono::hours(1);
  PictureAddresses addresses(options);
  std::vector<Message> given = messages({url("/slow")});
  std::stop_source stop;
  const std::jthread canceller([&] {
    while (n_slow == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop.request_stop();
  });
  EXPECT_THROW(addresses.fetch(given, stop.get_token()), http::StatusError);
}

TEST_F(PictureAddressesTest, EntriesMatchHosts) {
  const auto allows = [](const std::string& entry, const std::string& address) {
    const auto [status, text] = refusal({.hosts = {entry}, .timeout = {}}, address);
    return text.find("does not allow it") == std::string::npos;
  };
  // These names do not resolve, so nothing is sent.
  EXPECT_TRUE(allows("a.invalid", "https://A.invalid/x"));
  EXPECT_TRUE(allows("A.Invalid", "http://a.invalid/x"));
  EXPECT_FALSE(allows("a.invalid", "http://a.invalid:8080/x"));
  EXPECT_TRUE(allows("a.invalid:8080", "http://a.invalid:8080/x"));
  EXPECT_FALSE(allows("a.invalid:8080", "http://a.invalid/x"));
  EXPECT_TRUE(allows("*.invalid", "http://b.a.invalid/x"));
  EXPECT_FALSE(allows("*.a.invalid", "http://a.invalid/x"));
  EXPECT_FALSE(allows("*.a.invalid", "http://xa.invalid/x"));
  EXPECT_TRUE(allows("*", "http://c.invalid/x"));
  EXPECT_FALSE(allows("*", "http://c.invalid:99/x"));
}

TEST_F(PictureAddressesTest, WrongEntriesAreRefused) {
  for (const char* entry :
       {"", "http://a", "a/b", "a b", "a:", "a:x", "a:123456", "*a", "a.*", "a@b"})
    EXPECT_THROW(PictureAddresses({.hosts = {entry}}), Error) << entry;
  EXPECT_NO_THROW(PictureAddresses({.hosts = {"a", "*.a", "*", "a:1", "[::1]", "[::1]:80"}}));
}

}  // namespace
}  // namespace billow::api
