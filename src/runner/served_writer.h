// Serves a generating model with an engine loop. It embeds texts in parallel with other requests.
// Owns the loop. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kernels/kv_names.h"
#include "runner/engine_loop.h"
#include "runner/served_model.h"

namespace billow::runner {

class ServedWriter : public ServedModel {
 public:
  ServedWriter(std::unique_ptr<engine::Engine> engine, const LoopOptions& options)
      : loop_(std::move(engine), options) {}

  const tokenizer::Tokenizer& tokenizer() const noexcept override { return loop_.tokenizer(); }
  std::string failure() const override { return loop_.state().failure; }
  void add_state(Json& health) const override;
  void complete(http::Exchange& exchange) override;
  // Rejects pairs, and pooling that differs from the model's.
  void embed(http::Exchange& exchange) override;
  std::vector<kv::KnownText> latest_prefixes(size_t n_max) override {
    return loop_.latest_prefixes(n_max);
  }
  std::string_view kv_format() const noexcept override {
    const kv::KvType type = loop_.kv_type();
    return type == kv::KvType::kInt16 ? "int16" : kernels::name_of(type);
  }
  std::optional<kv::TextKv> do_with_text(TextAction action, std::vector<int32_t> tokens,
                                         engine::AdapterFiles adapters, uint64_t salt) override {
    return loop_.do_with_text(action, std::move(tokens), std::move(adapters), salt);
  }
  void set_memory_budget(const MemoryBudget& budget) override { loop_.set_memory_budget(budget); }

 private:
  EngineLoop loop_;
};

}  // namespace billow::runner
