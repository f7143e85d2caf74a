// Answers to requests for the files of the web page: exact names, conditional requests, both
// encodings, and header fields that let the page load nothing from elsewhere. Pure functions; any
// thread.
#pragma once

#include <span>
#include <string_view>

#include "http/message.h"
#include "web/asset.h"

namespace billow::web {

// The answer to GET or HEAD of the file `name`, which stands behind "/ui/"; "" is "index.html".
// 404 for any other name, and for each where there are no files.
http::Response answer(std::span<const Asset> assets, std::string_view name,
                      const http::Request& request);

// The answer that sends a browser on to `location`, relative to the address it asked for. 308 where
// `is_permanent`, else 302.
http::Response redirect(std::string_view location, bool is_permanent);

}  // namespace billow::web
