// Serves a model on llama-server through the routes of a runner. Answers have the same context
// sizes, stop strings and events as those of Billow's own engine. Owns the process. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "llama/facts.h"
#include "llama/host.h"
#include "runner/meter.h"
#include "runner/served_model.h"
#include "tokenizer/tokenizer.h"

namespace billow::llama {

struct ServedOptions {
  HostOptions host;
  FactsOptions facts{};
  std::optional<Projector> projector{};  // the projector in host.command.projector
  uint64_t budget_bytes = 0;
};

class ServedLlama : public runner::ServedModel {
 public:
  // Loads the model options.host.command.model. Throws Error if loading fails.
  explicit ServedLlama(const ServedOptions& options);

  const tokenizer::Tokenizer& tokenizer() const noexcept override { return tokenizer_; }
  std::string failure() const override { return host_->state().failure; }
  void add_state(Json& health) const override;
  void complete(http::Exchange& exchange) override;
  // Throws Error for pairs of texts and for a pooling that the model does not have.
  void embed(http::Exchange& exchange) override;
  void set_memory_budget(const runner::MemoryBudget& budget) override { host_->set_budget(budget); }

 private:
  ServedLlama(const ServedOptions& options, const gguf::File& file);

  const Facts facts_;
  const tokenizer::Tokenizer tokenizer_;
  const size_t n_parallel_;
  bool takes_images_ = false;
  std::unique_ptr<Host> host_;
  std::atomic<size_t> n_running_{0};
  std::atomic<bool> has_salted_ = false;  // a request had a salt
};

}  // namespace billow::llama
