// Serves an embedding model with a batcher. Texts of all requests share passes. Owns the batcher
// and through it the model. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "engine/embed/batcher.h"
#include "runner/meter.h"
#include "runner/served_model.h"

namespace billow::runner {

class ServedEmbedder : public ServedModel {
 public:
  // Takes one or more models of the same file. Replaces the pass callbacks in the options. Throws
  // Error like EmbedBatcher.
  ServedEmbedder(std::vector<std::unique_ptr<engine::EmbedModel>> models,
                 engine::EmbedBatcherOptions options);

  const tokenizer::Tokenizer& tokenizer() const noexcept override { return tokenizer_; }
  std::string failure() const override { return ""; }  // a failed pass does not stop the model
  void add_state(Json& health) const override;
  void complete(http::Exchange& exchange) override;  // 501
  void embed(http::Exchange& exchange) override;
  void set_memory_budget(const MemoryBudget& budget) override {
    batcher_.set_memory_budget(budget.bytes, budget.version);
  }

 private:
  void begin_pass();
  void end_pass(const engine::PassDone& pass);

  const tokenizer::Tokenizer& tokenizer_;  // the first model's
  mutable std::mutex mutex_;
  Meter meter_{Meter::Clock::now()};  // passes that run at the same time count as one
  size_t n_running_ = 0;
  // The latest passes: [number, Unix time of the end in ms, texts, tokens, ms].
  std::deque<std::tuple<uint64_t, int64_t, size_t, size_t, double>> passes_;
  uint64_t n_passes_ = 0;
  size_t n_tokens_ = 0;           // tokens of passes that ended while others ran
  engine::EmbedBatcher batcher_;  // declared last, because its threads use the other members
};

}  // namespace billow::runner
