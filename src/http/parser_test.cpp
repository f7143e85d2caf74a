#include "http/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace billow::http {
namespace {

// Passes `text` to the parser in pieces of `n` bytes and returns the unused part.
template <class Parser>
std::string feed(Parser& parser, std::string_view text, size_t n) {
  std::string pending;
  for (size_t i = 0; i < text.size(); i += n) {
    pending += text.substr(i, n);
    while (!parser.done() && parser.failure() == nullptr) {
      const size_t used = parser.put(pending);
      pending.erase(0, used);
      if (used == 0) break;
    }
  }
  return pending;
}

int status_for(std::string_view text) {
  int status = 0;
  for (const size_t n : {size_t{1}, size_t{3}, text.size()}) {
    RequestParser parser(1000);
    feed(parser, text, n);
    const int now = parser.failure() != nullptr ? parser.failure()->status
                    : parser.done()             ? 200
                                                : 0;
    if (n > 1) {
      EXPECT_EQ(now, status) << text << " in pieces of " << n;
    }
    status = now;
  }
  return status;
}

TEST(RequestParser, ReadsHeadAndBodyInPiecesOfAnySize) {
  const std::string text =
      "POST /x?y=1 HTTP/1.1\r\nHost: h\r\nX-A:  b \r\nContent-Length: 5\r\nExpect: "
      "100-Continue\r\n\r\n"
      "helloGET";
  for (size_t n = 1; n <= text.size(); ++n) {
    RequestParser parser(1000);
    EXPECT_EQ(feed(parser, text, n), "GET");
    ASSERT_TRUE(parser.done());
    EXPECT_EQ(parser.head().method, Method::kPost);
    EXPECT_EQ(parser.head().target, "/x?y=1");
    EXPECT_EQ(parser.head().version, 11);
    EXPECT_EQ(parser.head().headers.get("x-a"), "b");
    EXPECT_EQ(parser.head().content_length, 5u);
    EXPECT_TRUE(parser.head().keep_alive);
    EXPECT_TRUE(parser.head().expects_continue);
    EXPECT_EQ(parser.take_body(), "hello");
  }
}

TEST(RequestParser, ReadsChunksAndIgnoresTrailers) {
  const std::string text =
      "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3\r\nabc\r\n0A;ext=\"1\"\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\nnext";
  for (size_t n = 1; n <= text.size(); ++n) {
    RequestParser parser(1000);
    EXPECT_EQ(feed(parser, text, n), "next");
    ASSERT_TRUE(parser.done()) << n;
    EXPECT_EQ(parser.take_body(), "abc0123456789");
    EXPECT_EQ(parser.head().headers.find("X-Trailer"), nullptr);
    EXPECT_FALSE(parser.head().content_length);
  }
}

TEST(RequestParser, ReadsAnEmptyBodyInChunks) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t n = 1; n <= text.size(); ++n) {
    RequestParser parser(1000);
    EXPECT_EQ(feed(parser, text, n), "");
    EXPECT_TRUE(parser.done()) << n;
    EXPECT_EQ(parser.take_body(), "");
  }
}

TEST(RequestParser, StopsAfterTheHead) {
  RequestParser parser(1000);
  const std::string text = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab";
  EXPECT_EQ(parser.put(text), text.size() - 2);
  EXPECT_TRUE(parser.head_done());
  EXPECT_FALSE(parser.done());
}

TEST(RequestParser, RefusesMalformedRequests) {
  for (const char* text :
       {"GET\r\n\r\n", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\nHost: h\n\n\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}) {
    EXPECT_EQ(status_for(text), 400) << text;
  }
}

TEST(RequestParser, RefusesFramingThatCouldSmuggleARequest) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const char* fields :
       {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_EQ(status_for(head + fields + "\r\n0\r\n\r\n"), 400) << fields;
  }
  EXPECT_EQ(status_for("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(RequestParser, RefusesMalformedChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks : {"x\r\n", "-1\r\n", "1\r\nabc\r\n", "fffffffffffffffff\r\n",
                             "1 x\r\na\r\n", "1\r\na0\r\n\r\n"}) {
    EXPECT_EQ(status_for(head + chunks), 400) << chunks;
  }
}

