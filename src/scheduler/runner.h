// A process that serves one model, as those see it who send requests there: asked for completions,
// embeddings and tokens, watched, told its budget, ended. The one real kind is in runner_process.h;
// fake_runner.h has one for tests. Any thread may call; each call blocks until it is answered.
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

// What a runner is started with. Nothing in it depends on a request's context.
struct Launch {
  std::string key;      // runner_key()
  std::string name;     // of the model, for the log
  std::string weights;  // path of the GGUF file
  bool is_embedding = false;
  size_t n_parallel = 1;
  uint64_t budget_bytes = 0;
  EngineChoice engine{};  // not kAuto
  // Called once when the process has ended, whyever it did: from any thread, perhaps before the
  // runner has been handed over; it has returned when Runner::end() does. Must be short, and not
  // call the runner. May be empty.
  std::function<void()> on_end{};
};

// A request to write. The wire form is the line of JSON and the token ids of runner/protocol.h.
struct Completion {
  std::vector<int32_t> prompt;
  std::vector<context::PromptImage> images{};  // between its tokens, in their order
  std::string prompt_text{};  // of a prompt with images: what its tokens are made of
  Sampling sampling{};
  std::vector<std::string> stop{};
  int64_t num_predict = -1;
  bool ignore_eos = false;
  std::optional<size_t> max_draft{};  // drafted tokens of a pass; nullopt: the runner's own limit
  std::vector<int32_t> prediction{};  // a text that the answer may resemble
  bool logprobs = false;
  int top_logprobs = 0;
  bool prompt_logprobs = false;  // of the prompt's tokens, too
  size_t max_context = 0;        // N, the context that the request was given
  std::vector<size_t> sizes{};   // rungs; empty: the runner's
  std::string overflow_policy = "refill";
  size_t reserve_batches = 9;
  size_t overflow_batch = 64;
  size_t max_repeats = 0;  // how often the text of a token may come again in a row; 0: any number
  std::optional<constraint::Constraint> constraint{};  // what the answer is held to
  bool ends_repetition = false;         // it ends where it goes round in a circle: "repetition"
  std::vector<std::string> markers{};   // control tokens that are part of the text, by their texts
  std::vector<std::string> adapters{};  // paths of GGUF files: what the model is added to by
  // Nobody sees what is passed on before the end: it may begin again on another runner, and the
  // runner puts its pieces together.
  bool may_begin_again = false;
};

struct TokenLogprob {
  std::string token;  // its text; U+FFFD for bytes that are no UTF-8
  float logprob = 0.0f;
  std::string bytes;
  std::vector<TokenLogprob> top{};
};

// A chunk of a prompt that was evaluated.
struct Prefill {
  size_t n_done = 0;  // tokens of the prompt so far, known ones included
  std::chrono::nanoseconds time{};
};

// A stretch of a piece's text that is one control token.
struct TextMark {
  size_t offset = 0;  // bytes
  size_t length = 0;
  bool operator==(const TextMark&) const = default;
};

struct CompletionPiece {
  std::string text{};                    // whole characters
  std::vector<TextMark> marks{};         // in the text: rising, side by side
  std::vector<TokenLogprob> logprobs{};  // an entry for each token
  // Of all tokens of the prompt, in one piece, where they are wanted; the first has -infinity.
  std::vector<TokenLogprob> prompt_logprobs{};
  std::vector<std::string> events{};  // transitions and compactions: a JSON object each
  std::vector<Prefill> prefill{};
  bool is_asking = false;  // it stands still for want of memory
};

struct CompletionEnd {
  std::string done_reason{};  // "stop", "length" or "repetition"; empty where OnPiece ended it
  std::string stop_string{};  // the stop string that has ended it; empty: none
  std::string error{};        // what cut it short; empty where nothing did
  int64_t seed = 0;
  size_t n_prompt = 0;
  size_t n_cached = 0;            // of the prompt: known before
  size_t n_generated = 0;         // tokens of the answer, and the one that ended it where one did
  std::vector<int32_t> tokens{};  // of the answer
  std::chrono::nanoseconds queued{};    // until the engine took it
  std::chrono::nanoseconds prompted{};  // from then until its first token
  std::chrono::nanoseconds written{};   // from then to its end
  std::chrono::nanoseconds masked{};    // in which the tokens that the constraint allows were found
  size_t n_forced = 0;                  // tokens that the constraint left no choice about
  size_t n_drafted = 0;         // tokens that were guessed and evaluated before they were chosen
  size_t n_draft_accepted = 0;  // of them, those that the answer has
};

