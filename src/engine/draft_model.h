// Guesses the next tokens of sequences, token after token, for many sequences in one pass: with a
// small second model, or with the predicting head of the main model (arch::Model::head). It has
// separate KV, and shares threads and scratch memory with the main model. Its guesses are verified
// like any draft, so they never change an answer. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/model.h"
#include "context/memory_need.h"
#include "cpu/thread_team.h"
#include "engine/packed_cache.h"
#include "engine/sampling/logit_scan.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/cache.h"
#include "nn/compute.h"
#include "nn/packed_weights.h"

namespace billow::engine {

// Max rows of a pass of a draft model.
inline constexpr size_t kDraftBatch = 64;
// Max positions of a text. A longer text is read from near its end on.
inline constexpr size_t kMaxDraftPositions = 4096;
// A predicting head reads at most this many tokens of a text before the first guess. The main
// model's states of the last tokens are kept for it, of up to twice as many.
inline constexpr size_t kKeptStates = 128;

struct DraftModelOptions {
  size_t n_sequences = 1;  // max texts
  size_t n_threads = 1;
  size_t max_context = 0;  // of the main model
  kernels::KvType kv_type = kernels::KvType::kInt16;
  bool pack_weights = true;
  PackedCacheOptions packed_cache = {};
};

// Returns the memory that a draft model needs in addition to the main model: weights, KV of each
// sequence, and scratch. The passes of the two models run one after the other. Throws the same
// Error as loading.
context::MemoryNeed draft_need(const gguf::File& file, const kernels::KernelTable& kernels,
                               const DraftModelOptions& options);
// The same for a predicting head. Its weights belong to the main model, so weight_bytes is the
// memory of kept states.
context::MemoryNeed head_need(const arch::Model& head, const kernels::KernelTable& kernels,
                              const DraftModelOptions& options);

// Throws Error (kInvalidInput) if the two files have different tokens. REQUIRES: both were opened
// with their string arrays.
void check_draft_vocabulary(const gguf::File& draft, const gguf::File& target);

class DraftModel {
 public:
  // Opens and loads the model of `path` for texts of `target`. Throws Error with the file and the
  // problem: kUnsupported for recurrent states, which cannot be truncated to the last right guess,
  // kInvalidInput if its vocabulary differs from that of `target`.
  DraftModel(const std::string& path, const gguf::File& target, const kernels::KernelTable& kernels,
             const DraftModelOptions& options);

  // Guesses with a predicting head, which must outlive this object.
  DraftModel(const arch::Model& head, const kernels::KernelTable& kernels,
             const DraftModelOptions& options);

  // A model of its own, with its weights.
  struct Own {
    Own(const std::string& path, const gguf::File& target, const kernels::KernelTable& kernels,
        const DraftModelOptions& options);
    gguf::File file;
    nn::PackedWeights packed;
    PackedCache packed_cache;
    std::unique_ptr<arch::Model> model;
  };
  // Returns null for a predicting head.
  Own* own() noexcept { return own_.get(); }
  const Own* own() const noexcept { return own_.get(); }
  // Whether texts need the main model's states (Text::keep_states).
  bool is_head() const noexcept { return own_ == nullptr; }
  const context::MemoryNeed& need() const noexcept { return need_; }
  size_t n_vocab() const noexcept { return model_->info().n_vocab; }
  kv::Cache& cache() noexcept { return cache_; }
  const kv::Cache& cache() const noexcept { return cache_; }

  // The part of a sequence's text that was read, and its KV. The model must outlive it.
  class Text {
   public:
    explicit Text(DraftModel& model)
        : table_(model.cache_), n_embd_(model.is_head() ? model.model_->info().n_embd : 0) {}
    // For a predicting head: takes the main model's states of the tokens from index `first` of the
    // text on, one row for each. The last kKeptStates are kept.
    void keep_states(size_t first, tensor::Matrix states);
    // Drops tokens that were read but differ from `text`. Returns how many tokens of `text` must
    // still be read before a guess: at least one. If the text has more than n_max tokens, reading
    // starts near its end. Returns 0 if the main model's state for the last token is not known yet.
    // REQUIRES: the text is not empty, and n_max > 0.
    size_t follow(std::span<const int32_t> text, size_t n_max);
    size_t n_read() const noexcept { return read_.size(); }

   private:
    friend class DraftModel;
    void begin_at(size_t first);
    size_t follow_states(std::span<const int32_t> text, size_t n_max);
    // Returns the state for the token at `index` of the text: the main model's, or that of the last
    // guess.
    const float* state_for(size_t index) const noexcept;
    size_t states_end() const noexcept { return states_first_ + states_.size() / n_embd_; }

    kv::BlockTable table_;
    size_t first_ = 0;           // index in the text of the token at position 0
    std::vector<int32_t> read_;  // tokens with KV
    // For a predicting head:
    size_t n_embd_;            // 0: not a head
    size_t n_sure_ = 0;        // the first tokens of read_, which were read with the model's states
    size_t states_first_ = 0;  // index of the token that the first state belongs to
    std::vector<float> states_;       // the model's states of adjacent tokens
    std::vector<float> guess_state_;  // the head's state of the last guess
  };
  // Returns the max positions of a text whose sequence is on this rung.
  size_t max_positions(size_t rung) const noexcept;

  // Input of a pass for one text.
  struct Reading {
    Text* text = nullptr;
    std::span<const int32_t> tokens;  // the tokens after those that were read
    bool guesses = false;             // whether a guess for the next token is wanted
  };
  struct Guess {
    int32_t token = 0;
    float probability = 0.0f;  // 0: the logits are not finite
  };
  // Runs one pass over the tokens of all readings, at most kDraftBatch together. Returns one guess
  // for each reading that wants one, in the same order: the most likely token below n_tokens.
  std::vector<Guess> read(const nn::Compute& compute, std::span<const Reading> readings,
                          size_t n_tokens);

 private:
  std::unique_ptr<Own> own_;  // null: a predicting head
  const arch::Model* model_;
  context::MemoryNeed need_;
  kv::Cache cache_;
  LogitScan scan_;
};

}  // namespace billow::engine