// A line that ends with LF alone is refused as soon as it arrives, anywhere in the message. The
// parser does not wait for more bytes.
TEST(RequestParser, RefusesABareNewlineImmediately) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks : {"3\n", "3\nabc\n0\n\n", "3;x=y\n", "3\r\nabc\n", "3\r\nabc\r\n0\n",
                             "0\n\n", "0\r\n\n", "0\r\nX: y\n", "0\r\nX: y\n\r\n\r\n"}) {
    EXPECT_EQ(status_for(head + chunks), 400) << chunks;
  }
  for (const char* text : {"GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: h\n",
                           "GET / HTTP/1.1\r\nHost: h\r\nX: y\n\n", "GET\n"}) {
    EXPECT_EQ(status_for(text), 400) << text;
  }
  // In a body, chunked or not, LF is an ordinary byte.
  EXPECT_EQ(status_for(head + "3\r\na\nb\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(status_for("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n\n\n"), 200);
}

TEST(RequestParser, RefusesAMalformedHost) {
  for (const char* host : {"[::1]evil.com", "[::1].evil.com:80", "192.168.0.9%x.evil.com", "a b",
                           "a@b", "a:x", "a/b"}) {
    EXPECT_EQ(status_for("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 400) << host;
  }
  for (const char* host : {"", "h", "h:80", "[::1]:80", "a_b.example"}) {
    EXPECT_EQ(status_for("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 200) << host;
  }
}

TEST(RequestParser, LimitsTheHeader) {
  EXPECT_EQ(status_for("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'x')), 431);
  EXPECT_EQ(status_for("GET /" + std::string(2000, 'x')), 431);
  EXPECT_EQ(status_for("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(900, 'x') + "\r\n\r\n"),
            200);
}

TEST(RequestParser, LimitsAHeaderThatArrivesFieldByField) {
  RequestParser parser(1000);
  std::string pending = "GET / HTTP/1.1\r\nHost: h\r\n";
  size_t n_fields = 0;
  for (; parser.failure() == nullptr && n_fields < 1000; ++n_fields) {
    pending.erase(0, parser.put(pending));
    pending += "X: y\r\n";
  }
  ASSERT_NE(parser.failure(), nullptr);
  EXPECT_EQ(parser.failure()->status, 431);
  EXPECT_LE(n_fields, 170u);
}

TEST(RequestParser, LimitsLinesBetweenChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_for(head + "1;x=" + std::string(1100, 'x')), 400);
  EXPECT_EQ(status_for(head + "0\r\nX: " + std::string(1100, 'x')), 400);
}

TEST(RequestParser, ReportsKeepAlive) {
  const auto keeps = [](std::string_view version, std::string_view field) {
    RequestParser parser(1000);
    feed(parser,
         "GET / HTTP/" + std::string(version) + "\r\nHost: h\r\n" + std::string(field) + "\r\n",
         1000);
    EXPECT_TRUE(parser.done());
    return parser.head().keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "Connection: foo, Close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: keep-alive\r\n"));
}

TEST(ResponseParser, ReadsAllWaysToEndABody) {
  const auto body = [](std::string_view text, bool is_ended_by_eof, bool without_body = false) {
    ResponseParser parser(1000, without_body);
    feed(parser, text, 1);
    EXPECT_EQ(parser.done(), !is_ended_by_eof) << text;
    parser.put_eof();
    EXPECT_TRUE(parser.done()) << text;
    return parser.take_body();
  };
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", false), "ab");
  EXPECT_EQ(body("HTTP/1.1 200 \r\n\r\nab", true), "ab");
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false),
            "a");
  EXPECT_EQ(body("HTTP/1.1 204 No Content\r\n\r\n", false), "");
  EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", false, true), "");
}

TEST(ResponseParser, DetectsAnIncompleteMessage) {
  for (const char* text : {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}) {
    ResponseParser parser(1000, false);
    feed(parser, text, 1);
    parser.put_eof();
    EXPECT_FALSE(parser.done()) << text;
    EXPECT_NE(parser.failure(), nullptr) << text;
  }
}

}  // namespace
}  // namespace billow::http