struct EmbedInput {
  std::vector<int32_t> tokens;  // special ones included
  size_t n_first = 0;           // tokens of the first segment of a pair; 0: there is one segment
};

struct EmbedJob {
  std::vector<EmbedInput> inputs;
  std::string pooling{};                // in place of the model's; empty: that
  std::vector<std::string> adapters{};  // paths of GGUF files: what the model is added to by
  bool is_bulk = false;                 // runs only when nothing else waits
  // Whose it is: inputs of one client run in their order, those of several in turn.
  std::string client{};
};

// Of one input.
struct EmbedOutput {
  std::vector<float> values;  // as pooled, not normalised
  std::string error{};        // why there are none, in one line; else empty
  int status = 0;             // of that error, as an HTTP status
  bool operator==(const EmbedOutput&) const = default;
};
using EmbedOutputs = std::vector<EmbedOutput>;

// What a runner knows the beginning of: blocks of 64 tokens, each with the digest of all up to it,
// 16 hexadecimal digits.
struct Prefix {
  size_t n_tokens = 0;
  std::vector<std::string> digests{};
  bool operator==(const Prefix&) const = default;
};

enum class RunnerStatus : uint8_t { kLoading, kReady, kFailed };

struct RunnerHealth {
  RunnerStatus status = RunnerStatus::kLoading;
  std::string error{};         // where it failed: one line
  bool out_of_memory = false;  // it failed for want of memory
  uint64_t n_loaded = 0;       // rises while the load comes forward
  uint64_t n_to_load = 0;      // what it rises to; 0: not known
  size_t n_running = 0;
  size_t n_waiting = 0;
  size_t max_context = 0;
  uint64_t budget_version = 0;  // of the budget that it goes by; 0: the one of its launch
  uint64_t held_bytes = 0;      // by its ledger, cached KV included
  uint64_t cached_bytes = 0;
  uint64_t wanted_bytes = 0;
  bool is_asking = false;  // a request stands still until it knows whether it can have them
  uint64_t resident_bytes = 0;
  uint64_t kv_used_bytes = 0;    // by what runs
  uint64_t kv_room_bytes = 0;    // all KV that its budget has room for
  uint64_t kv_block_bytes = 0;   // of 64 positions
  double busy_ratio = 0.0;       // of the last 10 s
  double backlog_seconds = 0.0;  // of work, at the rates of late
  uint64_t embed_pending_tokens = 0;
  std::string degraded{};         // why passes fail of late, while it goes on; empty: they do not
  std::vector<Figure> figures{};  // more that it counts
  std::string engine{};           // "llama": llama-server; empty: Billow's own
  uint64_t gpu_bytes = 0;         // of held_bytes: in the memory of GPUs
};

// The runner has ended or does not speak any more; what it was doing is lost.
class RunnerGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// It has no place for the request, of which nothing was done: a later time may have one.
class RunnerBusy : public http::StatusError {
 public:
  explicit RunnerBusy(const std::string& text) : http::StatusError(503, text) {}
};
// The caller's stop token was set.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("request canceled") {}
};

// Takes what was written; false ends the completion there.
using OnPiece = std::function<bool(CompletionPiece piece)>;

// All calls throw RunnerGone, Cancelled, and http::StatusError where the runner refuses, or answers
// what makes no sense; embed() also RunnerBusy.
class Runner {
 public:
  virtual ~Runner() = default;  // end()

  virtual CompletionEnd complete(const Completion& request, const OnPiece& on_piece,
                                 std::stop_token stop) = 0;
  virtual EmbedOutputs embed(const EmbedJob& job, std::stop_token stop) = 0;
  virtual std::vector<int32_t> tokenize(std::string_view text) = 0;
  virtual std::string detokenize(const std::vector<int32_t>& tokens) = 0;

  // What was of use last, at most n_max. The root says which weights these are.
  virtual std::vector<Prefix> prefixes(std::string_view root, size_t n_max) = 0;

  virtual RunnerHealth health() = 0;
  virtual void set_budget(const Budget& budget) = 0;
  virtual pid_t pid() const noexcept = 0;
  // How the process ended, "signal 9 (Killed)" or "exit status 1: last line of its log"; empty
  // while it lives.
  virtual std::string end_of_process() = 0;
  // Ends the process and waits for it; what runs is cut off, and throws RunnerGone.
  virtual void end() = 0;
};

// Starts a runner and returns at once: its health tells when it is ready. Throws Error.
using StartRunner = std::function<std::unique_ptr<Runner>(const Launch& launch)>;

}  // namespace billow::scheduler
