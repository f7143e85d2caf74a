#include "runner/engine_loop.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace billow::runner {

using Clock = std::chrono::steady_clock;
using engine::FinishReason;

struct Board {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<std::shared_ptr<Answer>> waiting;
  bool news = false;  // something was submitted, cancelled, read or set
  bool stopping = false;
  std::exception_ptr broken;
  std::optional<uint64_t> budget;  // to be set
  size_t n_running = 0;
  engine::MemoryUse memory;

  void ring() {
    news = true;
    work.notify_one();
  }
};

Answer::Answer(std::shared_ptr<Board> board, AnswerRequest request)
    : board_(std::move(board)), request_(std::move(request)) {}

std::optional<Piece> Answer::next() {
  std::unique_lock lock(board_->mutex);
  changed_.wait(lock, [this] { return has_unread_ || ended_; });
  if (!has_unread_) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  has_unread_ = false;
  n_unread_ = 0;
  board_->ring();
  return std::exchange(unread_, {});
}

void Answer::cancel() {
  const std::scoped_lock lock(board_->mutex);
  cancelled_ = true;
  board_->ring();
}

void Answer::add(Piece piece) {
  n_unread_ += piece.text.size() + piece.sampled.size() * sizeof(engine::Sampled);
  unread_.text += piece.text;
  std::ranges::move(piece.sampled, std::back_inserter(unread_.sampled));
  std::ranges::move(piece.events, std::back_inserter(unread_.events));
  has_unread_ = true;
  changed_.notify_one();
}

// One that the engine has.
struct EngineLoop::Run {
  Run(engine::Engine& engine, std::shared_ptr<Answer> to, AnswerRequest request)
      : answer(std::move(to)),
        logprobs(request.options.sampling.logprobs),
        generation(engine, std::move(request.prompt), request.options, std::move(request.stop)) {}

  Piece new_events() {
    Piece piece;
    const std::span<const engine::SequenceEvent> events = generation.sequence().events();
    for (; n_events < events.size(); ++n_events) piece.events.push_back(events[n_events]);
    return piece;
  }

  AnswerEnd end(Clock::time_point now) const {
    const engine::Sequence& sequence = generation.sequence();
    const std::span<const int32_t> written = sequence.tokens().subspan(sequence.n_prompt());
    const Clock::time_point first = first_token.value_or(now);
    return {.reason = sequence.finish_reason(),
            .cancelled = answer->cancelled_,
            .error = sequence.error(),
            .n_prompt = sequence.n_prompt(),
            .n_shared = sequence.n_shared(),
            .seed = sequence.seed(),
            .tokens = {written.begin(), written.end()},
            .queued = begun - answer->submitted_,
            .prompted = first - begun,
            .written = now - first};
  }

  std::shared_ptr<Answer> answer;
  bool logprobs = false;
  engine::Generation generation;
  Clock::time_point begun = Clock::now();
  std::optional<Clock::time_point> first_token;
  size_t n_events = 0;  // given
};

EngineLoop::EngineLoop(std::unique_ptr<engine::Engine> engine, const LoopOptions& options)
    : options_(options), board_(std::make_shared<Board>()), engine_(std::move(engine)) {
  board_->memory = engine_->memory();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::scoped_lock lock(board_->mutex);
    board_->stopping = true;
    board_->ring();
  }
  thread_.join();
}

std::shared_ptr<Answer> EngineLoop::submit(AnswerRequest request) {
  const std::shared_ptr<Answer> answer(new Answer(board_, std::move(request)));
  const std::scoped_lock lock(board_->mutex);
  if (board_->broken) std::rethrow_exception(board_->broken);
  board_->waiting.push_back(answer);
  board_->ring();
  return answer;
}

LoopState EngineLoop::state() const {
  const std::scoped_lock lock(board_->mutex);
  return {board_->n_running, board_->waiting.size(), board_->memory};
}

void EngineLoop::set_memory_budget(uint64_t bytes) {
  const std::scoped_lock lock(board_->mutex);
  board_->budget = bytes;
  board_->ring();
}

bool EngineLoop::broken() const {
  const std::scoped_lock lock(board_->mutex);
  return board_->broken != nullptr;
}

void EngineLoop::run() {
  while (wait_for_work()) {
    take_news();
    try {
      deliver(engine_->step());
      end_finished();
    } catch (...) {
      fail_all(std::current_exception());
    }
  }
  for (const std::unique_ptr<Run>& run : runs_) {
    engine_->finish(run->generation.sequence(), FinishReason::kStop);
    run->answer->cancel();
  }
  end_finished();
  const std::scoped_lock lock(board_->mutex);
  for (const std::shared_ptr<Answer>& answer : board_->waiting) {
    answer->ended_ = answer->end_.cancelled = true;
    answer->changed_.notify_one();
  }
  board_->waiting.clear();
}

