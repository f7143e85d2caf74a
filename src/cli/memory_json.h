// What an engine's memory is taken by, as commands report it with --json.
#pragma once

#include "base/json_fwd.h"
#include "engine/engine.h"

namespace billow::cli {

// One number of bytes for each field of MemoryUse: file_bytes, packed_bytes and so on.
Json memory_json(const engine::MemoryUse& use);

}  // namespace billow::cli
