// Which route a request goes to: patterns and methods, matched without looking at anything else.
// Immutable after construction; any thread may ask.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace billow::http {

// A row of the route table. Segments of the pattern that begin with ':' are parameters, which match
// any one segment that is not empty: "/api/blobs/:digest". One that ends with a slash, "/ui/",
// takes that path alone.
struct RoutePattern {
  std::vector<Method> methods;
  std::string pattern;
};

struct RouteMatch {
  // kRedirect: the route is there without the slash at the end.
  enum class Kind { kFound, kNotFound, kWrongMethod, kRedirect, kMalformed };
  Kind kind = Kind::kNotFound;
  size_t route = 0;       // kFound: the row
  Parameters parameters;  // kFound: of the pattern, percent-decoded
  std::string allow;      // kWrongMethod: the methods that the path has, "GET, HEAD"
  std::string location;   // kRedirect: where to, with the query
  int status = 404;       // of the answer where no route was found
};

class Router {
 public:
  // Several rows may have one path, with methods of their own. Throws Error (kInvalidInput) for a
  // pattern that is malformed or for a method that an earlier row has on the same path.
  explicit Router(const std::vector<RoutePattern>& patterns);

  // `raw_path` and `raw_query` as they were sent, still encoded. A slash that is encoded in a
  // segment does not end it. Of several rows that match, the one with fixed text where the others
  // have a parameter wins.
  RouteMatch match(Method method, std::string_view raw_path, std::string_view raw_query = {}) const;

 private:
  struct Segment {
    std::string text;  // of the path, or the name of the parameter
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

// The answer in plain text to a request that no route takes. REQUIRES: match.kind is not kFound.
Response unrouted_response(const RouteMatch& match);

}  // namespace billow::http
