// An encoder with its memory and threads: makes vectors of texts, a pass of packed texts at a time.
// info(), refusal() and the accessors: any thread; all else: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/encoder.h"
#include "context/ledger.h"
#include "cpu/thread_team.h"
#include "engine/embed/model.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "tensor/arena.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// How the encoder of `file` pools: as the file states, else by its classifier where it has one,
// else by the mean. Throws Error as pooling_of().
Pooling pooling_of_encoder(const gguf::File& file);

// The most scratch memory of passes of at most n_tokens, in bytes.
uint64_t encoder_scratch_bytes(const arch::Encoder& encoder, const kernels::KernelTable& kernels,
                               size_t n_tokens, size_t n_threads, bool packed = true);

class EncoderModel final : public EmbedModel {
 public:
  // Of the options, those of sequences and of KV do not count; max_context limits the texts. Throws
  // Error naming the file and what is wrong.
  explicit EncoderModel(gguf::File file, const EngineOptions& options = {});

  const EmbedModelInfo& info() const noexcept override { return info_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return *tokenizer_; }
  std::string refusal(const EmbedText& text) const override;
  // A text that refusal() has something against is an Error (kInvalidInput).
  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override;

  const gguf::File& file() const noexcept { return file_; }
  const kernels::KernelTable& kernels() const noexcept { return *kernels_; }
  int n_threads() const noexcept { return team_.size(); }
  MemoryUse memory() const override;
  // Another budget from now on; what passes were granted stays. Returns the bytes that are granted
  // now.
  uint64_t set_memory_budget(uint64_t bytes) override;

 private:
  struct Pass;
  void grant_scratch(size_t n_tokens, size_t n_longest, size_t n_ranked);
  Pooling pooling_for(const EmbedText& text) const { return text.pooling.value_or(info_.pooling); }
  void pool(const Pass& pass, std::span<EmbedVector> out);
  void rank(const Pass& pass, std::span<EmbedVector> out);

  context::Ledger ledger_;
  gguf::File file_;
  std::optional<tokenizer::Tokenizer> tokenizer_;  // always there once the model is made
  const kernels::KernelTable* kernels_;
  cpu::ThreadTeam team_;
  nn::PackedWeights packed_;
  std::unique_ptr<arch::Encoder> encoder_;
  tensor::Arena arena_;
  EmbedModelInfo info_;
  uint64_t scratch_granted_ = 0;
};

}  // namespace billow::engine
