// An engine on a thread of its own, for any number of threads that want answers from it. The thread
// sleeps while there is nothing to do; before it sleeps, it writes KV to disk that is to survive
// (EngineOptions::sessions). Answers may outlive the loop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/guide.h"
#include "context/prompt_image.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "runner/memory_budget.h"
#include "runner/meter.h"

namespace billow::runner {

struct AnswerRequest {
  std::vector<int32_t> prompt;
  // Between the prompt's tokens, in their order. Billow's own engine makes no rows of them yet.
  std::vector<context::PromptImage> images{};
  std::string prompt_text{};  // of a prompt with images
  engine::SequenceOptions options;
  std::vector<std::string> stop;
  size_t max_repeats = 0;                              // as Generation's
  std::vector<std::string> markers{};                  // as Generation's
  bool ends_repetition = false;                        // as Generation's
  std::optional<constraint::Constraint> constraint{};  // for EngineLoop::guide_for()
  // Nobody reads the text before its end: its pieces are put together as long as there is room.
  bool whole = false;
};

// A part of a prompt that one pass evaluated.
struct Prefill {
  size_t n_done = 0;                // tokens of the prompt so far, known ones included
  std::chrono::nanoseconds time{};  // of the pass
};

// What became of an answer since it was asked about last.
struct Chunk {
  std::string text;                           // whole characters; may be empty
  std::vector<engine::TextMark> marks;        // in the text
  std::vector<engine::Sampled> sampled;       // a token each, where log probabilities are wanted
  std::vector<engine::Sampled> prompt;        // all tokens of the prompt, where they are wanted
  std::vector<engine::SequenceEvent> events;  // transitions and compactions
  std::vector<Prefill> prefill;               // while the prompt is read
  bool asking = false;  // it stands still until it knows whether there is memory for it
};

struct AnswerEnd {
  engine::FinishReason reason = engine::FinishReason::kStop;
  bool cancelled = false;
  std::string error;        // what was wrong where it ended with kNoMemory or kFailed
  std::string stop_string;  // that has ended it; empty: none
  size_t n_prompt = 0;
  size_t n_shared = 0;  // tokens of the prompt that were known
  int64_t seed = 0;
  std::vector<int32_t> tokens;  // of the answer
  size_t n_sampled = 0;  // tokens that were computed: those of the answer and the one that ended it
  size_t n_drafted = 0;  // tokens that were guessed and evaluated before they were chosen
  size_t n_draft_accepted = 0;          // of them, those that were chosen
  std::chrono::nanoseconds queued{};    // until the engine took it
  std::chrono::nanoseconds prompted{};  // from then until its first token
  std::chrono::nanoseconds written{};   // from then to its end
  constraint::GuideStats guide;         // of its constraint, if it had one
};

// Of texts, in their order: rows of `size` floats, as pooled, not normalised.
struct Vectors {
  size_t n = 0;
  size_t size = 0;
  std::vector<float> values;        // [n][size]
  std::chrono::nanoseconds time{};  // from when the engine took them
};

struct SharedState;  // what the loop and its answers share

// An answer on its way: the loop's thread writes it, one other reads it, any may cancel it.
class RequestStream {
 public:
  // Waits for something new. Returns nullopt once the answer has ended and all of it was given.
  // Text waits until LoopOptions::stream_interval has passed since the last text. Text of an answer
  // that is wanted whole waits until there is much of it. Throws what the engine threw: the
  // Error of a prompt that cannot run.
  std::optional<Chunk> next();
  // Whether next() returns nullopt without waiting.
  bool is_over() const;
  // Ends it, after the pass that is under way.
  void cancel();
  // REQUIRES: next() has returned nullopt, or is_over().
  const AnswerEnd& end() const noexcept { return end_; }

 private:
  friend class EngineLoop;
  RequestStream(std::shared_ptr<SharedState> shared, AnswerRequest request);
  void add(Chunk piece);
  bool is_readable() const;
  bool has_text_alone() const;

