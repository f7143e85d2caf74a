#include "engine/memory_json.h"

#include "base/json.h"

namespace billow::engine {

Json memory_json(const MemoryUse& use) {
  return {{"file_bytes", use.file},
          {"packed_bytes", use.packed},
          {"weights_bytes", use.weights},
          {"adapters_bytes", use.adapters},
          {"adapters_cached_bytes", use.adapters_cached},
          {"pictures_cached_bytes", use.pictures_cached},
          {"kv_block_bytes", use.kv_block},
          {"kv_state_bytes", use.kv_state},
          {"kv_reserved_bytes", use.kv_reserved},
          {"kv_granted_bytes", use.kv_granted},
          {"kv_cached_bytes", use.kv_cached},
          {"kv_in_use_bytes", use.kv_in_use},
          {"kv_backed_bytes", use.kv_backed},
          {"kv_max_bytes", use.kv_max},
          {"kv_evicted_bytes", use.kv_evicted},
          {"adapters_evicted_bytes", use.adapters_evicted},
          {"scratch_bytes", use.scratch},
          {"scratch_granted_bytes", use.scratch_granted},
          {"budget_bytes", use.budget}};
}

}  // namespace billow::engine
