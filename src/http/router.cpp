#include "http/router.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "http/url.h"

namespace billow::http {
namespace {

constexpr std::array kAllMethods{Method::kGet,   Method::kHead,   Method::kPost,   Method::kPut,
                                 Method::kPatch, Method::kDelete, Method::kOptions};

// Returns the segments between the slashes of a path that begins with a slash. "/" has one empty
// segment.
std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> segments;
  for (size_t begin = 1;;) {
    const size_t end = path.find('/', begin);
    segments.push_back(path.substr(begin, end - begin));
    if (end == std::string_view::npos) return segments;
    begin = end + 1;
  }
}

bool contains(const std::vector<Method>& methods, Method method) {
  return std::ranges::find(methods, method) != methods.end();
}

}  // namespace

Router::Router(const std::vector<RoutePattern>& patterns) {
  for (const RoutePattern& pattern : patterns) {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kInvalidInput, "route " + pattern.pattern + ": " + why);
    };
    if (!pattern.pattern.starts_with('/')) refuse("a pattern begins with a slash");
    if (pattern.methods.empty()) refuse("has no method");
    Row row{.methods = pattern.methods, .segments = {}};
    for (const std::string_view text : split_path(pattern.pattern)) {
      const bool is_parameter = text.starts_with(':');
      if (is_parameter && text.size() == 1) refuse("a parameter has no name");
      row.segments.push_back({std::string(text.substr(is_parameter ? 1 : 0)), is_parameter});
    }
    for (const Row& other : rows_) {
      if (!same_path(row, other)) continue;
      for (const Method method : row.methods) {
        if (contains(other.methods, method)) refuse("has a duplicate path and method");
      }
    }
    rows_.push_back(std::move(row));
  }
}

bool Router::matches(const Row& row, const std::vector<std::string>& segments) {
  return std::ranges::equal(row.segments, segments, [](const Segment& want, const auto& segment) {
    return want.is_parameter ? !segment.empty() : want.text == segment;
  });
}

bool Router::same_path(const Row& a, const Row& b) {
  return std::ranges::equal(a.segments, b.segments, [](const Segment& x, const Segment& y) {
    return x.is_parameter == y.is_parameter && (x.is_parameter || x.text == y.text);
  });
}

RouteMatch Router::match_segments(Method method, const std::vector<std::string>& segments) const {
  const Row* best = nullptr;
  std::vector<Method> allowed;
  const auto has_more_text = [](const Row& a, const Row& b) {
    return std::ranges::lexicographical_compare(a.segments, b.segments, {}, &Segment::is_parameter,
                                                &Segment::is_parameter);
  };
  for (const Row& row : rows_) {
    if (!matches(row, segments)) continue;
    allowed.insert(allowed.end(), row.methods.begin(), row.methods.end());
    if (!contains(row.methods, method)) continue;
    if (best == nullptr || has_more_text(row, *best)) best = &row;
  }
  RouteMatch match;
  if (best != nullptr) {
    match.kind = RouteMatch::Kind::kFound;
    match.status = 200;
    match.route = static_cast<size_t>(best - rows_.data());
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = best->segments[i];
      if (segment.is_parameter) match.parameters.try_emplace(segment.text, segments[i]);
    }
  } else if (!allowed.empty()) {
    match.kind = RouteMatch::Kind::kWrongMethod;
    match.status = 405;
    for (const Method known : kAllMethods) {
      if (!contains(allowed, known)) continue;
      if (!match.allow.empty()) match.allow += ", ";
      match.allow += method_name(known);
    }
  }
  return match;
}

RouteMatch Router::match(Method method, std::string_view raw_path,
                         std::string_view raw_query) const {
  RouteMatch malformed;
  malformed.kind = RouteMatch::Kind::kMalformed;
  malformed.status = 400;
  if (!raw_path.starts_with('/')) return malformed;
  std::vector<std::string> segments;
  for (const std::string_view raw : split_path(raw_path)) {
    std::optional<std::string> segment = percent_decoded(raw);
    if (!segment) return malformed;
    segments.push_back(*std::move(segment));
  }
  RouteMatch match = match_segments(method, segments);
  // "//host/" is not redirected: without its final slash it would lead to another host.
  if (match.kind != RouteMatch::Kind::kNotFound || segments.size() < 2 ||
      !segments.back().empty() || segments.front().empty()) {
    return match;
  }
  segments.pop_back();
  if (match_segments(method, segments).kind != RouteMatch::Kind::kFound) return match;
  match.kind = RouteMatch::Kind::kRedirect;
  match.status = method == Method::kGet ? 301 : 307;
  match.location = raw_path.substr(0, raw_path.size() - 1);
  if (!raw_query.empty()) match.location.append("?").append(raw_query);
  return match;
}

Response unrouted_response(const RouteMatch& match) {
  Response response{.status = match.status, .content_type = "text/plain"};
  switch (match.kind) {
    case RouteMatch::Kind::kNotFound:
      response.body = "404 page not found";
      break;
    case RouteMatch::Kind::kWrongMethod:
      response.body = "405 method not allowed";
      response.headers.add("Allow", match.allow);
      break;
    case RouteMatch::Kind::kRedirect:
      response.content_type.clear();
      response.headers.add("Location", match.location);
      break;
    case RouteMatch::Kind::kMalformed:
      response.body = "400 bad request";
      break;
    case RouteMatch::Kind::kFound:
      BILLOW_CHECK(match.kind != RouteMatch::Kind::kFound);
  }
  return response;
}

}  // namespace billow::http
