// The routes of the web page: /ui/ and its files. Any thread.
#pragma once

#include <vector>

#include "api/call.h"

namespace billow::server {

std::vector<api::Route> web_routes();

}  // namespace billow::server
