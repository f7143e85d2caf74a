// The tables of `list` and `ps`, from the replies of /api/tags and /api/ps. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "cli/client/format.h"

namespace billow::cli {

// Models whose names begin with `prefix`, in any case.
std::string list_table(const Json& reply, std::string_view prefix, WallTime now);
// The same, in the case that is given.
std::string ps_table(const Json& reply, std::string_view prefix, WallTime now);
// "100% GPU", "25%/75% CPU/GPU"
std::string processor_text(uint64_t n_bytes, uint64_t n_gpu_bytes);

}  // namespace billow::cli
