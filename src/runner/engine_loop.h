// An engine on a thread of its own, for any number of threads that want answers from it. The thread
// sleeps while there is nothing to do. Answers may outlive the loop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/generation.h"

namespace billow::runner {

struct AnswerRequest {
  std::vector<int32_t> prompt;
  engine::SequenceOptions options;
  std::vector<std::string> stop;
};

// What became of an answer since it was asked about last.
struct Piece {
  std::string text;                           // whole characters; may be empty
  std::vector<engine::Sampled> sampled;       // a token each, where log probabilities are wanted
  std::vector<engine::SequenceEvent> events;  // transitions and compactions
};

struct AnswerEnd {
  engine::FinishReason reason = engine::FinishReason::kStop;
  bool cancelled = false;
  std::string error;  // what was wrong where it ended with kNoMemory or kFailed
  size_t n_prompt = 0;
  size_t n_shared = 0;  // tokens of the prompt that were known
  int64_t seed = 0;
  std::vector<int32_t> tokens;          // of the answer
  std::chrono::nanoseconds queued{};    // until the engine took it
  std::chrono::nanoseconds prompted{};  // from then until its first token
  std::chrono::nanoseconds written{};   // from then to its end
};

struct Board;  // what the loop and its answers share

// An answer on its way: the loop's thread writes it, one other reads it, any may cancel it.
class Answer {
 public:
  // Waits for something new; nullopt once it has ended and all of it was given. Throws what the
  // engine threw: the Error of a prompt that cannot run.
  std::optional<Piece> next();
  // Ends it, after the pass that is under way.
  void cancel();
  // REQUIRES: next() has returned nullopt.
  const AnswerEnd& end() const noexcept { return end_; }

 private:
  friend class EngineLoop;
  Answer(std::shared_ptr<Board> board, AnswerRequest request);
  void add(Piece piece);

  // The board's mutex guards all but `board_` and, until the engine has taken it, `request_`.
  std::shared_ptr<Board> board_;
  AnswerRequest request_;
  std::condition_variable changed_;
  Piece unread_;
  size_t n_unread_ = 0;  // bytes, roughly
  bool has_unread_ = false;
  bool ended_ = false;
  bool cancelled_ = false;
  std::exception_ptr error_;
  AnswerEnd end_;
  std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();
};

struct LoopOptions {
  // An answer that has so many bytes unread gets no more tokens until its reader goes on.
  size_t most_unread = size_t{1} << 20;
};

struct LoopState {
  size_t n_running = 0;
  size_t n_waiting = 0;  // for a place among those that run
  engine::MemoryUse memory;
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

  // Any thread. An error of the request comes from the answer's next().
  std::shared_ptr<Answer> submit(AnswerRequest request);
  LoopState state() const;  // of a moment ago
  // Engine::set_memory_budget, before the next pass.
  void set_memory_budget(uint64_t bytes);
  // True once a pass has failed: all that ran failed with it, and all that comes will.
  bool broken() const;

 private:
  struct Run;
  void run();
  bool wait_for_work();
  void take_news();
  void start(const std::shared_ptr<Answer>& answer);
  void step();
  void deliver(const std::vector<engine::Engine::Token>& tokens);
  void end_finished();
  void fail_all(const std::exception_ptr& error);

  const LoopOptions options_;
  std::shared_ptr<Board> board_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<std::unique_ptr<Run>> runs_;  // of the thread
  std::thread thread_;
};

}  // namespace billow::runner
