#include "http/router.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow::http {
namespace {

using Kind = RouteMatch::Kind;

Router sample() {
  return Router({{{Method::kGet, Method::kHead}, "/"},
                 {{Method::kGet, Method::kHead}, "/api/tags"},
                 {{Method::kPost}, "/api/chat"},
                 {{Method::kHead, Method::kPost}, "/api/blobs/:digest"},
                 {{Method::kGet}, "/v1/models"},
                 {{Method::kGet}, "/v1/models/:model"},
                 {{Method::kGet}, "/v1/models/default"},
                 {{Method::kDelete}, "/v1/models/:name"},
                 {{Method::kGet}, "/users/:user/keys/:key"},
                 {{Method::kGet}, "/users/me/keys/:key"}});
}

void expect_found(Method method, std::string_view path, size_t route,
                  const Parameters& parameters = {}) {
  const RouteMatch match = sample().match(method, path);
  EXPECT_EQ(match.kind, Kind::kFound) << path;
  EXPECT_EQ(match.route, route) << path;
  EXPECT_EQ(match.parameters, parameters) << path;
}

TEST(Router, FindsTheRow) {
  expect_found(Method::kGet, "/", 0);
  expect_found(Method::kHead, "/", 0);
  expect_found(Method::kGet, "/api/tags", 1);
  expect_found(Method::kPost, "/api/chat", 2);
  expect_found(Method::kPost, "/api/%63hat", 2);
}

TEST(Router, FillsParameters) {
  expect_found(Method::kHead, "/api/blobs/sha256:ab", 3, {{"digest", "sha256:ab"}});
  expect_found(Method::kGet, "/users/a/keys/b", 8, {{"user", "a"}, {"key", "b"}});
}

TEST(Router, ParametersAreDecodedAndKeepTheirSlashes) {
  expect_found(Method::kGet, "/v1/models/a%2Fb%20c", 5, {{"model", "a/b c"}});
  expect_found(Method::kGet, "/v1/models/%2F", 5, {{"model", "/"}});
  expect_found(Method::kGet, "/v1/models/%252F", 5, {{"model", "%2F"}});
}

TEST(Router, FixedTextWinsOverAParameter) {
  expect_found(Method::kGet, "/v1/models/default", 6);
  expect_found(Method::kGet, "/users/me/keys/k", 9, {{"key", "k"}});
  expect_found(Method::kDelete, "/v1/models/default", 7, {{"name", "default"}});
}

TEST(Router, UnknownPathsAreNotFound) {
  for (const char* path : {"/nothing", "/api", "/api/tags/more", "//", "/api//tags", "/API/tags",
                           "/v1/models//", "/api/blobs", "/users//keys/k", "/api/tags//"}) {
    const RouteMatch match = sample().match(Method::kGet, path);
    EXPECT_EQ(match.kind, Kind::kNotFound) << path;
    EXPECT_EQ(match.status, 404) << path;
  }
}

TEST(Router, WrongMethodNamesTheRightOnes) {
  RouteMatch match = sample().match(Method::kPost, "/api/tags");
  EXPECT_EQ(match.kind, Kind::kWrongMethod);
  EXPECT_EQ(match.status, 405);
  EXPECT_EQ(match.allow, "GET, HEAD");
  EXPECT_EQ(sample().match(Method::kPut, "/v1/models/x").allow, "GET, DELETE");
  EXPECT_EQ(sample().match(Method::kGet, "/api/blobs/x").allow, "HEAD, POST");
  EXPECT_EQ(sample().match(Method::kOther, "/api/chat").allow, "POST");
  EXPECT_EQ(sample().match(Method::kHead, "/v1/models").kind, Kind::kWrongMethod);
}

TEST(Router, RedirectsAFinalSlash) {
  RouteMatch match = sample().match(Method::kGet, "/api/tags/");
  EXPECT_EQ(match.kind, Kind::kRedirect);
  EXPECT_EQ(match.status, 301);
  EXPECT_EQ(match.location, "/api/tags");
  match = sample().match(Method::kPost, "/api/chat/", "a=%20b&c");
  EXPECT_EQ(match.status, 307);
  EXPECT_EQ(match.location, "/api/chat?a=%20b&c");
  EXPECT_EQ(sample().match(Method::kHead, "/api/tags/").status, 307);
  EXPECT_EQ(sample().match(Method::kGet, "/v1/models/a%2Fb/").location, "/v1/models/a%2Fb");
}

TEST(Router, RedirectsOnlyToExistingRoutes) {
  EXPECT_EQ(sample().match(Method::kGet, "/nothing/").kind, Kind::kNotFound);
  EXPECT_EQ(sample().match(Method::kPost, "/api/tags/").kind, Kind::kNotFound);
  const Router open({{{Method::kGet}, "/:any"}, {{Method::kGet}, "/:any/:other"}});
  EXPECT_EQ(open.match(Method::kGet, "//evil.example/").kind, Kind::kNotFound);
}

TEST(Router, MalformedEncodingIsABadRequest) {
  for (const char* path : {"/%", "/api/tags%", "/v1/models/%zz", "/api/%2", "", "x", "*"}) {
    const RouteMatch match = sample().match(Method::kGet, path);
    EXPECT_EQ(match.kind, Kind::kMalformed) << path;
    EXPECT_EQ(match.status, 400) << path;
  }
}

TEST(Router, RefusesMalformedTables) {
  const auto refused = [](const std::vector<RoutePattern>& patterns) {
    EXPECT_THROW(Router{patterns}, Error) << patterns.back().pattern;
  };
  refused({{{Method::kGet}, "x"}});
  refused({{{Method::kGet}, ""}});
  refused({{{}, "/x"}});
  refused({{{Method::kGet}, "/x/:"}});
  refused({{{Method::kGet}, "/x/:a"}, {{Method::kPost, Method::kGet}, "/x/:b"}});
}

TEST(Router, APatternWithAFinalSlashIsASeparatePath) {
  const Router router(
      {{{Method::kGet}, "/ui"}, {{Method::kGet}, "/ui/"}, {{Method::kGet}, "/ui/:file"}});
  EXPECT_EQ(router.match(Method::kGet, "/ui").route, 0u);
  EXPECT_EQ(router.match(Method::kGet, "/ui/").route, 1u);
  EXPECT_EQ(router.match(Method::kGet, "/ui/").kind, Kind::kFound);
  EXPECT_EQ(router.match(Method::kGet, "/ui/x").route, 2u);
  EXPECT_EQ(router.match(Method::kGet, "/ui//").location, "/ui/");
}

TEST(Router, AnswersInPlainText) {
  Response response = unrouted_response(sample().match(Method::kGet, "/nothing"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.content_type, "text/plain");
  EXPECT_EQ(response.body, "404 page not found");
  response = unrouted_response(sample().match(Method::kGet, "/api/chat"));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.body, "405 method not allowed");
  EXPECT_EQ(response.headers.get("Allow"), "POST");
  response = unrouted_response(sample().match(Method::kGet, "/api/tags/"));
  EXPECT_EQ(response.status, 301);
  EXPECT_EQ(response.headers.get("Location"), "/api/tags");
  EXPECT_EQ(unrouted_response(sample().match(Method::kGet, "/%")).status, 400);
}

}  // namespace
}  // namespace billow::http
