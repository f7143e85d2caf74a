#include "engine/embed/faulty_model.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace billow::engine {
namespace {

class FaultyModel : public EmbedModel {
 public:
  FaultyModel(std::unique_ptr<EmbedModel> model, const EmbedFaults& faults,
              std::shared_ptr<std::atomic<size_t>> n_allocations)
      : model_(std::move(model)), faults_(faults), n_allocations_(std::move(n_allocations)) {}

  const EmbedModelInfo& info() const noexcept override { return model_->info(); }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return model_->tokenizer(); }
  std::string refusal(const EmbedText& text) const override { return model_->refusal(text); }
  MemoryUse memory() const override { return model_->memory(); }
  uint64_t set_memory_budget(uint64_t bytes) override { return model_->set_memory_budget(bytes); }

  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override {
    size_t n_tokens = 0;
    for (const EmbedText* text : texts) n_tokens += text->tokens.size();
    const size_t n = ++*n_allocations_;
    const bool is_due = faults_.every > 0 && n % faults_.every == 0;
    const bool is_large = faults_.above_tokens > 0 && n_tokens > faults_.above_tokens;
    if (is_due || is_large)
      throw Error(
          ErrorCode::kOutOfMemory,
          fmt::format("allocation {} of a pass of {} tokens fails on purpose", n, n_tokens));
    model_->embed(texts, out);
  }

 private:
  std::unique_ptr<EmbedModel> model_;
  const EmbedFaults faults_;
  std::shared_ptr<std::atomic<size_t>> n_allocations_;
};

}  // namespace

std::vector<std::unique_ptr<EmbedModel>> with_faults(
    std::vector<std::unique_ptr<EmbedModel>> models, const EmbedFaults& faults) {
  if (!faults.any()) return models;
  log::warn(fmt::format("faults are on: allocations of embedding passes fail (every={}, above={})",
                        faults.every, faults.above_tokens));
  const auto n_allocations = std::make_shared<std::atomic<size_t>>(0);
  for (auto& model : models)
    model = std::make_unique<FaultyModel>(std::move(model), faults, n_allocations);
  return models;
}

}  // namespace billow::engine
