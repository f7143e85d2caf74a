// Declares billow::Json without the library's header.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace billow {

using Json = nlohmann::ordered_json;

}  // namespace billow
