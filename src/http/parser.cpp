#include "http/parser.h"

// An assertion of Beast 1.81 fails if the last chunk is the body's only chunk and arrives byte by
// byte. The code around the assertion is correct.
#define BOOST_DISABLE_ASSERTS
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/text.h"
#include "http/authority.h"

namespace billow::http {
namespace {

namespace beast = boost::beast;
using beast::error_code;

ParseFailure failure_of(const error_code& code) {
  if (code == beast::http::error::header_limit) return {431, "the header is too large"};
  return {400, "malformed message: " + code.message()};
}

// Returns whether a line ends with LF alone, which HTTP does not allow. Without this check, the
// parser would wait for CR LF and the sender would time out.
bool has_bare_newline(std::string_view bytes) {
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return true;
  }
  return false;
}

// The common part of both message kinds: Beast's grammar, with fields and body collected here.
template <bool kIsRequest>
class MessageGrammar : public beast::http::basic_parser<kIsRequest> {
 public:
  using Head = std::conditional_t<kIsRequest, RequestHead, ResponseHead>;
  using Base = beast::http::basic_parser<kIsRequest>;

  explicit MessageGrammar(uint32_t max_header_bytes) : max_header_bytes_(max_header_bytes) {
    this->header_limit(max_header_bytes);
    this->body_limit(boost::none);
  }

  size_t put_bytes(std::string_view bytes) {
    size_t used = 0;
    const bool had_head = this->is_header_done();
    while (used < bytes.size() && !this->is_done() && !failure) {
      error_code code;
      const std::string_view rest = bytes.substr(used);
      used += this->put(boost::asio::const_buffer(rest.data(), rest.size()), code);
      if (code == beast::http::error::need_more) {
        // For Beast, these bytes belong to a line that is incomplete.
        if (has_bare_newline(bytes.substr(used)))
          failure = {400, "malformed message: a line ends with LF alone, not with CR LF"};
        break;
      }
      if (code) {
        failure = failure_of(code);
      } else if (!had_head && this->is_header_done()) {
        break;
      }
    }
    if (!failure) check_framing(had_head, used, bytes.size() - used);
    return used;
  }

  Head head;
  std::string body;
  std::optional<ParseFailure> failure;

 protected:
  void finish_head() {
    head.keep_alive = this->keep_alive();
    if (const auto length = this->content_length()) head.content_length = *length;
    head_is_done_ = true;
    // Beast treats a message with another coding as a message without a body. If two readers
    // disagree about the end of a message, an attacker can smuggle requests.
    const std::string_view coding = head.headers.get("Transfer-Encoding");
    const size_t n_codings = head.headers.count("Transfer-Encoding");
    if (n_codings > 1 || (n_codings == 1 && !equal_ignoring_case(coding, "chunked"))) {
      failure = {400, "unknown transfer encoding"};
    }
  }

 private:
  // Beast limits only the unused bytes of a header. It does not limit the whole of a header that
  // arrives field by field. It does not limit lines between or after chunks either. This function
  // does.
  void check_framing(bool had_head, size_t n_used_bytes, size_t n_left_bytes) {
    if (!had_head) n_head_bytes_ += n_used_bytes;
    if (n_head_bytes_ + (this->is_header_done() ? 0 : n_left_bytes) > max_header_bytes_) {
      failure = failure_of(beast::http::error::header_limit);
    } else if (had_head && !this->is_done() && n_left_bytes > max_header_bytes_) {
      failure = {400, "malformed message: a line between chunks is too long"};
    }
  }
  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                       int version, error_code& code) override {
    code = {};
    if constexpr (kIsRequest) {
      head.method = method_of({method.data(), method.size()});
      head.target.assign(target.data(), target.size());
      head.version = version;
    }
  }
  void on_response_impl(int status, beast::string_view, int, error_code& code) override {
    code = {};
    if constexpr (!kIsRequest) head.status = status;
  }
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     error_code& code) override {
    code = {};
    if (head_is_done_) return;  // a trailer after a chunked body
    head.headers.add({name.data(), name.size()}, {value.data(), value.size()});
  }
  void on_header_impl(error_code& code) override {
    code = {};
    finish_head();
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code& code) override {
    code = {};
  }
  size_t on_body_impl(beast::string_view bytes, error_code& code) override {
    code = {};
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code& code) override {
    code = {};
  }
  size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, error_code& code) override {
    return on_body_impl(bytes, code);
  }
  void on_finish_impl(error_code& code) override { code = {}; }

  const uint32_t max_header_bytes_;
  size_t n_head_bytes_ = 0;
  bool head_is_done_ = false;
};

}  // namespace

