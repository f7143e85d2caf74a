// The part of the engine that loads adapters for sequences.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace billow::engine {

// Returns null if no adapter is wanted. Passes with an adapter need more scratch, which is counted
// from here on.
std::shared_ptr<Adapters::Entry> Engine::adapter_for(const AdapterFiles& files) {
  const std::shared_ptr<Adapters::Entry> entry =
      adapters_.find(files.empty() ? default_adapters_ : files);
  if (entry != nullptr && entry->need().rank > adapter_rank_) {
    adapter_rank_ = entry->need().rank;
    step_need_ = need_with(adapter_rank_);
  }
  return entry;
}

std::string Engine::adapter_refusal(const AdapterFiles& files) const {
  try {
    (void)adapters_.find(files.empty() ? default_adapters_ : files);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Returns an empty lease if there is too little memory now. Throws Error if the adapter cannot be
// loaded.
Adapters::Lease Engine::use_adapter(const std::shared_ptr<Adapters::Entry>& entry) {
  return adapters_.use(
      entry, [this](uint64_t bytes) { return kv_.grant(context::MemoryClass::kAdapters, bytes); });
}

// Loads the adapter of the first sequence that has not started. Later sequences get theirs after
// that sequence has started, so that they do not hold the memory that it lacks.
void Engine::load_adapters() {
  const auto is_next = [](const std::shared_ptr<Sequence>& sequence) {
    return sequence->context_.granted_bytes() == 0 && sequence->adapter_ != nullptr;
  };
  const auto next = std::ranges::find_if(running_, is_next);
  if (next == running_.end() || (*next)->lease_) return;
  Sequence& sequence = **next;
  try {
    sequence.lease_ = use_adapter(sequence.adapter_);
  } catch (const Error& error) {
    fail(sequence, error.what());
  }
}

std::vector<kv::KnownText> Engine::latest_prefixes(size_t n_max, const AdapterFiles& adapters) {
  const AdapterFiles& wanted = adapters.empty() ? default_adapters_ : adapters;
  const std::shared_ptr<Adapters::Entry> entry = adapters_.known(wanted);
  if (entry == nullptr && !wanted.empty()) return {};
  return kv_.latest_prefixes(n_max, entry == nullptr ? 0 : entry->number());
}

kv::TextKv Engine::text_on_disk(std::span<const int32_t> tokens, const AdapterFiles& adapters,
                                uint64_t salt) {
  // KV with adapters is never written.
  if (!adapters.empty() || !default_adapters_.empty()) return {};
  return kv_.text_on_disk(tokens, {.is_long = is_long_text(tokens.size()), .salt = salt});
}

kv::TextKv Engine::forget_text(std::span<const int32_t> tokens, const AdapterFiles& adapters,
                               uint64_t salt) {
  const AdapterFiles& wanted = adapters.empty() ? default_adapters_ : adapters;
  const std::shared_ptr<Adapters::Entry> entry = adapters_.known(wanted);
  if (entry == nullptr && !wanted.empty()) return {};
  return kv_.forget_text(tokens, {.is_long = is_long_text(tokens.size()),
                                  .adapter = entry == nullptr ? 0 : entry->number(),
                                  .salt = salt});
}

}  // namespace billow::engine
