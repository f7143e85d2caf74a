// An encoder with its memory and threads: makes vectors of texts, a pass of packed texts at a time.
// Several for passes at once share the weights. info(), refusal() and the accessors: any thread;
// all else: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/encoder.h"
#include "context/ledger.h"
#include "cpu/thread_team.h"
#include "engine/embed/model.h"
#include "engine/embed/plan.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "tensor/arena.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// How the encoder of `file` pools: as the file states, else by its classifier where it has one,
// else by the mean. Throws Error as pooling_of().
Pooling pooling_of_encoder(const gguf::File& file);

// The most scratch memory of a pass of at most n_tokens, in bytes.
uint64_t encoder_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                               size_t n_tokens, size_t n_threads, size_t adapter_rank = 0);
// The same of all passes at once together, of texts of at most max_tokens.
uint64_t passes_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                              const EmbedSizes& sizes, size_t max_tokens, size_t n_threads,
                              size_t adapter_rank = 0);

class EncoderModel final : public EmbedModel {
 public:
  // Of the options, those of sequences and of KV do not count; max_context limits the texts. Throws
  // Error naming the file and what is wrong.
  explicit EncoderModel(gguf::File file, const EngineOptions& options = {});
  // A model for each pass at once, all over one set of weights and one ledger; they share the
  // threads.
  static std::vector<std::unique_ptr<EmbedModel>> load(gguf::File file,
                                                       const EngineOptions& options,
                                                       const EmbedSettings& settings);

  const EmbedModelInfo& info() const noexcept override { return weights_->info; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return *weights_->tokenizer; }
  std::string refusal(const EmbedText& text) const override;
  // A text that refusal() has something against is an Error (kInvalidInput). Texts of several
  // adapters are evaluated together as far as there is memory for their adapters at once.
  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override;

  const gguf::File& file() const noexcept { return weights_->file; }
  const kernels::KernelTable& kernels() const noexcept { return *weights_->kernels; }
  int n_threads() const noexcept { return team_.size(); }
  MemoryUse memory() const override;
  // Of all models that share the weights, from now on; what passes were granted stays. Returns the
  // bytes that are granted now.
  uint64_t set_memory_budget(uint64_t bytes) override;

 private:
  struct Pass;
  // What passes at once share; it does not change, but for the ledger and the adapters, which lock.
  struct Weights {
    Weights(gguf::File its_file, const EngineOptions& options);  // packs nothing yet
    void pack(cpu::ThreadTeam& team, const EngineOptions& options);
    // From the ledger; adapters that nobody uses make way.
    bool grant(context::MemoryClass memory_class, uint64_t n_bytes);
    const AdapterFiles& adapters_of(const EmbedText& text) const {
      return text.adapters.empty() ? default_adapters : text.adapters;
    }
    context::Ledger ledger;
    gguf::File file;
    std::optional<tokenizer::Tokenizer> tokenizer;  // always there once the weights are made
    const kernels::KernelTable* kernels;
    nn::PackedWeights packed;
    PackedCache packed_cache;
    std::vector<tensor::Tensor> matrices;  // that adapters can add to
    std::unique_ptr<arch::Encoder> encoder;
    EmbedModelInfo info;
    Adapters adapters;
    AdapterFiles default_adapters;
  };
  EncoderModel(std::shared_ptr<Weights> weights, int n_threads, bool is_first)
      : weights_(std::move(weights)), team_(n_threads), is_first_(is_first) {}
  arch::PassLimits limits_of(std::span<const EmbedText* const> texts) const;
  void grant_scratch(const arch::PassLimits& limits);
  bool add(Pass& pass, const EmbedText& text);
  void run(Pass& pass, std::span<EmbedVector> out);
  Pooling pooling_for(const EmbedText& text) const { return text.pooling.value_or(info().pooling); }
  // What is pooled into one vector.
  bool is_projected(const EmbedText& text) const {
    const Pooling pooling = pooling_for(text);
    return weights_->encoder->projects() && pooling != Pooling::kNone && pooling != Pooling::kRank;
  }
  void pool(const Pass& pass, std::span<EmbedVector> out);
  void project(const Pass& pass, std::span<EmbedVector> out);
  void rank(const Pass& pass, std::span<EmbedVector> out);

  const std::shared_ptr<Weights> weights_;
  cpu::ThreadTeam team_;
  tensor::Arena arena_;
  bool is_first_;  // its memory() has the weights and the budget, too
  uint64_t scratch_granted_ = 0;
  arch::PassLimits granted_pass_;  // that it was counted for
};

}  // namespace billow::engine
