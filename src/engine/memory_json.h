// The memory use of an engine as JSON.
#pragma once

#include "base/json_fwd.h"
#include "engine/engine.h"

namespace billow::engine {

// Returns one number of bytes for each field of MemoryUse: file_bytes, packed_bytes and so on.
Json memory_json(const MemoryUse& use);

}  // namespace billow::engine
