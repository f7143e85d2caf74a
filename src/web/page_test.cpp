#include "web/page.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace billow::web {
namespace {

const std::vector<Asset>& samples() {
  static const std::vector<Asset> kSamples{
      {.name = "index.html",
       .type = "text/html; charset=utf-8",
       .bytes = "<!doctype html>",
       .gzip = "GZ",
       .etag = "\"plain\"",
       .gzip_etag = "\"small\""},
      {.name = "assets/a-1.js",
       .type = "text/javascript; charset=utf-8",
       .bytes = "1",
       .gzip = {},
       .etag = "\"one\"",
       .gzip_etag = {},
       .is_immutable = true},
  };
  return kSamples;
}

http::Response ask(std::string_view name, http::Headers headers = {}) {
  http::Request request;
  request.headers = std::move(headers);
  return answer(samples(), name, request);
}

TEST(Page, ReturnsIndexHtmlForTheEmptyName) {
  const http::Response response = ask("");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "<!doctype html>");
  EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(response.headers.get("Cache-Control"), "no-cache");
  EXPECT_EQ(response.headers.get("Vary"), "Accept-Encoding");
  EXPECT_EQ(response.headers.get("Content-Encoding"), "");
}

TEST(Page, MarksFilesWithAHashInTheirNameAsImmutable) {
  EXPECT_EQ(ask("assets/a-1.js").headers.get("Cache-Control"),
            "public, max-age=31536000, immutable");
}

TEST(Page, SendsThePolicyWithEachFile) {
  for (const char* name : {"", "assets/a-1.js"}) {
    const http::Response response = ask(name);
    const std::string_view policy = response.headers.get("Content-Security-Policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string_view::npos);
    EXPECT_NE(policy.find("require-trusted-types-for 'script'"), std::string_view::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string_view::npos);
    EXPECT_EQ(policy.find("http"), std::string_view::npos);
    EXPECT_EQ(response.headers.get("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(response.headers.get("Referrer-Policy"), "no-referrer");
  }
}

TEST(Page, CompressesIfTheClientAcceptsGzip) {
  for (const char* accepted : {"gzip", "deflate, GZIP", "br;q=1, gzip;q=0.5", "gzip; q=0.001"}) {
    const http::Response response = ask("", {{"Accept-Encoding", accepted}});
    EXPECT_EQ(response.body, "GZ") << accepted;
    EXPECT_EQ(response.headers.get("Content-Encoding"), "gzip") << accepted;
    EXPECT_EQ(response.headers.get("ETag"), "\"small\"") << accepted;
  }
  for (const char* accepted : {"", "identity", "gzip;q=0", "gzip; q=0.000", "xgzip", "br"}) {
    EXPECT_EQ(ask("", {{"Accept-Encoding", accepted}}).headers.get("ETag"), "\"plain\"")
        << accepted;
  }
  // This file has no compressed form.
  EXPECT_EQ(ask("assets/a-1.js", {{"Accept-Encoding", "gzip"}}).body, "1");
}

TEST(Page, ReturnsNotModifiedForAKnownTag) {
  for (const char* known : {"\"plain\"", "W/\"plain\"", "\"x\", \"plain\"", "*"}) {
    const http::Response response = ask("", {{"If-None-Match", known}});
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "") << known;
    EXPECT_EQ(response.headers.get("ETag"), "\"plain\"") << known;
  }
  for (const char* known : {"\"small\"", "plain", "", "\"plain"})
    EXPECT_EQ(ask("", {{"If-None-Match", known}}).status, 200) << known;
  EXPECT_EQ(ask("", {{"If-None-Match", "\"small\""}, {"Accept-Encoding", "gzip"}}).status, 304);
}

TEST(Page, AcceptsOnlyExactNames) {
  for (const char* name : {"index", "assets", "assets/", "../index.html", "assets/../index.html",
                           "/index.html", "index.html/", "INDEX.HTML"})
    EXPECT_EQ(ask(name).status, 404) << name;
}

TEST(Page, ReturnsNotFoundWithoutEmbeddedFiles) {
  const http::Response response = answer({}, "", {});
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body, "this program was built without its web page\n");
}

// Checks the files in this program, if it was built with the page.
TEST(Page, EmbedsValidFiles) {
  std::set<std::string_view> names;
  for (const Asset& asset : embedded_assets()) {
    EXPECT_TRUE(names.insert(asset.name).second) << asset.name;
    EXPECT_FALSE(asset.bytes.empty()) << asset.name;
    EXPECT_LT(asset.gzip.size(), asset.bytes.size()) << asset.name;
    EXPECT_EQ(asset.gzip.empty(), asset.gzip_etag.empty()) << asset.name;
    EXPECT_NE(asset.etag, asset.gzip_etag) << asset.name;
    EXPECT_EQ(asset.is_immutable, asset.name.starts_with("assets/")) << asset.name;
  }
  if (!embedded_assets().empty()) {
    EXPECT_TRUE(names.contains("index.html"));
  }
}

}  // namespace
}  // namespace billow::web
