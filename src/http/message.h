// HTTP messages: methods, header fields, requests and responses. Plain values that own all their
// data.
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

// Returns "GET" and so on; "" for kOther.
std::string_view method_name(Method method) noexcept;
// Returns the method of a request line. Names are case-sensitive; unknown names are kOther.
Method method_of(std::string_view name) noexcept;

// Returns "Not Found" for 404; "Unknown" if the status does not exist.
std::string_view reason_phrase(int status) noexcept;

// The fields of a header, in order of arrival. Names ignore case.
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;
    bool operator==(const Field&) const = default;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  const std::string* find(std::string_view name) const noexcept;  // first value; null if absent
  std::string_view get(std::string_view name) const noexcept;     // first value; "" if absent
  size_t count(std::string_view name) const noexcept;
  // Returns whether the comma-separated lists in the fields `name` contain `token`. Ignores case.
  bool has_token(std::string_view name, std::string_view token) const noexcept;

  void add(std::string name, std::string value);
  void set(std::string name, std::string value);  // replaces all fields of that name
  void remove(std::string_view name);

  size_t size() const noexcept { return fields_.size(); }
  auto begin() const noexcept { return fields_.begin(); }
  auto end() const noexcept { return fields_.end(); }
  bool operator==(const Headers&) const = default;

 private:
  std::vector<Field> fields_;
};

// Returns whether the comma-separated lists in the fields `name`, such as "gzip, br;q=0.5", contain
// `token` with a weight above 0. Ignores case. Follows RFC 9110 for Accept and Accept-Encoding,
// without wildcards.
bool accepts(const Headers& headers, std::string_view name, std::string_view token) noexcept;

// Percent-decoded names and values of a query or of a route's pattern. If a name repeats, the first
// value counts.
using Parameters = std::map<std::string, std::string, std::less<>>;

struct Request {
  Method method = Method::kGet;
  std::string target;     // as sent
  std::string path;       // path of the target, percent-decoded
  Parameters query;       // of the target
  Parameters parameters;  // of the route's pattern
  Headers headers;
  std::string body;  // the whole body, except on routes that stream it
  std::string peer;  // "127.0.0.1:50312", "[::1]:50312", or "unix"
  std::string user;  // who sends it, as ServerOptions::admit found out; empty: unknown
};

struct Response {
  int status = 200;
  std::string content_type{};  // no such field if empty
  Headers headers{};           // in addition to content type and framing fields
  std::string body{};
};

// Returns `text` as a text/plain response.
Response text_response(int status, std::string_view text);

}  // namespace billow::http