// False when the loop is to end.
bool EngineLoop::wait_for_work() {
  bool any_held = false;
  bool any_able = false;
  for (const std::unique_ptr<Run>& run : runs_) {
    const engine::Sequence& sequence = run->generation.sequence();
    any_held = any_held || sequence.held();
    any_able = any_able || (!sequence.held() && !sequence.waiting());
  }
  // Those that wait for memory get it, or end, unless it is with one that is held.
  const bool can_step = any_able || (!runs_.empty() && !any_held);
  std::unique_lock lock(board_->mutex);
  board_->work.wait(lock, [&] { return can_step || board_->news || board_->stopping; });
  return !board_->stopping;
}

// What others have asked for since the last pass.
void EngineLoop::take_news() {
  std::vector<std::shared_ptr<Answer>> fresh;
  std::vector<const engine::Sequence*> cancelled;
  std::optional<uint64_t> budget;
  {
    const std::scoped_lock lock(board_->mutex);
    board_->news = false;
    budget = std::exchange(board_->budget, std::nullopt);
    for (const std::unique_ptr<Run>& run : runs_) {
      const engine::Sequence& sequence = run->generation.sequence();
      if (run->answer->cancelled_) cancelled.push_back(&sequence);
      engine_->hold(sequence, run->answer->n_unread_ >= options_.most_unread);
    }
    std::erase_if(board_->waiting, [](const std::shared_ptr<Answer>& answer) {
      if (!answer->cancelled_) return false;
      answer->ended_ = answer->end_.cancelled = true;
      answer->changed_.notify_one();
      return true;
    });
    const size_t n_ending = cancelled.size();
    while (!board_->waiting.empty() &&
           runs_.size() - n_ending + fresh.size() < engine_->max_sequences()) {
      fresh.push_back(std::move(board_->waiting.front()));
      board_->waiting.pop_front();
    }
  }
  if (budget) engine_->set_memory_budget(*budget);
  for (const engine::Sequence* sequence : cancelled)
    engine_->finish(*sequence, FinishReason::kStop);
  end_finished();
  for (const std::shared_ptr<Answer>& answer : fresh) start(answer);
}

void EngineLoop::start(const std::shared_ptr<Answer>& answer) {
  try {
    runs_.push_back(std::make_unique<Run>(*engine_, answer, std::move(answer->request_)));
  } catch (...) {
    const std::scoped_lock lock(board_->mutex);
    answer->error_ = std::current_exception();
    answer->ended_ = true;
    answer->changed_.notify_one();
  }
}

void EngineLoop::deliver(const std::vector<engine::Engine::Token>& tokens) {
  for (const engine::Engine::Token& token : tokens) {
    const auto is_its = [&](const std::unique_ptr<Run>& run) {
      return &run->generation.sequence() == token.sequence.get();
    };
    Run& run = **std::ranges::find_if(runs_, is_its);
    if (!run.first_token) run.first_token = Clock::now();
    Piece piece = run.new_events();
    piece.text = run.generation.accept(token);
    if (run.logprobs && !token.is_end) piece.sampled.push_back(token.sampled);
    if (piece.text.empty() && piece.sampled.empty() && piece.events.empty()) continue;
    const std::scoped_lock lock(board_->mutex);
    run.answer->add(std::move(piece));
  }
}

void EngineLoop::end_finished() {
  const Clock::time_point now = Clock::now();
  const std::scoped_lock lock(board_->mutex);
  for (const std::unique_ptr<Run>& run : runs_) {
    if (!run->generation.finished()) continue;
    Answer& answer = *run->answer;
    Piece piece = run->new_events();
    piece.text = run->generation.finish();
    if (!piece.text.empty() || !piece.events.empty()) answer.add(std::move(piece));
    answer.end_ = run->end(now);
    answer.ended_ = true;
    answer.changed_.notify_one();
  }
  std::erase_if(runs_, [](const std::unique_ptr<Run>& run) { return run->generation.finished(); });
  board_->n_running = runs_.size();
  board_->memory = engine_->memory();
}

void EngineLoop::fail_all(const std::exception_ptr& error) {
  for (const std::unique_ptr<Run>& run : runs_)
    engine_->finish(run->generation.sequence(), FinishReason::kFailed);
  const std::scoped_lock lock(board_->mutex);
  board_->broken = error;
  for (const std::unique_ptr<Run>& run : runs_) board_->waiting.push_back(run->answer);
  for (const std::shared_ptr<Answer>& answer : board_->waiting) {
    answer->error_ = error;
    answer->ended_ = true;
    answer->changed_.notify_one();
  }
  board_->waiting.clear();
  runs_.clear();
  board_->n_running = 0;
}

}  // namespace billow::runner
