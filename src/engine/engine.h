// A loaded model with its memory and threads, which evaluates many sequences together. The caller
// starts sequences and calls step() until they have finished. Each step is one pass over the
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
#include "engine/picture_reader.h"
#include "engine/sequence.h"
#include "engine/speculation/speculation.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "tensor/arena.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

struct EngineOptions {
  int n_threads = 0;         // 0: the physical cores that the process may use
  size_t max_context = 0;    // max positions of a sequence; 0 or above the model's: the model's
  size_t n_batch = 512;      // max rows of a step
  size_t max_sequences = 8;  // max parallel sequences
  kernels::KvType kv_type = kernels::KvType::kInt16;
  uint64_t memory_budget = 0;  // bytes of all memory; 0: 80 % of what the process may use
  // Max bytes of KV of finished sequences that are cached for prompts with the same prefix. The
  // cache is evicted when the memory is needed. 0: no cache.
  uint64_t max_cached = 0;
  // Where save_one() writes the KV of finished sequences to disk, for prompts with the same prefix
  // in a later engine. Needs max_cached. Only for models from a file.
  CacheFolderOptions sessions = {};
  // The caller can raise the budget on request. A sequence that lacks memory waits for
  // set_memory_budget(). It is compacted or ended only if it needs more than the ceiling.
  bool asks_for_memory = false;
  // Only trim() returns the memory of finished sequences to the system. That takes 0.2 ms, and the
  // caller can report the finished sequences first.
  bool defers_trim = false;
  // Max drafted tokens of a pass, of all sequences together; 0: no drafts.
  size_t max_draft = kDefaultMaxDraft;
  bool drafts_eagerly = false;  // ignores the cost of drafts; for tests
  // GGUF file of a small model with the same vocabulary, which guesses if texts contain nothing to
  // draft from. Empty: no draft model; the model's predicting head guesses, if its file has one.
  // Neither is loaded if max_draft is 0.
  std::string draft_model = {};
  // GGUF file of the projector ("mmproj") with which the model sees pictures. Empty: none.
  std::string projector = {};
  // Max time of a pass while a sequence generates; prompts are then evaluated in chunks. Zero: no
  // limit.
  std::chrono::nanoseconds max_pass_time{0};
  bool pack_weights = true;  // false: use weights as they are in the file; slower
  PackedCacheOptions packed_cache = {};
  const kernels::KernelTable* kernels = nullptr;  // null: kernels::select_table()
  AdapterFiles adapters = {};                     // default for sequences and texts that name none
  // Any thread calls this while weights are packed, with the bytes packed so far. Calls may be
  // late.
  std::function<void(size_t n_loaded, size_t n_to_load)> on_load = {};
};

// The memory use of an engine, in bytes.
struct MemoryUse {
  size_t file = 0;             // mapped files of the models; pages of packed weights are released
  size_t packed = 0;           // weights in packed form
  size_t weights = 0;          // packed, or used in the mapped file
  size_t kv_block = 0;         // one block of KV, of all layers
  size_t kv_state = 0;         // recurrent states of one sequence, of all layers
  size_t kv_reserved = 0;      // address space of KV memory
  size_t kv_granted = 0;       // for the rungs of running sequences
  size_t adapters = 0;         // loaded, in use or not
  size_t adapters_cached = 0;  // the part of `adapters` that is not in use
  size_t pictures_cached = 0;  // embeddings of recent pictures, which no sequence uses
  size_t kv_cached = 0;  // blocks of finished sequences, kept for prompts with the same prefix
  size_t kv_in_use = 0;  // blocks of sequences, and cached ones
  size_t kv_backed = 0;  // blocks with physical memory, in use or free
  size_t kv_max = 0;     // max of kv_in_use so far
  // Cached memory that was freed since the start, because memory was needed or the cache was full.
  size_t kv_evicted = 0;
  size_t adapters_evicted = 0;
  size_t scratch = 0;          // allocated for the largest pass so far
  size_t scratch_granted = 0;  // max scratch of a pass
  // Limit of the sum of weights, adapters, kv_granted, kv_cached and scratch_granted.
  size_t budget = 0;
  // What the budget lacks for the largest rung that was refused to a running sequence.
  size_t wanted = 0;
  bool asking = false;  // see Engine::asking()
  // Returns the bytes that should be resident.
  size_t accounted() const noexcept { return weights + adapters + kv_backed + scratch; }
  // Returns the bytes that are granted.
  size_t held() const noexcept {
    return weights + adapters + kv_granted + kv_cached + scratch_granted;
  }
  // Returns the part of held() that can be evicted.
  size_t cached() const noexcept { return kv_cached + adapters_cached + pictures_cached; }
};

