// A model that only embeds, served by a batcher: texts of all requests share passes. Owns the
// batcher, and with it the model. Any thread may call.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/embed/batcher.h"
#include "runner/meter.h"
#include "runner/served_model.h"

namespace billow::runner {

class ServedEmbedder : public ServedModel {
 public:
  // One model or more, all of one file. The options' events are the embedder's own. Throws Error as
  // EmbedBatcher does.
  ServedEmbedder(std::vector<std::unique_ptr<engine::EmbedModel>> models,
                 engine::EmbedBatcherOptions options);

  const tokenizer::Tokenizer& tokenizer() const noexcept override { return tokenizer_; }
  std::string failure() const override { return ""; }  // a pass fails, the model goes on
  void add_state(Json& health) const override;
  void complete(http::Exchange& exchange) override;  // 501
  void embed(http::Exchange& exchange) override;
  void set_memory_budget(const MemoryBudget& budget) override {
    batcher_.set_memory_budget(budget.bytes, budget.version);
  }

 private:
  void begin_pass();
  void end_pass(size_t n_tokens);

  const tokenizer::Tokenizer& tokenizer_;  // the first model's
  mutable std::mutex mutex_;
  Meter meter_{Meter::Clock::now()};  // passes that run together are one
  size_t n_running_ = 0;
  size_t n_tokens_ = 0;           // of those that ended while others ran
  engine::EmbedBatcher batcher_;  // the last: its threads use the others
};

}  // namespace billow::runner
