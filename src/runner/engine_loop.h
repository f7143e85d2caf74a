// Runs an engine on its own thread, for any number of client threads. The thread sleeps while it
// has no work. Before it sleeps, it saves KV that must survive to disk (EngineOptions::sessions).
// Streams may outlive the loop.
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
#include "runner/served_model.h"

namespace billow::runner {

struct AnswerRequest {
  std::vector<int32_t> prompt;
  // Placed between the prompt's tokens, in order. For Billow's own engine, the prompt has
  // engine::kPictureToken for each row of an image, and `options` has the pictures.
  std::vector<context::PromptImage> images{};
  std::string prompt_text{};  // for a prompt with images
  engine::SequenceOptions options;
  std::vector<std::string> stop;
  size_t max_repeats = 0;                              // see Generation
  std::vector<std::string> markers{};                  // see Generation
  bool ends_repetition = false;                        // see Generation
  std::optional<constraint::Constraint> constraint{};  // input for EngineLoop::guide_for()
  // True if the client reads no text before the end. Chunks are then merged while the buffer has
  // room.
  bool whole = false;
  std::chrono::nanoseconds pictures_prepared{};  // see AnswerEnd
};

// A part of a prompt that one pass evaluated.
struct Prefill {
  size_t n_done = 0;                // evaluated tokens of the prompt, cached ones included
  std::chrono::nanoseconds time{};  // duration of the pass
};

// News of a request since the last call of next().
struct Chunk {
  std::string text;                           // complete characters; may be empty
  std::vector<engine::TextMark> marks;        // marks in the text
  std::vector<engine::Sampled> sampled;       // one per token, if log probabilities are requested
  std::vector<engine::Sampled> prompt;        // all tokens of the prompt, if requested
  std::vector<engine::SequenceEvent> events;  // transitions and compactions
  std::vector<Prefill> prefill;               // while the prompt is evaluated
  bool asking = false;  // the request is paused until a decision about its memory
};

struct AnswerEnd {
  engine::FinishReason reason = engine::FinishReason::kStop;
  bool cancelled = false;
  std::string error;        // cause of kNoMemory or kFailed
  std::string stop_string;  // stop string that ended the request; empty: none
  size_t n_prompt = 0;
  size_t n_shared = 0;  // cached tokens of the prompt
  int64_t seed = 0;
  std::vector<int32_t> tokens;          // generated tokens
  size_t n_sampled = 0;                 // sampled tokens: the generated ones and the end token
  size_t n_drafted = 0;                 // tokens that were guessed and evaluated before sampling
  size_t n_draft_accepted = 0;          // guessed tokens that were chosen
  std::chrono::nanoseconds queued{};    // until the engine started the request
  std::chrono::nanoseconds prompted{};  // from then until the first token
  std::chrono::nanoseconds written{};   // from then until the end
  std::chrono::nanoseconds pictures_prepared{};  // decoding and preprocessing, before `queued`
  std::chrono::nanoseconds pictures_encoded{};   // a part of `prompted`
  constraint::GuideStats guide;                  // statistics of the constraint, if there was one
};

// Embeddings of texts in request order: rows of `size` floats, pooled, not normalised.
struct Vectors {
  size_t n = 0;
  size_t size = 0;
  std::vector<float> values;        // [n][size]
  std::chrono::nanoseconds time{};  // since the engine started the texts
};

struct TextQuestion;
struct SharedState;  // shared by the loop and its streams

// The result of a running request. The loop's thread writes, one client thread reads, and any
// thread may cancel.
class RequestStream {
 public:
  // Waits for news. Returns nullopt after the request has ended and all chunks were read. Text
  // waits until LoopOptions::stream_interval has passed since the last text. Text of a whole
  // request waits until half the buffer is full. Throws the engine's error, such as the Error of an
  // invalid prompt.
  std::optional<Chunk> next();
  // Returns whether next() would return nullopt without waiting.
  bool is_over() const;
  // Cancels the request after the pass in flight.
  void cancel();
  // REQUIRES: next() has returned nullopt, or is_over().
  const AnswerEnd& end() const noexcept { return end_; }

 private:
  friend class EngineLoop;
  RequestStream(std::shared_ptr<SharedState> shared, AnswerRequest request);
  void add(Chunk chunk);
  bool is_readable() const;
  bool has_only_text() const;

