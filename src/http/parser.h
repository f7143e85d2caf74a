// Parses the bytes of HTTP/1.x messages as they arrive; the grammar is Boost.Beast's. A parser
// takes one message and is then done with. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::http {

// Why a message cannot be read, as the status to answer it with.
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
  std::optional<uint64_t> content_length;  // none: chunked, or no body
  bool expects_continue = false;
};

struct ResponseHead {
  int status = 0;
  Headers headers;
  bool keep_alive = true;
  std::optional<uint64_t> content_length;  // none: chunked, until the connection ends, or no body
};

class RequestParser {
 public:
  explicit RequestParser(uint32_t max_header_bytes);
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;
  ~RequestParser();

  // Takes bytes of the message and returns how many were used. The rest is to be given again, with
  // at least one more byte behind it. Stops where the header ends, once. Uses nothing after the end
  // of the message or a failure.
  size_t put(std::string_view bytes);

  bool head_done() const noexcept;
  bool done() const noexcept;
  const ParseFailure* failure() const noexcept;  // null: none
  RequestHead& head() noexcept;                  // complete once head_done()
  // What of the body was parsed since the last call, without chunk framing.
  std::string take_body();

 private:
  class Grammar;
  std::unique_ptr<Grammar> grammar_;
};

class ResponseParser {
 public:
  // `without_body`: the answer to a HEAD request.
  ResponseParser(uint32_t max_header_bytes, bool without_body);
  ResponseParser(ResponseParser&&) noexcept;
  ResponseParser& operator=(ResponseParser&&) noexcept;
  ~ResponseParser();

  // As in RequestParser.
  size_t put(std::string_view bytes);
  // The connection ended: the message is done, or it has failed.
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