class RequestParser::Grammar : public MessageGrammar<true> {
 public:
  using MessageGrammar::MessageGrammar;

  size_t put_request(std::string_view bytes) {
    const bool had_head = is_header_done();
    const size_t used = put_bytes(bytes);
    if (!had_head && is_header_done() && !failure) check_head();
    return used;
  }

 private:
  void check_head() {
    head.expects_continue =
        head.version == 11 && equal_ignoring_case(head.headers.get("Expect"), "100-continue");
    const size_t n_hosts = head.headers.count("Host");
    if (n_hosts > 1 || (n_hosts == 0 && head.version == 11)) {
      failure = {400, "a request must have exactly one Host field"};
    } else if (n_hosts == 1 && !parse_authority(head.headers.get("Host"))) {
      failure = {
          400,
          "malformed Host field: it must be a host, optionally followed by a colon and a port"};
    } else if (head.version == 10 && chunked()) {
      failure = {400, "HTTP/1.0 has no chunked encoding"};
    }
  }
};

RequestParser::RequestParser(uint32_t max_header_bytes)
    : grammar_(std::make_unique<Grammar>(max_header_bytes)) {}
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;
RequestParser::~RequestParser() = default;

size_t RequestParser::put(std::string_view bytes) { return grammar_->put_request(bytes); }
bool RequestParser::head_done() const noexcept { return grammar_->is_header_done(); }
bool RequestParser::done() const noexcept { return grammar_->is_done(); }
const ParseFailure* RequestParser::failure() const noexcept {
  return grammar_->failure ? &*grammar_->failure : nullptr;
}
RequestHead& RequestParser::head() noexcept { return grammar_->head; }
std::string RequestParser::take_body() { return std::exchange(grammar_->body, {}); }

class ResponseParser::Grammar : public MessageGrammar<false> {
 public:
  using MessageGrammar::MessageGrammar;

  void end() {
    if (is_done() || failure) return;
    error_code code = beast::http::error::partial_message;
    if (got_some()) put_eof(code);
    if (code) failure = failure_of(code);
  }
};

ResponseParser::ResponseParser(uint32_t max_header_bytes, bool without_body)
    : grammar_(std::make_unique<Grammar>(max_header_bytes)) {
  grammar_->skip(without_body);
}
ResponseParser::ResponseParser(ResponseParser&&) noexcept = default;
ResponseParser& ResponseParser::operator=(ResponseParser&&) noexcept = default;
ResponseParser::~ResponseParser() = default;

size_t ResponseParser::put(std::string_view bytes) { return grammar_->put_bytes(bytes); }
void ResponseParser::put_eof() { grammar_->end(); }
bool ResponseParser::head_done() const noexcept { return grammar_->is_header_done(); }
bool ResponseParser::done() const noexcept { return grammar_->is_done(); }
const ParseFailure* ResponseParser::failure() const noexcept {
  return grammar_->failure ? &*grammar_->failure : nullptr;
}
ResponseHead& ResponseParser::head() noexcept { return grammar_->head; }
std::string ResponseParser::take_body() { return std::exchange(grammar_->body, {}); }

}  // namespace billow::http
