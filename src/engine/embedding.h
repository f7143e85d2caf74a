// Texts that become vectors. A text is evaluated like a sequence, in the same steps as generating
// sequences. Then its hidden states are pooled. The Engine creates an Embedding, and only its
// EmbedQueue changes it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/adapters.h"
#include "engine/embed/waiting.h"
#include "engine/kv_memory.h"
#include "engine/pooling.h"
#include "engine/sequence_context.h"
#include "engine/step_rows.h"
#include "gguf/file.h"
#include "tensor/tensor.h"

namespace billow::engine {

// Returns how an engine pools the hidden states of the model of `file`. A model that ranks gives
// the state of the last token, which a classifier evaluates. Throws Error (kUnsupported) if the
// pooling does not give one vector of hidden states, or if tokens attend to later tokens.
Pooling pooling_of_decoder(const gguf::File& file);

// Returns the number of sequences that an engine for the model of `file` reserves for n_parallel
// parallel requests. An embedding model generates no text, so it needs only one.
size_t sequences_of(const gguf::File& file, size_t n_parallel);

// Who sent a text. Clients take turns. Texts of bulk work run only if no other texts are queued.
struct TextSender {
  std::string client{};
  bool is_bulk = false;
};

class Embedding {
 public:
  // `is_long`: the text is longer than arch::ModelInfo::short_text. `adapter`: null for none.
  // REQUIRES: `tokens` is not empty.
  Embedding(kv::Cache& cache, std::vector<int32_t> tokens, bool is_long,
            std::shared_ptr<Adapters::Entry> adapter);

  std::span<const int32_t> tokens() const noexcept { return tokens_; }
  size_t n_evaluated() const noexcept { return context_.n_held(); }
  const context::ContextPlan& context_plan() const noexcept { return context_.context_plan(); }
  const std::shared_ptr<Adapters::Entry>& adapter() const noexcept { return adapter_; }
  bool finished() const noexcept { return finished_; }
  // Returns the vector: [n_embd], not normalised. REQUIRES: finished() without an error.
  const std::vector<float>& vector() const noexcept { return vector_; }
  const std::string& error() const noexcept { return error_; }  // why there is no vector, or empty

 private:
  friend class EmbedQueue;
  size_t n_pending() const noexcept { return tokens_.size() - context_.n_held(); }

  std::vector<int32_t> tokens_;
  TextSender sender_;
  uint64_t id_ = 0;  // in its queue
  SequenceContext context_;
  std::shared_ptr<Adapters::Entry> adapter_;
  Adapters::Lease lease_;    // of adapter_, while the text has memory
  std::vector<double> sum_;  // of the pooled hidden states so far
  std::vector<float> vector_;
  std::string error_;
  bool finished_ = false;
};

// The unfinished texts. Enough texts to fill a step have memory at a time. A text gets all memory
// that it needs before it begins, and frees the memory when it ends. EmbedWaiting decides which
// text gets memory next.
class EmbedQueue {
 public:
  // Grants all memory for a text of n tokens. Returns false if there is too little now.
  using Grant = std::function<bool(SequenceContext& context, size_t n)>;
  // Loads the adapter of a text. Returns an empty lease if there is too little memory for it now.
  // Throws Error if it cannot be loaded.
  using UseAdapter = std::function<Adapters::Lease(const std::shared_ptr<Adapters::Entry>&)>;

  // `memory` must outlive this object. All texts together use at most the blocks of one sequence.
  EmbedQueue(KvMemory& memory, size_t n_embd) : memory_(memory), n_embd_(n_embd) {}
  ~EmbedQueue() { end_all(); }
  EmbedQueue(const EmbedQueue&) = delete;
  EmbedQueue& operator=(const EmbedQueue&) = delete;

  void add(std::shared_ptr<Embedding> embedding, TextSender sender);
  void cancel(const Embedding& embedding);
  void end_all();
  bool empty() const noexcept { return admitted_.empty() && queued_.empty(); }
  // Returns whether all texts are bulk work. REQUIRES: there are texts.
  bool is_bulk() const;
  // All texts waited for memory in the last step.
  bool waiting() const noexcept { return waiting_; }
  // Returns the text that gets memory next. REQUIRES: waiting().
  const Embedding& first_waiting() const { return *next(); }
  // The requested memory is not available. The queue stops asking until ask_again(), and waits for
  // sequences to end.
  void deny() noexcept { denied_ = true; }
  void ask_again() noexcept { denied_ = false; }
  bool asking() const noexcept { return waiting_ && !denied_; }

  // Starts texts until n_rows of their tokens are pending, and returns the number of pending
  // tokens. If the adapter of a text cannot be loaded, the text ends with that error.
  size_t admit(size_t n_rows, const Grant& grant, const UseAdapter& use_adapter);
  // No memory will become free: ends the text that gets memory next with this error. REQUIRES:
  // waiting().
  void fail_next(const std::string& error);
  // Adds the next n pending tokens to a step, in order. REQUIRES: n tokens are pending.
  void take(size_t n, Pooling pooling, StepRows& rows);
  // Pools the hidden states of the rows that take() added. Ends complete texts.
  void pool(Pooling pooling, tensor::Matrix hidden);

 private:
  void release(Embedding& embedding);
  static void end(Embedding& embedding, const std::string& error);
  const std::shared_ptr<Embedding>& next() const { return queued_.at(turns_.next()->job); }

  KvMemory& memory_;
  size_t n_embd_;
  std::deque<std::shared_ptr<Embedding>> admitted_;                  // with memory, oldest first
  std::unordered_map<uint64_t, std::shared_ptr<Embedding>> queued_;  // without memory, by id
  EmbedWaiting turns_;                                               // of queued_
  uint64_t n_added_ = 0;
  size_t n_positions_ = 0;  // with memory
  bool waiting_ = false;
  bool denied_ = false;
  // The texts of the step, in order, and the number of rows of `hidden` for each.
  struct Part {
    std::shared_ptr<Embedding> embedding;
    size_t n_hidden = 0;
  };
  std::vector<Part> parts_;
};

}  // namespace billow::engine
