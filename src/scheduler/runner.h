// The client's view of a process that serves one model. Clients request completions, embeddings and
// tokens, watch the process, set its budget and end it. The real implementation is in
// runner_process.h, the one for tests in fake_runner.h. Thread-safe; each call blocks until its
// response.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/figure.h"
#include "constraint/grammar.h"
#include "context/prompt_image.h"
#include "http/status.h"
#include "scheduler/engine_choice.h"
#include "scheduler/messages.h"
#include "scheduler/sampling.h"

namespace billow::scheduler {

// Start options of a runner. Independent of any request's context.
struct Launch {
  std::string key;      // runner_key()
  std::string name;     // display name of the model, for the log
  std::string weights;  // path of the GGUF file
  bool is_embedding = false;
  size_t n_parallel = 1;
  uint64_t budget_bytes = 0;
  EngineChoice engine{};  // not kAuto
  // Called once after the process has ended for any reason, from any thread, perhaps before the
  // runner has been returned. Returns before Runner::end() does. Must be short and must not call
  // the runner. May be empty.
  std::function<void()> on_end{};
};

// A completion request. Its wire form is the line of JSON and the token ids of runner/protocol.h.
struct Completion {
  std::vector<int32_t> prompt;
  std::vector<context::PromptImage> images{};  // between the tokens of the prompt, in order
  std::string prompt_text{};                   // for a prompt with images: the text of its tokens
  Sampling sampling{};
  std::vector<std::string> stop{};
  int64_t num_predict = -1;
  bool ignore_eos = false;
  std::optional<size_t> max_draft{};  // drafted tokens per pass; nullopt: the runner's own limit
  std::vector<int32_t> prediction{};  // a text that the response may resemble
  bool logprobs = false;
  int top_logprobs = 0;
  bool prompt_logprobs = false;  // also for the tokens of the prompt
  size_t max_context = 0;        // context of the request
  std::vector<size_t> sizes{};   // rungs; empty: the runner's default
  std::string overflow_policy = "refill";
  size_t reserve_batches = 9;
  size_t overflow_batch = 64;
  size_t max_repeats = 0;  // how often the text of a token may repeat in a row; 0: no limit
  std::optional<constraint::Constraint> constraint{};  // constraint of the response
  bool ends_repetition = false;         // ends a response that repeats itself: "repetition"
  std::vector<std::string> markers{};   // texts of control tokens that are part of the response
  std::vector<std::string> adapters{};  // paths of GGUF files of adapters
  // Requests with different salts share no prefixes, drafts or pictures. 0: no salt.
  uint64_t salt = 0;
  bool is_bulk = false;  // its prompt waits for the prompts of other requests
  // True if no client sees chunks before the end. The request may then be retried on another
  // runner, and the runner merges its chunks.
  bool may_begin_again = false;
};

struct TokenLogprob {
  std::string token;  // its text; U+FFFD replaces invalid UTF-8
  float logprob = 0.0f;
  std::string bytes;
  std::vector<TokenLogprob> top{};
  int32_t id = 0;
};

// A part of a prompt that was evaluated.
struct Prefill {
  size_t n_done = 0;  // evaluated tokens of the prompt, cached ones included
  std::chrono::nanoseconds time{};
};

// The position of one control token in a chunk's text.
struct TextMark {
  size_t offset = 0;  // bytes
  size_t length = 0;
  bool operator==(const TextMark&) const = default;
};

struct CompletionPiece {
  std::string text{};                    // complete characters
  std::vector<TextMark> marks{};         // marks in the text, ascending, without overlap
  std::vector<TokenLogprob> logprobs{};  // an entry per token
  // All tokens of the prompt in one chunk, if requested. The first has -infinity.
  std::vector<TokenLogprob> prompt_logprobs{};
  std::vector<std::string> events{};  // transitions and compactions: a JSON object each
  std::vector<Prefill> prefill{};
  bool is_asking = false;  // the request is paused, because it needs memory
};

struct CompletionEnd {
  // "stop", "length", "repetition" or "repeats"; empty if OnPiece ended it
  std::string done_reason{};
  std::string stop_string{};  // the stop string that ended the request; empty: none
  std::string error{};        // error that ended the request; empty: none
  int64_t seed = 0;
  size_t n_prompt = 0;
  size_t n_cached = 0;                  // tokens of the prompt that were cached
  size_t n_generated = 0;               // generated tokens, and the end token if there was one
  std::vector<int32_t> tokens{};        // generated tokens
  std::chrono::nanoseconds queued{};    // until the engine started the request
  std::chrono::nanoseconds prompted{};  // from then until the first token
  std::chrono::nanoseconds pictures_prepared{};  // decoding and preprocessing, before `queued`
  std::chrono::nanoseconds pictures_encoded{};   // a part of `prompted`
  std::chrono::nanoseconds written{};            // from then until the end
  std::chrono::nanoseconds masked{};  // time to find the tokens that the constraint allows
  size_t n_forced = 0;                // tokens for which the constraint left no choice
  size_t n_drafted = 0;               // tokens that were guessed and evaluated before sampling
  size_t n_draft_accepted = 0;        // guessed tokens that are part of the response
};

struct EmbedInput {
  std::vector<int32_t> tokens;  // special tokens included
  size_t n_first = 0;           // tokens of the first segment of a pair; 0: one segment
};

struct EmbedJob {
  std::vector<EmbedInput> inputs;
  std::string pooling{};                // replaces the model's pooling; empty: the model's
  std::vector<std::string> adapters{};  // paths of GGUF files of adapters
  bool is_bulk = false;                 // runs only when no other work waits
  // The client's identity. Inputs of one client run in order; several clients take turns.
  std::string client{};
};

// The result of one input.
struct EmbedOutput {
  std::vector<float> values;  // as pooled, not normalised
  std::string error{};        // why there is no vector, in one line; else empty
  int status = 0;             // HTTP status of the error
  bool operator==(const EmbedOutput&) const = default;
};
using EmbedOutputs = std::vector<EmbedOutput>;

// A prefix that a runner has cached: blocks of 64 tokens, each with the digest of all tokens up to
// its end, in 16 hexadecimal digits.
struct Prefix {
  size_t n_tokens = 0;
  std::vector<std::string> digests{};
  bool operator==(const Prefix&) const = default;
};

// A text in a runner's prefix cache, and the adapters that it was evaluated with.
struct CachedText {
  std::vector<int32_t> tokens;
  std::vector<std::string> adapters{};
  uint64_t salt = 0;
};
enum class TextAction : uint8_t { kSave, kForget };
struct TextKv {
  size_t n_tokens = 0;
  uint64_t n_bytes = 0;
};

// A finished pass over texts to embed.
struct PassRecord {
  uint64_t number = 0;  // counted from 1 by the runner
  int64_t time_ms = 0;  // its end, Unix time
  uint64_t n_texts = 0;
  uint64_t n_tokens = 0;
  double ms = 0.0;
  bool operator==(const PassRecord&) const = default;
};

// The exit status of a runner whose load ran out of memory. Its health may end before anybody has
// seen it.
inline constexpr int kOutOfMemoryStatus = 4;

enum class RunnerStatus : uint8_t { kLoading, kReady, kFailed };

struct RunnerHealth {
  RunnerStatus status = RunnerStatus::kLoading;
  std::string error{};         // one line, if it failed
  bool out_of_memory = false;  // it failed for lack of memory
  uint64_t n_loaded = 0;       // rises during a load
  uint64_t n_to_load = 0;      // final value of n_loaded; 0: unknown
  size_t n_running = 0;
  size_t n_waiting = 0;
  size_t max_context = 0;
  uint64_t budget_version = 0;  // of the budget in effect; 0: the budget of its launch
  uint64_t held_bytes = 0;      // from its ledger, cached KV included
  uint64_t cached_bytes = 0;
  uint64_t wanted_bytes = 0;
  bool is_asking = false;  // a request is paused until a decision about wanted_bytes
  uint64_t resident_bytes = 0;
  uint64_t kv_used_bytes = 0;    // KV of running requests
  uint64_t kv_room_bytes = 0;    // max KV within its budget
  uint64_t kv_block_bytes = 0;   // of 64 positions
  double busy_ratio = 0.0;       // over the last 10 s
  double backlog_seconds = 0.0;  // of pending work, at the latest rates
  uint64_t embed_pending_tokens = 0;
  std::string degraded{};         // latest error while passes keep failing; empty after a success
  std::vector<Figure> figures{};  // further metrics
  std::string engine{};           // "llama": llama-server; empty: Billow's own
  uint64_t gpu_bytes = 0;         // part of held_bytes in the memory of GPUs
  // Cached memory that was freed since the start, because memory was needed or the cache was full.
  uint64_t kv_evicted_bytes = 0;
  uint64_t adapters_evicted_bytes = 0;
  std::vector<PassRecord> embed_passes{};  // the latest, oldest first
};

// The runner has ended or does not respond. Its work is lost.
class RunnerGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// The runner has no room for the request and did nothing for it. A later attempt may succeed.
class RunnerBusy : public http::StatusError {
 public:
  explicit RunnerBusy(const std::string& text) : http::StatusError(503, text) {}
};
// The caller's stop token was set.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("request canceled") {}
};

