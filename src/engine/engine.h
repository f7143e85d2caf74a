// A loaded model with its memory and threads, evaluating any number of sequences together. The
// caller starts sequences and calls step() until they have finished; each step is one pass over the
// weights. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/model.h"
#include "constraint/vocabulary.h"
#include "context/ledger.h"
#include "context/memory_need.h"
#include "cpu/thread_team.h"
#include "engine/adapters.h"
#include "engine/batcher.h"
#include "engine/draft_model.h"
#include "engine/embedding.h"
#include "engine/kv_memory.h"
#include "engine/mask_worker.h"
#include "engine/pacing.h"
#include "engine/packed_cache.h"
#include "engine/sequence.h"
#include "engine/speculation/speculation.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "tensor/arena.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

struct EngineOptions {
  int n_threads = 0;         // 0: the physical cores that the process may use
  size_t max_context = 0;    // positions of a sequence; 0, or more than the model's: the model's
  size_t n_batch = 512;      // rows of a step
  size_t max_sequences = 8;  // that may run at once
  kernels::KvType kv_type = kernels::KvType::kInt16;
  uint64_t memory_budget = 0;  // bytes of all memory together; 0: 80 % of what the process may use
  // Bytes of KV of finished sequences that are kept for prompts that begin alike, as long as nobody
  // else wants them; 0: none.
  uint64_t max_cached = 0;
  // Where the KV of finished sequences stays on disk, for prompts that begin alike after this
  // engine has ended, as save_one() writes it. Needs max_cached. Only a file's model has it.
  CacheFolderOptions sessions = {};
  // The budget may be raised for who asks: what lacks memory waits for set_memory_budget(), and is
  // compacted or ended only above its ceiling.
  bool asks_for_memory = false;
  // The system gets the memory of ended sequences back by trim(), and not before their ends are
  // known: it takes 0.2 ms.
  bool defers_trim = false;
  // Drafted tokens that a pass compares at most, of all sequences together; 0: none are drafted.
  size_t max_draft = kDefaultMaxDraft;
  bool drafts_eagerly = false;  // whatever it costs: for tests
  // GGUF file of a small model with the same vocabulary, which guesses where texts hold nothing to
  // draft from; empty: none does. It is not loaded where max_draft is 0.
  std::string draft_model = {};
  // How long a pass may take while somebody writes: prompts are read in chunks then. Zero: no
  // bound.
  std::chrono::nanoseconds max_pass_time{0};
  bool pack_weights = true;  // false: compute with weights as they lie in the file; slower
  PackedCacheOptions packed_cache = {};
  const kernels::KernelTable* kernels = nullptr;  // null: kernels::select_table()
  AdapterFiles adapters = {};                     // of sequences that ask for none, and of texts
  // Called while weights are packed, by any thread, with how many bytes of all are; it may be late.
  std::function<void(size_t n_loaded, size_t n_to_load)> on_load = {};
};

// What an engine's memory is taken by, in bytes.
struct MemoryUse {
  size_t file = 0;             // of the model, mapped; pages of packed weights are given back
  size_t packed = 0;           // weights in packed form
  size_t weights = 0;          // packed, or used where they lie in the file
  size_t kv_block = 0;         // a block of KV, of all layers
  size_t kv_state = 0;         // recurrent states of one sequence, of all layers
  size_t kv_reserved = 0;      // address space of KV memory
  size_t kv_granted = 0;       // that running sequences may take without asking again: their rungs
  size_t adapters = 0;         // loaded, in use or not
  size_t adapters_cached = 0;  // of them, those that nothing uses now
  size_t kv_cached = 0;        // blocks of finished sequences, kept for prompts that begin alike
  size_t kv_in_use = 0;        // blocks of sequences, and cached ones
  size_t kv_backed = 0;        // blocks that have memory of the system, in use or not
  size_t kv_max = 0;           // the most that was in use so far
  size_t scratch = 0;          // kept for the largest pass so far
  size_t scratch_granted = 0;  // the most that a pass may take
  // Of all that is granted: weights, adapters, kv_granted, kv_cached, scratch_granted.
  size_t budget = 0;
  // That was refused to sequences that run: what the largest rung of them lacks.
  size_t wanted = 0;
  bool asking = false;  // Engine::asking()
  // What should be resident.
  size_t accounted() const noexcept { return weights + adapters + kv_backed + scratch; }
  // What is granted.
  size_t held() const noexcept {
    return weights + adapters + kv_granted + kv_cached + scratch_granted;
  }
  // Of that, what can be dropped for others.
  size_t cached() const noexcept { return kv_cached + adapters_cached; }
};

