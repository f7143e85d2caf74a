// An encoder with its memory and threads: calculates vectors of texts, one pass of packed texts at
// a time. Several models for parallel passes share the weights. info(), refusal() and the accessors
// are thread-safe; one thread at a time may call the rest.
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

// Returns the pooling of the encoder of `file`: the stated one, else kRank if it has a classifier,
// else kMean. Throws the same Error as pooling_of().
Pooling pooling_of_encoder(const gguf::File& file);

// Returns the max scratch memory of a pass of at most n_tokens, in bytes.
uint64_t encoder_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                               size_t n_tokens, size_t n_threads, size_t adapter_rank = 0);
// Returns the sum for all parallel passes, of texts of at most max_tokens.
uint64_t passes_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                              const EmbedSizes& sizes, size_t max_tokens, size_t n_threads,
                              size_t adapter_rank = 0);

class EncoderModel final : public EmbedModel {
 public:
  // Ignores the options of sequences and of KV; max_context limits the texts. Throws Error with the
  // file and the problem.
  explicit EncoderModel(gguf::File file, const EngineOptions& options = {});
  // Creates one model for each parallel pass. The models share the weights and a ledger, and divide
  // the threads among themselves.
  static std::vector<std::unique_ptr<EmbedModel>> load(gguf::File file,
                                                       const EngineOptions& options,
                                                       const EmbedSettings& settings);

  const EmbedModelInfo& info() const noexcept override { return weights_->info; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return *weights_->tokenizer; }
  std::string refusal(const EmbedText& text) const override;
  // Throws Error (kInvalidInput) for a text that refusal() refuses. Texts with several adapters are
  // evaluated together if there is memory for all their adapters.
  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override;

  const gguf::File& file() const noexcept { return weights_->file; }
  const kernels::KernelTable& kernels() const noexcept { return *weights_->kernels; }
  int n_threads() const noexcept { return team_.size(); }
  MemoryUse memory() const override;
  // Sets the budget of all models that share the weights; passes keep their granted memory. Returns
  // the bytes that are granted after the call.
  uint64_t set_memory_budget(uint64_t bytes) override;

 private:
  struct Pass;
  // Data that parallel passes share. It does not change, except for the ledger and the adapters,
  // which lock.
  struct Weights {
    Weights(gguf::File its_file, const EngineOptions& options);  // does not pack yet
    void pack(cpu::ThreadTeam& team, const EngineOptions& options);
    // Grants bytes from the ledger; evicts unused adapters if necessary.
    bool grant(context::MemoryClass memory_class, uint64_t n_bytes);
    const AdapterFiles& adapters_of(const EmbedText& text) const {
      return text.adapters.empty() ? default_adapters : text.adapters;
    }
    context::Ledger ledger;
    gguf::File file;
    std::optional<tokenizer::Tokenizer> tokenizer;  // set by pack()
    const kernels::KernelTable* kernels;
    nn::PackedWeights packed;
    PackedCache packed_cache;
    std::vector<tensor::Tensor> matrices;  // that adapters can change
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
  // Returns whether the text's vector is pooled and then projected.
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
  bool is_first_;  // its memory() includes the weights and the budget
  uint64_t scratch_granted_ = 0;
  arch::PassLimits granted_pass_;  // limits that scratch_granted_ was calculated for
};

}  // namespace billow::engine
