// The part of the engine that has adapters loaded for the sequences that use them.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace billow::engine {

// Null where none is wanted. Passes with an adapter take more scratch: from now on it is counted.
std::shared_ptr<Adapters::Entry> Engine::adapter_for(const AdapterFiles& files) {
  const std::shared_ptr<Adapters::Entry> entry =
      adapters_.find(files.empty() ? default_adapters_ : files);
  if (entry != nullptr && entry->need.rank > adapter_rank_) {
    adapter_rank_ = entry->need.rank;
    step_need_ = need_with(adapter_rank_);
  }
  return entry;
}

// False when there is no memory for it now. Throws Error where it cannot be loaded.
bool Engine::use_adapter(Adapters::Entry& entry) {
  if (!kv_.grant(context::MemoryClass::kAdapters, Adapters::missing_bytes(entry))) return false;
  adapters_.use(entry);
  return true;
}

// For the first sequence that is to begin with one. Those behind it get theirs when it has begun,
// so that they do not hold the memory that it lacks.
void Engine::load_adapters() {
  const auto is_next = [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->context_.granted_bytes() == 0 && sequence->adapter_ != nullptr;
  };
  const auto next = std::ranges::find_if(running_, is_next);
  if (next == running_.end() || (*next)->uses_adapter_) return;
  Sequence& sequence = **next;
  try {
    sequence.uses_adapter_ = use_adapter(*sequence.adapter_);
  } catch (const Error& error) {
    fail(sequence, error.what());
  }
}

void Engine::release_adapter(Sequence& sequence) {
  if (!sequence.uses_adapter_) return;
  sequence.uses_adapter_ = false;
  adapters_.release(*sequence.adapter_);
}

std::vector<std::vector<int32_t>> Engine::latest_prefixes(size_t n_most,
                                                          const AdapterFiles& adapters) {
  const AdapterFiles& wanted = adapters.empty() ? default_adapters_ : adapters;
  const std::shared_ptr<Adapters::Entry> entry = adapters_.known(wanted);
  if (entry == nullptr && !wanted.empty()) return {};
  return kv_.latest_prefixes(n_most, entry == nullptr ? 0 : entry->number);
}

}  // namespace billow::engine
