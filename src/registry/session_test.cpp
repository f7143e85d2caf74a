#include "registry/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/server.h"
#include "registry/origin.h"

namespace billow::registry {
namespace {

using http::Exchange;
using http::Method;

constexpr const char* kSumOfNothing =
    "ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";

TEST(Origin, ExistsOnlyForHttpUrls) {
  EXPECT_EQ(origin_of("https://A.example/x"), (Origin{"https", "a.example", "443"}));
  EXPECT_EQ(origin_of("http://a.example:8080?x"), (Origin{"http", "a.example", "8080"}));
  EXPECT_EQ(origin_of("http://[::1]:5000/"), (Origin{"http", "[::1]", "5000"}));
  EXPECT_EQ(origin_of("http://[::1]"), (Origin{"http", "[::1]", "80"}));
  EXPECT_EQ(origin_of("https://a:/"), origin_of("https://a:443"));
  for (const char* url : {"", "a", "ftp://a/", "http://", "https:///x", "http://u@a/",
                          "http://a:b/", "http://[::1/", "file:///etc/passwd"}) {
    EXPECT_FALSE(origin_of(url)) << url;
  }
}

TEST(Location, IsResolvedAgainstItsBaseUrl) {
  const std::string base = "https://r.example/v2/a/b/blobs/x?y=z";
  EXPECT_EQ(resolved_url(base, "/up?a=b"), "https://r.example/up?a=b");
  EXPECT_EQ(resolved_url(base, "other"), "https://r.example/v2/a/b/blobs/other");
  EXPECT_EQ(resolved_url(base, "https://cdn.example/f?s=1&t=%2F"),
            "https://cdn.example/f?s=1&t=%2F");
  EXPECT_EQ(resolved_url(base, "//cdn.example/f"), "https://cdn.example/f");
  EXPECT_FALSE(resolved_url(base, "file:///etc/passwd"));
  EXPECT_FALSE(resolved_url(base, "http://user@h/"));
}

TEST(ErrorText, HasTheRegistrysMessageInOneLine) {
  const auto text = [](int status, std::string body) {
    return error_text({.status = status, .headers = {}, .body = std::move(body)});
  };
  EXPECT_EQ(text(404, R"({"errors":[{"code":"A","message":"manifest unknown"},{"code":"B"}]})"),
            "404: manifest unknown; B");
  EXPECT_EQ(text(400, R"({"error":"no such quant"})"), "400: no such quant");
  EXPECT_EQ(text(502, " bad\ngateway\n"), "502: bad gateway");
  EXPECT_EQ(text(500, ""), "500");
  EXPECT_EQ(text(500, "{}"), "500: {}");
  EXPECT_EQ(text(404, " <!DOCTYPE HTML>\n<html><h1>Not found</h1></html>"), "404");
  EXPECT_EQ(text(403, "<Error><Code>AccessDenied</Code></Error>"),
            "403: <Error><Code>AccessDenied</Code></Error>");
  EXPECT_EQ(text(500, std::string(9000, 'x')), "500: " + std::string(500, 'x'));
}

// A registry at 127.0.0.1 that requires tokens, and another host to which it redirects.
class SessionTest : public testing::Test {
 protected:
  SessionTest()
      : key_(IdentityKey::make()),
        elsewhere_(options(), other_routes()),
        server_(options(), routes()) {
    ::setenv("no_proxy", "*", 1);
    name_.scheme = "http";
    name_.host = host(server_);
    name_.space = "a";
    name_.model = "m";
  }

  static http::ServerOptions options() {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }
  static std::string host(const http::Server& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }
  static http::Route route(const char* pattern, http::Handler handler) {
    http::Route route;
    route.methods = {Method::kGet, Method::kPut};
    route.pattern = pattern;
    route.handler = std::move(handler);
    return route;
  }
  static void redirect(Exchange& exchange, const std::string& to) {
    exchange.respond(
        {.status = 307, .content_type = "", .headers = {{"Location", to}}, .body = "moved"});
  }

  std::vector<http::Route> other_routes() {
    return {route("/:any", [this](Exchange& exchange) {
      {
        const std::scoped_lock lock(mutex_);
        other_saw_ = std::string(exchange.request().headers.get("Authorization"));
      }
      if (exchange.request().path == "/refused") {
        exchange.respond({.status = 401,
                          .content_type = "",
                          .headers = {{"WWW-Authenticate", "Bearer realm=\"http://127.0.0.1/\""}},
                          .body = "no"});
        return;
      }
      exchange.respond(http::text_response(200, "from elsewhere"));
    })};
  }