// How the context of a given text overflows: like that of a sequence, except for the anchor. Only
// max_context, policy and compaction are used; memory grows as needed.
struct TextOptions {
  ContextOptions context = {};
  size_t n_anchor = 4;  // tokens at the beginning that models put much attention on
  std::vector<std::shared_ptr<Picture>> pictures = {};  // as SequenceOptions::pictures
};

class Engine {
 public:
  // Opens and loads the model of `path`. Throws Error with the file and the problem.
  explicit Engine(const std::string& path, const EngineOptions& options = {});
  // The same for an open file.
  Engine(gguf::File file, const EngineOptions& options);
  ~Engine();  // ends running sequences; sequence objects may outlive the engine
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const gguf::File& file() const noexcept { return file_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  // Returns the model's tokens for grammars, created at the first call. Thread-safe. Throws Error
  // (kUnsupported) if the model has no end token.
  std::shared_ptr<const constraint::Vocabulary> vocabulary() const;
  const arch::ModelInfo& model() const noexcept { return model_->info(); }
  const arch::Model& loaded() const noexcept { return *model_; }
  // Returns how the model takes pictures; null: the engine has no projector.
  const vision::Rule* picture_rule() const noexcept {
    return picture_reader_ == nullptr ? nullptr : &picture_reader_->encoder().rule();
  }
  const kernels::KernelTable& kernels() const noexcept { return *kernels_; }
  int n_threads() const noexcept { return team_.size(); }
  size_t max_context() const noexcept { return max_context_; }
  size_t max_sequences() const noexcept { return max_sequences_; }
  // Returns the format of values. Keys can be more exact (kernels::kv_types).
  kernels::KvType kv_type() const noexcept { return kv_.cache().layout().layers.front().types.v; }
  size_t kv_bytes() const noexcept { return kv_.cache().bytes_in_use(); }
  MemoryUse memory() const;
  // Sets the memory budget, for callers that distribute memory among engines. Evicts cached memory
  // if the new budget is smaller. Running sequences keep their granted memory, even above the
  // budget, but get no more. A sequence that needs a budget above `ceiling` is compacted, or waits
  // for memory of other sequences. Returns the bytes that are granted after the call.
  uint64_t set_memory_budget(uint64_t bytes, uint64_t ceiling = UINT64_MAX);
  // Returns whether a sequence or text waits for a larger budget (EngineOptions::asks_for_memory):
  // larger by MemoryUse::wanted or more.
  bool asking() const noexcept;
  // Waits until the packed weights are on disk (EngineOptions::packed_cache), if they are to be
  // stored.
  void wait_for_packed_cache() { packed_cache_.wait(); }
  // Returns the memory need of the model. All memory is granted according to it.
  const context::MemoryNeed& need() const noexcept { return need_; }
  // Returns the ledger of the budget. Callers may grant and free memory, too.
  context::Ledger& ledger() noexcept { return ledger_; }

  // Starts a sequence. If there is not enough free memory now, the sequence waits until others free
  // theirs. The prompt has kPictureToken for each token of SequenceOptions::pictures. Throws Error
  // in these cases: the prompt is empty; the prompt or the prediction has an id that is no token;
  // the prompt does not fit into the context or the memory budget; an option is out of range; the
  // pictures do not fit the prompt or the model; max_sequences are running.
  std::shared_ptr<const Sequence> start(std::vector<int32_t> prompt,
                                        const SequenceOptions& options);
  // Ends a running sequence and frees its memory. Does nothing for finished ones.
  void finish(const Sequence& sequence, FinishReason reason);

  // Returns the memory of finished sequences to the system (EngineOptions::defers_trim).
  void trim();

  // Returns the most recently used prompts and answers in the prefix cache, as tokens in whole
  // blocks of 64, with their salts. A prompt that begins like one of them is evaluated fast.
  // `adapters`: returns texts that were evaluated with these.
  std::vector<kv::KnownText> latest_prefixes(size_t n_max, const AdapterFiles& adapters = {});

  // text_on_disk() returns how much of a text's KV is on disk (EngineOptions::sessions), from its
  // beginning on. forget_text() removes the end of a text from the prefix cache, as far as no other
  // text has it, and returns how much that was.
  kv::TextKv text_on_disk(std::span<const int32_t> tokens, const AdapterFiles& adapters = {},
                          uint64_t salt = 0);
  kv::TextKv forget_text(std::span<const int32_t> tokens, const AdapterFiles& adapters = {},
                         uint64_t salt = 0);

  // has_to_save() returns whether KV is still to be written to disk (EngineOptions::sessions).
  // save_one() writes the KV of 64 tokens.
  bool has_to_save() const noexcept { return kv_.has_to_save(); }
  void save_one() { kv_.save_one(); }

  // Pauses or resumes a sequence. While it is paused, it gets no rows but keeps its memory. For
  // sequences whose client cannot take more tokens yet.
  void hold(const Sequence& sequence, bool held);

  // A new token of a sequence in a step. A sequence gets several tokens in one step if its grammar
  // forces them, or if it chooses the tokens of its draft.
  struct Token {
    std::shared_ptr<const Sequence> sequence;
    Sampled sampled;
    // An end token, which is not part of the answer; the sequence has finished.
    bool is_end = false;
  };
  // Runs one pass over the pending rows: at most n_batch and at most max_rows. Then samples for
  // each sequence whose tokens are all evaluated. Returns no tokens while only prompts are
  // evaluated, and if no sequence runs.
  //
  // If the budget is too small for a sequence's next rung and cannot be raised, the sequence is
  // compacted on its current rung if its policy allows that. Otherwise it waits for memory of other
  // sequences. If all sequences wait, and none is held or asks for memory, the last sequence with
  // memory ends with kNoMemory. A sequence ends with kFailed if its logits are not finite or its
  // grammar has become too complex.
  std::vector<Token> step(size_t max_rows = SIZE_MAX);
  bool idle() const noexcept { return running_.empty() && embeds_.empty(); }

  // Queues a text whose hidden states are pooled into a vector. Steps evaluate it together with
  // sequences. The queue has no limit. Texts of one sender get memory and finish in the order of
  // their calls; senders take turns (engine/embed/waiting.h). The KV of a text is freed when the
  // text finishes. Throws the same Error as start(), and the Error of pooling_of_decoder() if the
  // model gives no vectors.
  std::shared_ptr<const Embedding> embed(std::vector<int32_t> tokens,
                                         const AdapterFiles& adapters = {}, TextSender sender = {});
  // Returns in one line why adapters cannot be used with this model, or an empty string.
  // Thread-safe.
  std::string adapter_refusal(const AdapterFiles& files) const;
  // Cancels an unfinished text. Does nothing for finished ones.
  void cancel(const Embedding& embedding) { embeds_.cancel(embedding); }
  // embeds(): whether texts are queued. embeds_waiting(): whether all of them wait for memory of
  // sequences.
  bool embeds() const noexcept { return !embeds_.empty(); }
  bool embeds_waiting() const noexcept { return embeds_.waiting(); }
  // Returns the number of tokens of texts in the last step.
  size_t n_embedded() const noexcept { return n_embedded_; }

  // Evaluates `tokens` from position 0 in a separate sequence. Calls each(i, logits) once for token
  // `first` and each later token; logits are n_vocab floats. Throws Error if the tokens do not fit
  // into the context and the policy is kStop.
  void evaluate(std::span<const int32_t> tokens, size_t first,
                const std::function<void(size_t i, std::span<const float> logits)>& each,
                const TextOptions& options = {});

  // Sets the listener for the products of all later passes; null: none. It must outlive them.
  void listen_to_products(nn::ProductListener* listener) noexcept { listener_ = listener; }

 private:
  using Clock = std::chrono::steady_clock;
  nn::Compute compute() { return {*kernels_, team_, arena_, nullptr, listener_}; }
  void check_tokens(std::span<const int32_t> tokens) const;
  void check_ids(std::span<const int32_t> tokens, bool has_pictures = false) const;
  PlacedPictures place_pictures(std::vector<int32_t>& prompt,
                                std::span<const std::shared_ptr<Picture>> pictures) const;
  // The rows of one sequence in a pass, or of the queued texts.
  struct PassPart {
    std::shared_ptr<Sequence> sequence{};  // null: texts
    size_t n_rows = 0;                     // pending tokens
    bool complete = false;                 // the sequence has no other pending tokens
    Draft draft{};                         // its rows follow those of the pending tokens
    size_t n_logits = 0;                   // number of last rows whose logits are wanted
    bool writes = false;                   // the rows are few, and belong to an answer
    size_t first_hidden = 0;               // its rows of hidden states
    size_t n_hidden = 0;
    size_t first_state = 0;  // index in its text of the token that the first one belongs to
  };
  [[nodiscard]] MaskWorker::Task prepare_masks(std::span<const PassPart> parts);
  size_t max_rows_of(const Sequence& sequence) const;
  size_t max_read_rows(std::span<const size_t> n_pending) const;
  std::vector<PassPart> plan_parts(std::span<const size_t> n_pending, size_t max_rows);
  static void take_whole_tiles(std::span<PassPart> parts, size_t index, size_t max_rows);
  size_t draft_room(const Sequence& sequence) const;
  void add_drafts(std::span<PassPart> parts, size_t max_rows);
  void add_guesses(std::span<const Speculation::Writer> writers,
                   std::span<Sequence* const> sequences, const DraftRoom& room,
                   std::span<Draft> drafts);
  // A sequence that the draft model guesses for.
  struct Guessing {
    size_t writer = 0;  // index
    DraftModel::Text* text = nullptr;
    std::vector<int32_t> tokens{};  // for the next pass; empty: no further guesses
    bool catches_up = false;        // the draft model lacks more tokens than these: no guess yet
    size_t max_tokens = 0;          // max length of the draft
    Draft draft{};
  };
  [[nodiscard]] bool guess_next(std::span<Guessing> all);
  void take_rows(std::span<PassPart> parts, StepRows& rows);
  void take_states(PassPart& part, StepRows& rows) const;
  void keep_states(const PassPart& part, tensor::Matrix hidden);
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
  [[nodiscard]] bool read_pictures(std::span<const size_t> n_pending);
  [[nodiscard]] bool begin_picture_pass();
  void encode_now(std::span<const std::shared_ptr<Picture>> pictures);
  [[nodiscard]] size_t rows_before_picture(const Sequence& sequence, size_t n_rows) const;
  [[nodiscard]] bool grant_scratch(uint64_t n_bytes);
  [[nodiscard]] bool grant_step_scratch(size_t n_positions);
  void check_fits(const context::ContextPlan& context_plan, size_t rung, uint64_t n_more = 0) const;
  std::string budget_left() const;
  [[nodiscard]] bool grant_context(SequenceContext& context, size_t rung);
  [[nodiscard]] bool grant_rung(Sequence& sequence, size_t rung);
  [[nodiscard]] bool admit(Sequence& sequence);
  [[nodiscard]] bool make_room(Sequence& sequence);
  bool is_long_text(size_t n_tokens) const;
  void restart_if_long(Sequence& sequence, Clock::time_point start);
  void begin_refill(Sequence& sequence, Clock::time_point start);
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
  std::optional<tokenizer::Tokenizer> tokenizer_;  // set in the constructor
  mutable std::mutex vocabulary_mutex_;
  mutable std::shared_ptr<const constraint::Vocabulary> vocabulary_;
  size_t max_context_;
  const kernels::KernelTable* kernels_;
  cpu::ThreadTeam team_;
  nn::PackedWeights packed_;
  PackedCache packed_cache_;
  std::vector<tensor::Tensor> matrices_;  // of the products of passes
  std::unique_ptr<arch::Model> model_;
  mutable Adapters adapters_;  // thread-safe
  AdapterFiles default_adapters_;
  size_t adapter_rank_ = 0;  // max rank that scratch is calculated for
  tensor::Arena arena_;
  std::unique_ptr<PictureReader> picture_reader_;  // null: none
  size_t n_batch_;
  std::unique_ptr<DraftModel> draft_model_;  // null: none
  nn::ProductListener* listener_ = nullptr;
  KvMemory kv_;
  size_t max_sequences_;
  bool asks_for_memory_;
  bool defers_trim_;
  Speculation speculation_;
  std::chrono::nanoseconds guess_time_{};  // time of guessing in this step
  Pacing pacing_;
  context::MemoryNeed need_;
  context::MemoryNeed step_need_;  // need_ with adapters of adapter_rank_
  uint64_t scratch_granted_ = 0;
  size_t step_positions_ = 0;       // max positions of a sequence with the granted scratch
  std::optional<Pooling> pooling_;  // empty before the first embed()
  EmbedQueue embeds_;
  size_t n_embedded_ = 0;
  size_t n_steps_ = 0;
  std::vector<std::shared_ptr<Sequence>> running_;
  MaskWorker masks_;
};

}  // namespace billow::engine
