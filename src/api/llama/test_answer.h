// For tests of routes: runs the handler of one route.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/call.h"
#include "api/openai/test_call.h"
#include "http/status.h"

namespace billow::api::llama {

// Returns "200 BODY", or the status and the text of an error.
inline std::string answer_of(const std::vector<Route>& routes, http::Method method,
                             const std::string& pattern, http::Request request) {
  openai::TestCall test{std::move(request)};
  for (const Route& route : routes) {
    if (route.pattern != pattern || route.methods.front() != method) continue;
    try {
      route.handler(test.call);
      return std::to_string(test.exchange.status) + " " + test.exchange.body();
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
  }
  return "no route";
}

}  // namespace billow::api::llama