  std::vector<http::Route> routes() {
    return {
        route("/token",
              [this](Exchange& exchange) {
                const http::Request& request = exchange.request();
                const std::string url = "http://" + host(server_) + request.target;
                const std::string wanted =
                    key_.public_text() + ":" + key_.sign("GET," + url + "," + kSumOfNothing);
                ++n_tokens_;
                if (status_of_tokens_ != 0) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(50));
                  exchange.respond(http::text_response(status_of_tokens_, "busy"));
                  return;
                }
                if (request.headers.get("Authorization") != wanted || refuses_) {
                  exchange.respond(http::text_response(401, R"({"error":"unknown key"})"));
                  return;
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                const std::scoped_lock lock(mutex_);
                token_ = "t" + std::to_string(n_tokens_.load());
                exchange.respond(http::text_response(200, "{\"token\":\"" + token_ + "\"}"));
              }),
        route("/v2/a/m/open",
              [](Exchange& exchange) { exchange.respond(http::text_response(200, "open")); }),
        route("/v2/a/m/closed",
              [this](Exchange& exchange) {
                if (!admits(exchange)) return;
                exchange.respond(http::text_response(200, exchange.request().body + "closed"));
              }),
        route("/v2/a/m/away",
              [this](Exchange& exchange) {
                if (!admits(exchange)) return;
                const std::string to(exchange.request().query.find("to")->second);
                redirect(exchange, to.starts_with('/') || to.starts_with("http")
                                       ? to
                                       : "http://" + host(elsewhere_) + "/" + to);
              }),
        route("/v2/a/m/loop", [](Exchange& exchange) { redirect(exchange, "loop"); }),
        route("/v2/a/m/empty",
              [](Exchange& exchange) {
                exchange.respond({.status = 302, .content_type = "", .headers = {}, .body = ""});
              }),
    };
  }

  bool admits(Exchange& exchange) {
    const std::scoped_lock lock(mutex_);
    if (!token_.empty() && exchange.request().headers.get("Authorization") == "Bearer " + token_)
      return true;
    const std::string asks =
        challenge_.value_or("Bearer realm=\"http://" + host(server_) +
                            "/token\",service=\"s\",scope=\"repository:a/m:pull\"");
    http::Headers headers;
    if (!first_challenge_.empty()) headers.add("WWW-Authenticate", first_challenge_);
    headers.add("www-authenticate", asks);
    exchange.respond(
        {.status = 401, .content_type = "", .headers = std::move(headers), .body = "who?"});
    return false;
  }

  std::string why_not(Session& session, const std::string& path) {
    try {
      session.follow({.url = path});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const IdentityKey key_;
  std::mutex mutex_;
  std::string token_;
  std::string other_saw_ = "nothing";
  std::optional<std::string> challenge_;
  std::string first_challenge_;  // in a field of its own, before the other one
  std::atomic<int> n_tokens_{0};
  std::atomic<int> n_keys_{0};
  std::atomic<bool> refuses_{false};
  std::atomic<int> status_of_tokens_{0};
  store::Name name_;
  http::Server elsewhere_;
  http::Server server_;
  Transport transport_;
  std::function<IdentityKey()> source_ = [this] {
    ++n_keys_;
    return key_;
  };
};

TEST_F(SessionTest, SendsToItsRepository) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  EXPECT_EQ(session.base(), "http://" + name_.host + "/v2/a/m");
  EXPECT_EQ(session.send({.url = "/open"}).body, "open");
  EXPECT_EQ(session.send({.url = session.base() + "/open"}).body, "open");
  EXPECT_EQ(session.send({.url = "/none"}).status, 404);
  EXPECT_EQ(n_keys_, 0) << "no key is created unless the registry asks for it";
  EXPECT_THROW(Session(transport_, name_, {.key = source_}), Error);
  name_.scheme = "https";
  EXPECT_EQ(Session(transport_, name_, {.key = source_}).base(),
            "https://" + name_.host + "/v2/a/m");
}

TEST_F(SessionTest, GetsATokenOnDemand) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(session.send({.url = "/closed"}).body, "closed");
  EXPECT_EQ(n_tokens_, 1);
  {
    const std::scoped_lock lock(mutex_);
    token_.clear();  // the token has expired
  }
  EXPECT_EQ(session.send({.method = "PUT", .url = "/closed", .body = "un"}).body, "unclosed");
  EXPECT_EQ(n_tokens_, 2);
}

TEST_F(SessionTest, GetsOneTokenForAllThreads) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  std::vector<std::jthread> threads;
  std::atomic<int> n_good{0};
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] { n_good += session.send({.url = "/closed"}).status == 200 ? 1 : 0; });
  threads.clear();
  EXPECT_EQ(n_good, 16);
  EXPECT_EQ(n_tokens_, 1);
}