  // The mutex of the shared state guards all but `shared_` and, until the engine has taken it,
  // `request_`.
  std::shared_ptr<SharedState> shared_;
  AnswerRequest request_;
  std::condition_variable changed_;  // one waits: the reader
  const bool whole_;
  Chunk unread_;
  size_t n_unread_ = 0;  // bytes, roughly
  bool has_unread_ = false;
  bool paused_ = false;                            // the reader lets text gather
  std::chrono::steady_clock::time_point given_{};  // when the reader got text last
  bool ended_ = false;
  bool cancelled_ = false;
  std::exception_ptr error_;
  AnswerEnd end_;
  std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();
};

struct LoopOptions {
  // An answer with this many unread bytes gets no more tokens until its reader continues. The
  // reader of a whole answer wakes up at half as many.
  size_t max_unread = size_t{1} << 20;
  // The least time between two texts of one answer: tokens that come sooner share a piece.
  // A piece costs two processes a wake-up and a message.
  std::chrono::milliseconds stream_interval{0};
  // Called on the loop's thread when it breaks, once all that ran has been told.
  std::function<void()> on_broken = {};
  // Called before each pass, which fails with what it throws: for tests.
  std::function<void()> before_pass = {};
};

// Tokens that are still to be evaluated and written, of what runs and what waits.
struct Backlog {
  size_t n_prompt = 0;
  size_t n_decode = 0;
};

// Each answer is counted from submit() on, until it has ended: as waiting or as running.
struct LoopState {
  size_t n_running = 0;
  size_t n_waiting = 0;  // for a place among those that run
  Backlog backlog;
  uint64_t budget_version = 0;  // of the budget in force, once what waited for memory had its turn
  engine::MemoryUse memory;
  LoopRates rates;
  std::string failure;  // why it is broken; empty: it is not
};

class EngineLoop {
 public:
  // As many answers are written at once as the engine has sequences; others wait in their order.
  explicit EngineLoop(std::unique_ptr<engine::Engine> engine, const LoopOptions& options = {});
  ~EngineLoop();  // cancels what is on its way
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // What does not change: any thread.
  const tokenizer::Tokenizer& tokenizer() const noexcept { return engine_->tokenizer(); }
  const gguf::File& file() const noexcept { return engine_->file(); }
  size_t max_context() const noexcept { return engine_->max_context(); }
  const context::MemoryNeed& need() const noexcept { return engine_->need(); }

  // What holds an answer to the constraint: for the options of one request. Takes up to a second
  // for the first one, while others are written. Any thread. Throws Error that says what cannot be
  // held.
  std::shared_ptr<constraint::Guide> guide_for(const constraint::Constraint& constraint) const;
  // Any thread. An error of the request comes from the answer's next().
  std::shared_ptr<RequestStream> submit(AnswerRequest request);
  // The vectors of texts, which are evaluated beside the answers and in the order that they come;
  // waits for them. Any thread. Nullopt when it was stopped, or the loop ends. Throws Error as
  // Engine::embed() does: one text that is refused fails all.
  // `adapters`: of all of them.
  std::optional<Vectors> embed(std::vector<std::vector<int32_t>> texts, std::stop_token stop = {},
                               engine::AdapterFiles adapters = {});
  LoopState state() const;  // of a moment ago
  // Engine::latest_prefixes, behind the pass under way; waits for it. None once the loop has ended.
  std::vector<std::vector<int32_t>> latest_prefixes(size_t n_max,
                                                    engine::AdapterFiles adapters = {});
  // Of keys and values: what prefix digests differ by.
  kv::KvType kv_type() const noexcept { return engine_->kv_type(); }
  std::string_view isa() const noexcept { return engine_->kernels().name; }
  // Engine::set_memory_budget, before the next pass. The state shows the version after that pass.
  void set_memory_budget(const MemoryBudget& budget);
  // True once a pass has failed: all that ran failed with it, and all that comes will.
  bool broken() const;

 private:
  struct Run;
  struct EmbedJob;
  friend struct SharedState;
  void run();
  bool wait_for_work();
  void save_sessions();
  void take_news();
  void take_answers();
  void start(const std::shared_ptr<RequestStream>& answer);
  void start(const std::shared_ptr<EmbedJob>& job);
  void take_embeds();
  void end_embeds();
  void end(EmbedJob& job);
  // What a pass has given to answers.
  using News = std::vector<std::pair<std::shared_ptr<RequestStream>, Chunk>>;
  void step();
  void take_tokens(const std::vector<engine::Engine::Token>& tokens, News& news);
  size_t take_prefill(std::chrono::nanoseconds time, News& news);
  void add_asking(News& news);
  static void notify(const News& news);
  Run& run_of(const engine::Sequence& sequence);
  void end_finished();
  void publish();
  void fail_all(const std::exception_ptr& error);

  const LoopOptions options_;
  std::shared_ptr<SharedState> shared_;
  std::unique_ptr<engine::Engine> engine_;
  // Of the thread.
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<std::shared_ptr<EmbedJob>> jobs_;
  uint64_t budget_version_ = 0;
  std::thread thread_;
};

}  // namespace billow::runner
