// Texts that become vectors: each is evaluated like a sequence, in steps beside those that write,
// and its hidden states are pooled. An Embedding is made by the Engine and changed by its
// EmbedQueue alone. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/adapters.h"
#include "engine/kv_memory.h"
#include "engine/pooling.h"
#include "engine/sequence_context.h"
#include "engine/step_rows.h"
#include "gguf/file.h"
#include "tensor/tensor.h"

namespace billow::engine {

// How an engine pools the hidden states of the model of `file`; of one that ranks it gives the last
// token's state, which a classifier reads. Throws Error (kUnsupported) for pooling that gives not
// one vector of hidden states, and for a model whose tokens see those behind them.
Pooling pooling_of_decoder(const gguf::File& file);

// How many sequences an engine on the model of `file` is made for, where n_parallel requests run at
// once: a model that is made for vectors writes nothing.
size_t sequences_of(const gguf::File& file, size_t n_parallel);

class Embedding {
 public:
  // `is_long`: the text is longer than arch::ModelInfo::short_text. `adapter`: what the model is
  // added to by; null: nothing. REQUIRES: there are tokens.
  Embedding(kv::Cache& cache, std::vector<int32_t> tokens, bool is_long,
            std::shared_ptr<Adapters::Entry> adapter);

  std::span<const int32_t> tokens() const noexcept { return tokens_; }
  size_t n_evaluated() const noexcept { return context_.n_held(); }
  const context::ContextPlan& context_plan() const noexcept { return context_.context_plan(); }
  const std::shared_ptr<Adapters::Entry>& adapter() const noexcept { return adapter_; }
  bool finished() const noexcept { return finished_; }
  // REQUIRES: it has finished, without an error. [n_embd], not normalised.
  const std::vector<float>& vector() const noexcept { return vector_; }
  const std::string& error() const noexcept { return error_; }  // why there is no vector; or empty

 private:
  friend class EmbedQueue;
  size_t n_pending() const noexcept { return tokens_.size() - context_.n_held(); }

  std::vector<int32_t> tokens_;
  SequenceContext context_;
  std::shared_ptr<Adapters::Entry> adapter_;
  Adapters::Lease lease_;    // of that, while the text has memory
  std::vector<double> sum_;  // of the hidden states that were wanted so far
  std::vector<float> vector_;
  std::string error_;
  bool finished_ = false;
};

// Those that have not finished, in their order. As many as fill a step have memory at a time; all
// that each will ever take is granted before it begins, and given back when it ends.
class EmbedQueue {
 public:
  // Grants all memory for a text of n tokens; false when there is none now.
  using Grant = std::function<bool(SequenceContext& context, size_t n)>;
  // Has an adapter loaded for a text; empty when there is no memory for it now. Throws Error where
  // it cannot be loaded.
  using UseAdapter = std::function<Adapters::Lease(const std::shared_ptr<Adapters::Entry>&)>;

  // `memory` must outlive it. All texts together take blocks for one sequence at most.
  EmbedQueue(KvMemory& memory, size_t n_embd) : memory_(memory), n_embd_(n_embd) {}
  ~EmbedQueue() { end_all(); }
  EmbedQueue(const EmbedQueue&) = delete;
  EmbedQueue& operator=(const EmbedQueue&) = delete;

  void add(std::shared_ptr<Embedding> embedding) { queue_.push_back(std::move(embedding)); }
  void cancel(const Embedding& embedding);
  void end_all();
  bool empty() const noexcept { return queue_.empty(); }
  bool waiting() const noexcept { return waiting_; }  // for memory, all of them, in the last step
  // REQUIRES: they wait. The one that is to have memory next.
  const Embedding& first_waiting() const { return *queue_[n_admitted_]; }
  // It cannot be had: what waits does so for sequences to end, and no longer asks.
  void deny() noexcept { denied_ = true; }
  void ask_again() noexcept { denied_ = false; }
  bool asking() const noexcept { return waiting_ && !denied_; }

  // Lets texts begin until n_rows of their tokens wait to be evaluated, and returns how many do. A
  // text whose adapter cannot be loaded ends with that error.
  size_t admit(size_t n_rows, const Grant& grant, const UseAdapter& use_adapter);
  // No memory will be given back: the first one ends with this error.
  void fail_first(const std::string& error) { fail(0, error); }
  // Adds the next n waiting tokens to a step, in order. REQUIRES: that many wait.
  void take(size_t n, Pooling pooling, StepRows& rows);
  // What take() asked for, as evaluated. Ends the texts that are complete.
  void pool(Pooling pooling, tensor::Matrix hidden);

 private:
  void release(Embedding& embedding);
  void fail(size_t i, const std::string& error);

  KvMemory& memory_;
  size_t n_embd_;
  std::deque<std::shared_ptr<Embedding>> queue_;
  size_t n_admitted_ = 0;   // the first ones
  size_t n_positions_ = 0;  // that have memory
  bool waiting_ = false;
  bool denied_ = false;
  // Of the step: whose rows of `hidden` stand behind one another, and how many.
  struct Part {
    std::shared_ptr<Embedding> embedding;
    size_t n_hidden = 0;
  };
  std::vector<Part> parts_;
};

}  // namespace billow::engine