TEST_F(SessionTest, ReportsWhyThereIsNoToken) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  refuses_ = true;
  EXPECT_EQ(why_not(session, "/closed"),
            name_.host + ": unauthorized: access denied (401: unknown key)");
  challenge_ = "Basic realm=\"x\"";
  EXPECT_EQ(why_not(session, "/closed"),
            name_.host + ": unauthorized: the registry wants a password; 'docker login " +
                name_.host +
                "' stores it in ~/.docker/config.json (passwords in a credential helper are not "
                "read)");
  challenge_ = "Negotiate x";
  EXPECT_EQ(
      why_not(session, "/closed"),
      name_.host + ": unauthorized: the registry gives no tokens, it wants negotiate (401: who?)");
  challenge_ = "";
  EXPECT_EQ(why_not(session, "/closed"),
            name_.host + ": unauthorized: the registry gives no tokens (401: who?)");
  challenge_ = "Bearer realm=\"http://evil.example/token\"";
  EXPECT_EQ(why_not(session, "/closed"),
            "realm host \"evil.example\" does not match original host \"" + name_.host + "\"");
  refuses_ = false;
  challenge_.reset();
  EXPECT_EQ(session.send({.url = "/closed"}).status, 200);
}

TEST_F(SessionTest, ATokenServerMayFailForATime) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  for (const int status : {408, 429, 500, 503}) {
    status_of_tokens_ = status;
    try {
      session.send({.url = "/closed"});
      ADD_FAILURE() << status;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_EQ(std::string(error.what()),
                name_.host + ": the token server answered " + std::to_string(status) + ": busy");
    }
  }
  status_of_tokens_ = 403;
  EXPECT_EQ(why_not(session, "/closed"), name_.host + ": unauthorized: access denied (403: busy)");
  status_of_tokens_ = 0;
  EXPECT_EQ(session.send({.url = "/closed"}).body, "closed");
}

TEST_F(SessionTest, ThreadsShareAFailureOfTheTokenServer) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  status_of_tokens_ = 503;
  std::vector<std::jthread> threads;
  std::atomic<int> n_failed{0};
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] { n_failed += why_not(session, "/closed").empty() ? 0 : 1; });
  threads.clear();
  EXPECT_EQ(n_failed, 16);
  EXPECT_LT(n_tokens_, 16) << "threads that wait for a token do not ask one after another";
  status_of_tokens_ = 0;
  EXPECT_EQ(session.send({.url = "/closed"}).body, "closed");
}

TEST_F(SessionTest, ReadsTheChallengesOfAllFields) {
  first_challenge_ = "Basic realm=\"x\"";
  Session session(transport_, name_, {.insecure = true, .key = source_});
  EXPECT_EQ(session.send({.url = "/closed"}).body, "closed");
}

TEST_F(SessionTest, ErrorsNameTheMirror) {
  const std::string host = name_.host;
  name_.scheme = "https";
  name_.host = "registry.example";
  Session session(transport_, name_, {.key = source_, .mirror = "http://" + host});
  challenge_ = "Basic realm=\"x\"";
  EXPECT_TRUE(why_not(session, "/closed")
                  .starts_with(host +
                               ": unauthorized: the registry wants a password; 'docker "
                               "login " +
                               host + "' "));
  challenge_.reset();
  refuses_ = true;
  EXPECT_TRUE(why_not(session, "/closed").starts_with(host + ": unauthorized: access denied"));
}

TEST_F(SessionTest, FollowsRedirectsWithoutItsToken) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  std::string final_url;
  EXPECT_EQ(session.follow({.url = "/away?to=file"}, {}, &final_url).body, "from elsewhere");
  EXPECT_EQ(final_url, "http://" + host(elsewhere_) + "/file");
  EXPECT_EQ(other_saw_, "");
  EXPECT_EQ(session.follow({.url = "/away?to=/v2/a/m/closed"}, {}, &final_url).body, "closed");
  EXPECT_EQ(final_url, session.base() + "/closed");
  EXPECT_EQ(session.follow({.url = "/away?to=refused"}).status, 401);
  EXPECT_EQ(n_tokens_, 1) << "another host gets no token of the registry";
}

TEST_F(SessionTest, ReportsBadRedirects) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  EXPECT_EQ(why_not(session, "/away?to=/v2/a/m/away?to=/v2/a/m/away%3Fto=x"), "");
  EXPECT_EQ(why_not(session, "/loop"), name_.host + ": the registry redirects more than 10 times");
  EXPECT_EQ(why_not(session, "/empty"),
            name_.host + ": the registry's redirect has no valid address: Location is missing");
}

TEST_F(SessionTest, PassesOnOnlyBodiesOfSuccess) {
  Session session(transport_, name_, {.insecure = true, .key = source_});
  std::string body;
  Request request{.url = "/closed"};
  request.on_body = [&](const Reply&, std::string_view bytes) {
    body += bytes;
    return true;
  };
  EXPECT_EQ(session.send(request).body, "");
  EXPECT_EQ(body, "closed") << "not the body of the 401 before it";
  body.clear();
  request.url = "/none";
  const Reply reply = session.send(request);
  EXPECT_EQ(reply.status, 404);
  EXPECT_NE(reply.body, "");
  EXPECT_EQ(body, "");
}

}  // namespace
}  // namespace billow::registry