// How the context of a given text overflows: as a sequence's, but for what is kept of its
// beginning. Only max_context, policy and compaction count: memory grows as it is needed.
struct TextOptions {
  ContextOptions context = {};
  size_t n_anchor = 4;  // tokens, which models put attention on that they need nowhere else
};

class Engine {
 public:
  // Opens and loads the model of `path`. Throws Error naming the file and what is wrong.
  explicit Engine(const std::string& path, const EngineOptions& options = {});
  // The same from an open file.
  Engine(gguf::File file, const EngineOptions& options);
  ~Engine();  // ends what runs; sequences may outlive it
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const gguf::File& file() const noexcept { return file_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  // Its tokens as grammars see them, made when it is first asked for. Any thread. Throws Error
  // (kUnsupported) where no token ends an answer.
  std::shared_ptr<const constraint::Vocabulary> vocabulary() const;
  const arch::ModelInfo& model() const noexcept { return model_->info(); }
  const arch::Model& loaded() const noexcept { return *model_; }
  const kernels::KernelTable& kernels() const noexcept { return *kernels_; }
  int n_threads() const noexcept { return team_.size(); }
  size_t max_context() const noexcept { return max_context_; }
  size_t max_sequences() const noexcept { return max_sequences_; }
  kernels::KvType kv_type() const noexcept { return kv_.cache().layout().layers.front().type; }
  size_t kv_bytes() const noexcept { return kv_.cache().bytes_in_use(); }
  MemoryUse memory() const;
  // Another budget from now on, for who shares memory out among engines. What is cached makes way
  // for a smaller one. What runs keeps what it was granted, be that more than the budget, but gets
  // nothing beyond it. A sequence that needs more than `ceiling` goes without. Returns the bytes
  // that are granted now.
  uint64_t set_memory_budget(uint64_t bytes, uint64_t ceiling = UINT64_MAX);
  // Whether something waits to know if the budget can be raised (EngineOptions::asks_for_memory):
  // by MemoryUse::wanted, or more.
  bool asking() const noexcept;
  // Waits until the packed weights are on disk (EngineOptions::packed_cache), if they are to be
  // kept.
  void wait_for_packed_cache() { packed_cache_.wait(); }
  // What the model takes of memory: all that is granted is reckoned with it.
  const context::MemoryNeed& need() const noexcept { return need_; }
  // What is granted against the budget; others may take and give back, too.
  context::Ledger& ledger() noexcept { return ledger_; }

  // Throws Error when the prompt is empty, it or the prediction holds an id that is no token, it
  // does not fit the context or the memory budget, when an option is out of range, or when
  // max_sequences are running. A sequence for which there is no memory now waits for that of
  // others.
  std::shared_ptr<const Sequence> start(std::vector<int32_t> prompt,
                                        const SequenceOptions& options);
  // Ends a sequence now and frees its memory; finished ones are ended already.
  void finish(const Sequence& sequence, FinishReason reason);

  // Returns the memory of ended sequences to the system (EngineOptions::defers_trim).
  void trim();

  // The tokens of the prompts and answers, in whole blocks of 64, that are known and were of use
  // last: a prompt that begins like one of them is read quickly.
  // `adapters`: of texts that were evaluated with these.
  std::vector<std::vector<int32_t>> latest_prefixes(size_t n_max,
                                                    const AdapterFiles& adapters = {});

  // Whether there is KV that is to be written to disk (EngineOptions::sessions), and writes that of
  // 64 tokens.
  bool has_to_save() const noexcept { return kv_.has_to_save(); }
  void save_one() { kv_.save_one(); }

  // While a sequence is held, it gets no rows: its reader has no room for more. It keeps its
  // memory.
  void hold(const Sequence& sequence, bool held);

  // What a sequence got in a step; several where its grammar leaves no choice, or where it chose
  // what was drafted for it.
  struct Token {
    std::shared_ptr<const Sequence> sequence;
    Sampled sampled;
    bool is_end = false;  // an end token: not part of the answer; the sequence has finished
  };
  // Runs one pass over the waiting rows, at most n_batch and max_rows of them, and samples where a
  // sequence's tokens are all evaluated. Empty while only prompts are read, and when nothing runs.
  // Where the budget has no room for a sequence's next rung, and cannot be raised, the sequence is
  // compacted on its own if its policy allows it, or waits for memory of others. When all wait, and
  // none is held or asks for memory, the last of those that hold memory ends with kNoMemory. A
  // sequence whose logits are no numbers, or whose grammar has become too complex, ends with
  // kFailed.
  std::vector<Token> step(size_t max_rows = SIZE_MAX);
  bool idle() const noexcept { return running_.empty() && embeds_.empty(); }

  // A text whose hidden states are pooled into a vector: steps evaluate it beside the sequences.
  // Any number of texts can wait. Texts are granted memory and finish in arrival order. Their KV is
  // freed when they finish. Throws Error as start() does, and as pooling_of() for a model that
  // gives no vectors.
  std::shared_ptr<const Embedding> embed(std::vector<int32_t> tokens,
                                         const AdapterFiles& adapters = {});
  // Why adapters cannot be added to this model, in one line; else empty. Any thread.
  std::string adapter_refusal(const AdapterFiles& files) const;
  // Ends it now; what has finished is ended already.
  void cancel(const Embedding& embedding) { embeds_.cancel(embedding); }
  // Whether there are texts to evaluate, and whether all of them wait for memory of sequences.
  bool embeds() const noexcept { return !embeds_.empty(); }
  bool embeds_waiting() const noexcept { return embeds_.waiting(); }
  // How many tokens of texts the last step has evaluated.
  size_t n_embedded() const noexcept { return n_embedded_; }

  // Evaluates `tokens` from position 0 in a sequence of its own and calls each(i, logits) for token
  // `first` and later ones, once for each, logits of n_vocab floats. Throws Error when they do not
  // fit the context and the policy is to stop there.
  void evaluate(std::span<const int32_t> tokens, size_t first,
                const std::function<void(size_t i, std::span<const float> logits)>& each,
                const TextOptions& options = {});

  // The listener gets the products of all later passes; null: nobody does. It must outlive them.
  void listen_to_products(nn::ProductListener* listener) noexcept { listener_ = listener; }

 private:
  using Clock = std::chrono::steady_clock;
  nn::Compute compute() { return {*kernels_, team_, arena_, nullptr, listener_}; }
  void check_tokens(std::span<const int32_t> tokens) const;
  void check_ids(std::span<const int32_t> tokens) const;
  // The rows of one sequence in a pass, or of the texts that become vectors.
  struct PassPart {
    std::shared_ptr<Sequence> sequence{};  // null: of texts
    size_t n_rows = 0;                     // of tokens that wait
    bool complete = false;                 // no other tokens of the sequence wait
    Draft draft{};                         // its tokens have the rows behind them
    size_t n_logits = 0;                   // of the last rows, whose logits are wanted
    bool writes = false;                   // its rows are of an answer, and few
  };
  [[nodiscard]] MaskWorker::Task prepare_masks(std::span<const PassPart> parts);
  size_t max_rows_of(const Sequence& sequence) const;
  size_t max_read_rows(std::span<const size_t> n_pending) const;
  std::vector<PassPart> plan_parts(std::span<const size_t> n_pending, size_t max_rows);
  size_t draft_room(const Sequence& sequence) const;
  void add_drafts(std::span<PassPart> parts, size_t max_rows);
  void add_guesses(std::span<const Speculation::Writer> writers,
                   std::span<Sequence* const> sequences, const DraftRoom& room,
                   std::span<Draft> drafts);
  // A sequence that the draft model guesses for.
  struct Guessing {
    size_t writer = 0;  // index
    DraftModel::Text* text = nullptr;
    std::vector<int32_t> tokens{};  // to read in the next pass; empty: it takes part no more
    bool catches_up = false;        // they are not all that it lacks: no guess follows yet
    size_t max_tokens = 0;          // of the draft
    Draft draft{};
  };
  [[nodiscard]] bool guess_next(std::span<Guessing> all);
  void take_rows(std::span<PassPart> parts, StepRows& rows);
  void sample_all(std::span<const PassPart> parts, tensor::Matrix logits, std::vector<Token>& out);
  void sample_part(const PassPart& part, tensor::Matrix logits, std::vector<Token>& out);
  void learn_from(const PassPart& part, size_t n_written, size_t n_accepted);
  void forget_draft(Sequence& sequence);
  void note_pass(std::span<const PassPart> parts, std::chrono::nanoseconds time);
  [[nodiscard]] bool score_prompt(Sequence& sequence, tensor::Matrix logits);
  void sample(const std::shared_ptr<Sequence>& sequence, std::span<const float> logits,
              std::vector<Token>& out);
  bool write(Sequence& sequence, int32_t token);
  void follow_grammar(const std::shared_ptr<Sequence>& sequence, int32_t token,
                      std::vector<Token>& out);
  void fail(Sequence& sequence, const std::string& error);
  uint64_t step_scratch_bytes(size_t n_positions) const;
  context::MemoryNeed need_with(size_t adapter_rank) const;
  std::shared_ptr<Adapters::Entry> adapter_for(const AdapterFiles& files);
  [[nodiscard]] Adapters::Lease use_adapter(const std::shared_ptr<Adapters::Entry>& entry);
  void load_adapters();
  [[nodiscard]] bool grant_scratch(uint64_t n_bytes);
  [[nodiscard]] bool grant_step_scratch(size_t n_positions);
  void check_fits(const context::ContextPlan& context_plan, size_t rung, uint64_t n_more = 0) const;
  std::string budget_left() const;
  [[nodiscard]] bool grant_rung(Sequence& sequence, size_t rung);
  [[nodiscard]] bool admit(Sequence& sequence);
  [[nodiscard]] bool make_room(Sequence& sequence);
  bool is_long_text(size_t n_tokens) const;
  void restart_if_long(Sequence& sequence, Clock::time_point start);
  std::vector<size_t> pending_rows();
  void ask_again();
  void end_for_memory();
  uint64_t budget_for(const context::ContextPlan& context_plan, size_t rung,
                      uint64_t n_granted) const;
  uint64_t budget_wanted(const Sequence& sequence) const;
  uint64_t budget_wanted_by_texts() const;
  uint64_t wanted_bytes() const;
  std::shared_ptr<Sequence> running(const Sequence& sequence) const;
  void note_time(Sequence& sequence, size_t n_rows, Clock::time_point start);
  void end(Sequence& sequence, FinishReason reason);

  context::Ledger ledger_;
  gguf::File file_;
  std::optional<tokenizer::Tokenizer> tokenizer_;  // always there once the engine is made
  mutable std::mutex vocabulary_mutex_;
  mutable std::shared_ptr<const constraint::Vocabulary> vocabulary_;
  size_t max_context_;
  const kernels::KernelTable* kernels_;
  cpu::ThreadTeam team_;
  nn::PackedWeights packed_;
  PackedCache packed_cache_;
  std::vector<tensor::Tensor> matrices_;  // that passes multiply with
  std::unique_ptr<arch::Model> model_;
  mutable Adapters adapters_;  // it locks
  AdapterFiles default_adapters_;
  size_t adapter_rank_ = 0;  // the greatest that scratch is counted for
  tensor::Arena arena_;
  size_t n_batch_;
  std::unique_ptr<DraftModel> draft_model_;  // null: there is none
  nn::ProductListener* listener_ = nullptr;
  KvMemory kv_;
  size_t max_sequences_;
  bool asks_for_memory_;
  bool defers_trim_;
  Speculation speculation_;
  std::chrono::nanoseconds guess_time_{};  // of this step
  Pacing pacing_;
  context::MemoryNeed need_;
  context::MemoryNeed step_need_;  // the same with adapters of adapter_rank_
  uint64_t scratch_granted_ = 0;
  size_t step_positions_ = 0;       // that a sequence of a step may reach, with what is granted
  std::optional<Pooling> pooling_;  // once it was asked for
  EmbedQueue embeds_;
  size_t n_embedded_ = 0;
  size_t n_steps_ = 0;
  std::vector<std::shared_ptr<Sequence>> running_;
  MaskWorker masks_;
};

}  // namespace billow::engine
