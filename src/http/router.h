// Finds the route of a request by path pattern and method. Immutable after construction;
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace billow::http {

// A row of the route table. Pattern segments that begin with ':' are parameters, as in
// "/api/blobs/:digest". A parameter matches any one segment that is not empty. A pattern that ends
// with a slash, such as "/ui/", matches exactly that path.
struct RoutePattern {
  std::vector<Method> methods;
  std::string pattern;
};

struct RouteMatch {
  // kRedirect: a route exists for the path without the final slash.
  enum class Kind { kFound, kNotFound, kWrongMethod, kRedirect, kMalformed };
  Kind kind = Kind::kNotFound;
  size_t route = 0;       // kFound: index of the row
  Parameters parameters;  // kFound: the pattern's parameters, percent-decoded
  std::string allow;      // kWrongMethod: the methods that the path supports, "GET, HEAD"
  std::string location;   // kRedirect: the new target, with the query
  int status = 404;       // status of the response if no route matches
};

class Router {
 public:
  // Several rows may have the same path with different methods. Throws Error (kInvalidInput) if a
  // pattern is malformed, or if an earlier row has the same path and method.
  explicit Router(const std::vector<RoutePattern>& patterns);

  // Finds the row for `method` and the path. `raw_path` and `raw_query` are still percent-encoded.
  // An encoded slash does not end a segment. If several rows match, fixed text wins over a
  // parameter.
  RouteMatch match(Method method, std::string_view raw_path, std::string_view raw_query = {}) const;

 private:
  struct Segment {
    std::string text;  // fixed text, or the name of the parameter
    bool is_parameter = false;
  };
  struct Row {
    std::vector<Method> methods;
    std::vector<Segment> segments;
  };
  static bool matches(const Row& row, const std::vector<std::string>& segments);
  static bool same_path(const Row& a, const Row& b);
  RouteMatch match_segments(Method method, const std::vector<std::string>& segments) const;

  std::vector<Row> rows_;
};

// Returns the plain-text response to a request that no route takes. REQUIRES: match.kind is not
// kFound.
Response unrouted_response(const RouteMatch& match);

}  // namespace billow::http