  // The mutex of the shared state guards all members except `shared_`. It guards `request_` only
  // after the engine has taken the request.
  std::shared_ptr<SharedState> shared_;
  AnswerRequest request_;
  std::condition_variable changed_;  // only the reader waits for it
  const bool whole_;
  Chunk unread_;
  size_t n_unread_ = 0;  // approximate bytes
  bool has_unread_ = false;
  bool paused_ = false;                                   // the reader waits for more text
  std::chrono::steady_clock::time_point last_text_at_{};  // time of the last text that was read
  bool ended_ = false;
  bool cancelled_ = false;
  std::exception_ptr error_;
  AnswerEnd end_;
  std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();
};

struct LoopOptions {
  // A request with this many unread bytes gets no more tokens until its client reads. The client of
  // a whole request wakes up at half of this.
  size_t max_unread = size_t{1} << 20;
  // Min time between two texts of a request. Tokens within this time share a chunk, because each
  // chunk costs a message and a wake-up in two processes.
  std::chrono::milliseconds stream_interval{0};
  // Runs on the loop's thread after a pass fails and every running request has received the error.
  std::function<void()> on_broken = {};
  // Called before each pass. If it throws, the pass fails with that error. For tests.
  std::function<void()> before_pass = {};
};

// Tokens that running and waiting requests have yet to evaluate and generate.
struct Backlog {
  size_t n_prompt = 0;
  size_t n_decode = 0;
};

// The state of the loop. Each request counts as waiting or running from submit() until it ends.
struct LoopState {
  size_t n_running = 0;
  size_t n_waiting = 0;  // waiting for a place in the batch
  Backlog backlog;
  uint64_t budget_version = 0;  // of the current budget; set after a pass with that budget
  engine::MemoryUse memory;
  LoopRates rates;
  std::string failure;  // why a pass failed; empty: the loop works
};

class EngineLoop {
 public:
  // The engine's max sequences limit the running requests. Further requests wait in order.
  explicit EngineLoop(std::unique_ptr<engine::Engine> engine, const LoopOptions& options = {});
  ~EngineLoop();  // cancels all requests
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Immutable properties. Any thread.
  const tokenizer::Tokenizer& tokenizer() const noexcept { return engine_->tokenizer(); }
  // See engine::Engine::picture_rule(). Any thread.
  const vision::Rule* picture_rule() const noexcept { return engine_->picture_rule(); }
  const gguf::File& file() const noexcept { return engine_->file(); }
  size_t max_context() const noexcept { return engine_->max_context(); }
  const context::MemoryNeed& need() const noexcept { return engine_->need(); }

  // Returns a guide that holds one request to the constraint, for the request's options. The first
  // guide takes up to a second; running requests continue meanwhile. Any thread. Throws Error if
  // the constraint is not supported.
  std::shared_ptr<constraint::Guide> guide_for(const constraint::Constraint& constraint) const;
  // Starts a request. Any thread. next() throws the errors of the request.
  std::shared_ptr<RequestStream> submit(AnswerRequest request);
  // Embeds texts and waits for the result. The loop evaluates texts in parallel with running
  // requests. Senders take turns. Returns nullopt after a stop or when the loop ends. Throws Error
  // like Engine::embed(): one rejected text fails all texts. `adapters` and `sender` apply to all
  // texts. Any thread.
  std::optional<Vectors> embed(std::vector<std::vector<int32_t>> texts, std::stop_token stop = {},
                               engine::AdapterFiles adapters = {}, engine::TextSender sender = {});
  LoopState state() const;  // may be slightly out of date
  // Calls Engine::latest_prefixes after the pass in flight and waits for the result. Returns an
  // empty list if the loop has ended.
  std::vector<kv::KnownText> latest_prefixes(size_t n_max, engine::AdapterFiles adapters = {});
  // kSave: writes KV to disk until none is left to write, and returns Engine::text_on_disk().
  // Running requests continue meanwhile. kForget: calls Engine::forget_text(). Both wait for the
  // result. Returns an empty result if the loop has ended.
  kv::TextKv do_with_text(TextAction action, std::vector<int32_t> tokens,
                          engine::AdapterFiles adapters = {}, uint64_t salt = 0);
  // Returns the type of keys and values, on which prefix digests depend.
  kv::KvType kv_type() const noexcept { return engine_->kv_type(); }
  std::string_view isa() const noexcept { return engine_->kernels().name; }
  // Calls Engine::set_memory_budget before the next pass. state() has the new version after that
  // pass.
  void set_memory_budget(const MemoryBudget& budget);
  // Returns true after a pass has failed. All running and later requests fail with the same error.
  bool broken() const;

 private:
  struct Run;
  struct EmbedJob;
  friend struct SharedState;
  void run();
  bool wait_for_work();
  void save_sessions();
  void answer_text_questions();
  void take_news();
  void take_requests();
  void start(const std::shared_ptr<RequestStream>& stream);
  void start(const std::shared_ptr<EmbedJob>& job);
  void take_embeds();
  void end_embeds();
  void end(EmbedJob& job);
  // Chunks of the last pass, with their streams.
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
  // Used by the loop's thread only.
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<std::shared_ptr<EmbedJob>> jobs_;
  std::vector<TextQuestion> text_questions_;
  uint64_t budget_version_ = 0;
  bool has_freed_ = false;  // a text has ended since the last pass
  std::thread thread_;
};

}  // namespace billow::runner
