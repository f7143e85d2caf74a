// Parses HTTP/1.x messages as their bytes arrive, with the grammar of Boost.Beast. A parser parses
// one message and is then unusable. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::http {

// Why a message cannot be parsed, with the status for the response.
struct ParseFailure {
  int status = 400;
  std::string text;
};

struct RequestHead {
  Method method = Method::kGet;
  std::string target;
  int version = 11;  // 10 or 11
  Headers headers;
  bool keep_alive = true;
  std::optional<uint64_t> content_length;  // nullopt: chunked, or no body
  bool expects_continue = false;
};

struct ResponseHead {
  int status = 0;
  Headers headers;
  bool keep_alive = true;
  std::optional<uint64_t>
      content_length;  // nullopt: chunked, until the connection ends, or no body
};

class RequestParser {
 public:
  explicit RequestParser(uint32_t max_header_bytes);
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;
  ~RequestParser();

  // Parses bytes of the message and returns how many it used. The caller passes the rest again,
  // followed by at least one more byte. Stops once at the end of the header. Uses no bytes after
  // the end of the message or after a failure.
  size_t put(std::string_view bytes);

  bool head_done() const noexcept;
  bool done() const noexcept;
  const ParseFailure* failure() const noexcept;  // null: no failure
  RequestHead& head() noexcept;                  // complete once head_done()
  // Returns the body bytes parsed since the last call, without chunk framing.
  std::string take_body();

 private:
  class Grammar;
  std::unique_ptr<Grammar> grammar_;
};

class ResponseParser {
 public:
  // `without_body`: for the response to a HEAD request.
  ResponseParser(uint32_t max_header_bytes, bool without_body);
  ResponseParser(ResponseParser&&) noexcept;
  ResponseParser& operator=(ResponseParser&&) noexcept;
  ~ResponseParser();

  // See RequestParser::put().
  size_t put(std::string_view bytes);
  // Reports that the connection has ended. The message is then done or has failed.
  void put_eof();

  bool head_done() const noexcept;
  bool done() const noexcept;
  const ParseFailure* failure() const noexcept;
  ResponseHead& head() noexcept;
  std::string take_body();

 private:
  class Grammar;
  std::unique_ptr<Grammar> grammar_;
};

}  // namespace billow::http
