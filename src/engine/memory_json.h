// What an engine's memory is taken by, as reports have it.
#pragma once

#include "base/json_fwd.h"
#include "engine/engine.h"

namespace billow::engine {

// One number of bytes for each field of MemoryUse: file_bytes, packed_bytes and so on.
Json memory_json(const MemoryUse& use);

}  // namespace billow::engine
