// Responses to requests for the files of the web page. Supports exact names, conditional requests
// and gzip. Headers prevent the page from loading anything from other origins. Pure and
// thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "http/message.h"
#include "web/asset.h"

namespace billow::web {

// Returns the response to GET or HEAD of /ui/`name`; "" is "index.html". Returns 404 for an unknown
// name, and for all names if there are no files.
http::Response answer(std::span<const Asset> assets, std::string_view name,
                      const http::Request& request);

// Returns a redirect to `location`, relative to the requested address. The status is 308 if
// `is_permanent`, else 302.
http::Response redirect(std::string_view location, bool is_permanent);

}  // namespace billow::web
