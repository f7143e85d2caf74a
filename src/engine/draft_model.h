// A second, small model that guesses what sequences may write next, token after token, for many of
// them in one pass. It has weights and KV of its own and shares threads and scratch memory with
// the model that writes. What it guesses is compared like any draft, so it never changes an answer.
// One thread at a time.
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

// Rows of a pass of a draft model, at most.
inline constexpr size_t kDraftBatch = 64;
// Positions of a text that it holds: it begins again near the end of a longer one.
inline constexpr size_t kMaxDraftPositions = 4096;

struct DraftModelOptions {
  size_t n_sequences = 1;  // texts at most
  size_t n_threads = 1;
  size_t max_context = 0;  // of the model that writes
  kernels::KvType kv_type = kernels::KvType::kInt16;
  bool pack_weights = true;
  PackedCacheOptions packed_cache = {};
};

// What a draft model takes beside the model that writes: weights, KV of each sequence, and the
// scratch of its passes, which follow those of the other one. Throws Error as loading it does.
context::MemoryNeed draft_need(const gguf::File& file, const kernels::KernelTable& kernels,
                               const DraftModelOptions& options);

// Throws Error (kInvalidInput) where the tokens of one file are not those of the other.
// REQUIRES: both were opened with their string arrays.
void check_draft_vocabulary(const gguf::File& draft, const gguf::File& target);

class DraftModel {
 public:
  // Opens and loads the model of `path` for texts of `target`. Throws Error naming the file and
  // what is wrong: kUnsupported for recurrent states, which cannot be cut back to where a guess
  // goes wrong, kInvalidInput where its vocabulary is not that of `target`.
  DraftModel(const std::string& path, const gguf::File& target, const kernels::KernelTable& kernels,
             const DraftModelOptions& options);

  const gguf::File& file() const noexcept { return file_; }
  nn::PackedWeights& packed() noexcept { return packed_; }
  PackedCache& packed_cache() noexcept { return packed_cache_; }
  const context::MemoryNeed& need() const noexcept { return need_; }
  size_t n_vocab() const noexcept { return model_->info().n_vocab; }
  kv::Cache& cache() noexcept { return cache_; }
  const kv::Cache& cache() const noexcept { return cache_; }

  // How far it has read the text of one sequence, and the KV of that. The model must outlive it.
  class Text {
   public:
    explicit Text(DraftModel& model) : table_(model.cache_) {}
    // Forgets what was read and is not part of `text`, and returns how many tokens of it are still
    // to be read: at least one, behind which a guess is to be had. A text of more than n_max
    // tokens is read from near its end on. REQUIRES: the text is not empty, nor is n_max 0.
    size_t follow(std::span<const int32_t> text, size_t n_max);
    size_t n_read() const noexcept { return read_.size(); }

   private:
    friend class DraftModel;
    kv::BlockTable table_;
    size_t first_ = 0;           // in the text: the token at position 0
    std::vector<int32_t> read_;  // whose KV is there
  };
  // Positions that a text may have on a rung of its sequence.
  size_t max_positions(size_t rung) const noexcept;

  // What a pass reads of one text.
  struct Reading {
    Text* text = nullptr;
    std::span<const int32_t> tokens;  // that follow what was read
    bool guesses = false;             // the token behind them is wanted
  };
  struct Guess {
    int32_t token = 0;
    float probability = 0.0f;  // 0: its logits are no numbers
  };
  // One pass over the tokens of all readings, at most kDraftBatch together. Returns a guess for
  // each reading that wants one, in their order: its best token below n_tokens.
  std::vector<Guess> read(const nn::Compute& compute, std::span<const Reading> readings,
                          size_t n_tokens);

 private:
  gguf::File file_;
  nn::PackedWeights packed_;
  PackedCache packed_cache_;
  std::unique_ptr<arch::Model> model_;
  context::MemoryNeed need_;
  kv::Cache cache_;
  LogitScan scan_;
};

}  // namespace billow::engine
