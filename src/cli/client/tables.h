// The tables of `list` and `ps`, from responses of /api/tags and /api/ps. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "cli/client/format.h"

namespace billow::cli {

// Returns the models whose names begin with `prefix`, ignoring case.
std::string list_table(const Json& reply, std::string_view prefix, WallTime now);
// Returns the loaded models whose names begin with `prefix`, respecting case.
std::string ps_table(const Json& reply, std::string_view prefix, WallTime now);
// Returns a text like "100% GPU" or "25%/75% CPU/GPU".
std::string processor_text(uint64_t n_bytes, uint64_t n_gpu_bytes);

}  // namespace billow::cli
