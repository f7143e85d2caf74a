#include "api/call.h"

#include <string>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace billow::api {
namespace {

// Adds headers that are not present. The answer's own headers take precedence.
void add_missing(http::Headers& headers, const http::Headers& added) {
  for (const http::Headers::Field& field : added) {
    if (!headers.find(field.name)) headers.add(field.name, field.value);
  }
}

}  // namespace

bool Call::respond(http::Response response) {
  status_ = response.status;
  add_missing(response.headers, headers_);
  return exchange_.respond(std::move(response));
}

bool Call::begin_stream(int status, std::string_view content_type, std::string_view first) {
  status_ = status;
  return exchange_.begin_stream(status, content_type, headers_, first);
}

bool is_bulk(const http::Request& request) {
  return equal_ignoring_case(request.headers.get("X-Billow-Priority"), "bulk");
}

void report_sizing(Call& call, const Sizing& sizing) {
  call.add_header("X-Billow-Context", std::to_string(sizing.context));
  call.add_header("X-Billow-Context-Reason", sizing.reason);
  if (sizing.n_prompt == sizing.n_prompt_full) return;
  call.add_header("X-Billow-Shortened",
                  std::to_string(sizing.n_prompt_full) + "->" + std::to_string(sizing.n_prompt));
}

void report_unknown_fields(Call& call, const std::vector<std::string>& names) {
  if (names.empty()) return;
  call.trace().mark("unknown fields", {{"names", names}});
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  log::debug(call.trace().route() + ": unknown fields: " + list);
}

}  // namespace billow::api
