// What goes over an HTTP connection: methods, header fields, requests and responses. Plain values;
// whoever holds one owns all of it.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace billow::http {

enum class Method { kGet, kHead, kPost, kPut, kPatch, kDelete, kOptions, kOther };

// "GET"; "" for kOther.
std::string_view method_name(Method method) noexcept;
// The method of a request line. Names are case-sensitive; unknown ones are kOther.
Method method_of(std::string_view name) noexcept;

// "Not Found" for 404; "Unknown" where there is no such status.
std::string_view reason_phrase(int status) noexcept;

// The fields of a header in their order. Names are found in any case.
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;
    bool operator==(const Field&) const = default;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  const std::string* find(std::string_view name) const noexcept;  // the first; null if absent
  std::string_view get(std::string_view name) const noexcept;     // the first; "" if absent
  size_t count(std::string_view name) const noexcept;
  // Whether `token` is in the comma-separated lists of the fields `name`, in any case.
  bool has_token(std::string_view name, std::string_view token) const noexcept;

  void add(std::string name, std::string value);
  void set(std::string name, std::string value);  // in place of all fields of that name
  void remove(std::string_view name);

  size_t size() const noexcept { return fields_.size(); }
  auto begin() const noexcept { return fields_.begin(); }
  auto end() const noexcept { return fields_.end(); }
  bool operator==(const Headers&) const = default;

 private:
  std::vector<Field> fields_;
};

// Whether the comma-separated lists of the fields `name`, "gzip, br;q=0.5", have `token` in any
// case and with a weight above 0. As RFC 9110 has it for Accept and Accept-Encoding, without
// wildcards.
bool accepts(const Headers& headers, std::string_view name, std::string_view token) noexcept;

// Names and values of a query or of a route's pattern, percent-decoded. Of a repeated name the
// first value counts.
using Parameters = std::map<std::string, std::string, std::less<>>;

struct Request {
  Method method = Method::kGet;
  std::string target;     // as it was sent
  std::string path;       // of the target, percent-decoded
  Parameters query;       // of the target
  Parameters parameters;  // of the route's pattern
  Headers headers;
  std::string body;  // whole, except on routes that stream it
  std::string peer;  // "127.0.0.1:50312", "[::1]:50312", or "unix"
};

struct Response {
  int status = 200;
  std::string content_type{};  // none if empty
  Headers headers{};           // beside content type and framing
  std::string body{};
};

// `text` as text/plain.
Response text_response(int status, std::string_view text);

}  // namespace billow::http