// Receives the next chunk. Returns false to end the completion.
using OnPiece = std::function<bool(CompletionPiece piece)>;

// All calls throw RunnerGone, Cancelled, or http::StatusError if the runner rejects the call or
// sends an invalid response. embed() also throws RunnerBusy.
class Runner {
 public:
  virtual ~Runner() = default;  // calls end()

  virtual CompletionEnd complete(const Completion& request, const OnPiece& on_piece,
                                 std::stop_token stop) = 0;
  virtual EmbedOutputs embed(const EmbedJob& job, std::stop_token stop) = 0;

  // Returns at most n_max cached prefixes, the last used ones. The root identifies the weights.
  virtual std::vector<Prefix> prefixes(std::string_view root, size_t n_max) = 0;

  // kSave writes KV to disk and returns how much of the text is there. kForget removes the text
  // from the prefix cache, as far as no other text has it, and returns how much that was.
  virtual TextKv do_with_text(TextAction action, const CachedText& text) = 0;

  virtual RunnerHealth health() = 0;
  virtual void set_budget(const Budget& budget) = 0;
  virtual pid_t pid() const noexcept = 0;
  // Returns how the process ended: "signal 9 (Killed)" or "exit status 1: last line of its log".
  // Empty while it lives.
  virtual std::string end_of_process() = 0;
  // Ends the process and waits for its end. Calls in flight throw RunnerGone.
  virtual void end() = 0;
};

// Starts a runner and returns immediately. Its health shows when it is ready. Throws Error.
using StartRunner = std::function<std::unique_ptr<Runner>(const Launch& launch)>;

}  // namespace billow::scheduler
