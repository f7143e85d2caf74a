#include "runner/engine_loop.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <mutex>
#include <utility>

#include "runner/shared_state.h"

namespace billow::runner {

using Clock = std::chrono::steady_clock;
using engine::FinishReason;

namespace {

// The server kills a runner 2 seconds after it asked the runner to exit.
constexpr std::chrono::milliseconds kSaveTime{1000};
// Max time for saving between two passes, if clients wait until their text is saved.
constexpr std::chrono::milliseconds kSaveSlice{20};

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

// Returns how many tokens a request has yet to generate. Without a limit, assumes a typical
// response.
size_t tokens_to_write(int64_t max, size_t n_written) {
  constexpr size_t kTypicalTokens = 256;
  const size_t all = max < 0 ? kTypicalTokens : static_cast<size_t>(max);
  return all - std::min(all, n_written);
}

void add_untouched(const AnswerRequest& request, Backlog& backlog) {
  backlog.n_prompt += request.prompt.size();
  backlog.n_decode += tokens_to_write(request.options.max_new_tokens, 0);
}

RequestStream::RequestStream(std::shared_ptr<SharedState> shared, AnswerRequest request)
    : shared_(std::move(shared)), request_(std::move(request)), whole_(request_.whole) {}

// REQUIRES: the mutex of the shared state is held.
bool RequestStream::has_only_text() const {
  return unread_.events.empty() && unread_.prefill.empty() && !unread_.asking;
}

// REQUIRES: the mutex of the shared state is held.
bool RequestStream::is_readable() const {
  if (ended_) return true;
  const bool can_wait = (whole_ || paused_) && has_only_text();
  return has_unread_ && (!can_wait || n_unread_ >= shared_->n_readable);
}

std::optional<Chunk> RequestStream::next() {
  const auto is_readable = [this] { return this->is_readable(); };
  std::unique_lock lock(shared_->mutex);
  if (shared_->stream_interval.count() > 0 && !whole_) {
    paused_ = true;
    changed_.wait_until(lock, last_text_at_ + shared_->stream_interval, is_readable);
    paused_ = false;
  }
  changed_.wait(lock, is_readable);
  if (!unread_.text.empty()) last_text_at_ = Clock::now();
  if (!has_unread_) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  has_unread_ = false;
  n_unread_ = 0;
  shared_->notify();
  return std::exchange(unread_, {});
}

bool RequestStream::is_over() const {
  const std::scoped_lock lock(shared_->mutex);
  return ended_ && !has_unread_ && !error_;
}

void RequestStream::cancel() {
  const std::scoped_lock lock(shared_->mutex);
  cancelled_ = true;
  shared_->notify();
}

// REQUIRES: the mutex of the shared state is held. After the caller has released it, the caller
// must notify the reader.
void RequestStream::add(Chunk chunk) {
  n_unread_ += chunk.text.size() + chunk.sampled.size() * sizeof(engine::Sampled) +
               chunk.prefill.size() * sizeof(Prefill);
  for (const engine::TextMark& mark : chunk.marks)
    unread_.marks.push_back({unread_.text.size() + mark.offset, mark.length});
  unread_.text += chunk.text;
  std::ranges::move(chunk.sampled, std::back_inserter(unread_.sampled));
  std::ranges::move(chunk.prompt, std::back_inserter(unread_.prompt));
  std::ranges::move(chunk.events, std::back_inserter(unread_.events));
  std::ranges::move(chunk.prefill, std::back_inserter(unread_.prefill));
  unread_.asking = unread_.asking || chunk.asking;
  has_unread_ = true;
}

// A request that the engine has started.
struct EngineLoop::Run {
  Run(engine::Engine& engine, std::shared_ptr<RequestStream> to, AnswerRequest request)
      : stream(std::move(to)),
        logprobs(request.options.sampling.logprobs),
        max_new(request.options.max_new_tokens),
        pictures_prepared(request.pictures_prepared),
        generation(engine, std::move(request.prompt), request.options, std::move(request.stop),
                   request.max_repeats, request.markers) {
    if (request.ends_repetition) generation.end_repetition();
  }

  Chunk new_events() {
    Chunk chunk;
    const std::span<const engine::SequenceEvent> events = generation.sequence().events();
    for (; n_events < events.size(); ++n_events) chunk.events.push_back(events[n_events]);
    return chunk;
  }

  // Returns how many tokens of the prompt the last pass evaluated.
  size_t new_prefill() {
    const engine::Sequence& sequence = generation.sequence();
    const size_t before = std::max(n_prefilled, sequence.n_shared());
    if (before >= sequence.n_prompt()) return 0;
    n_prefilled = std::max(before, std::min(sequence.n_evaluated(), sequence.n_prompt()));
    return n_prefilled - before;
  }

  // Returns the scores of the prompt's tokens once, after the prompt was evaluated.
  std::vector<engine::Sampled> new_scores() {
    const std::span<const engine::Sampled> scores = generation.sequence().prompt_scores();
    if (gave_scores || scores.size() < generation.sequence().n_prompt()) return {};
    gave_scores = true;
    return {scores.begin(), scores.end()};
  }

  void add_to(Backlog& backlog) const {
    const engine::Sequence& sequence = generation.sequence();
    backlog.n_prompt += sequence.n_prompt() - std::min(n_prefilled, sequence.n_prompt());
    backlog.n_decode += tokens_to_write(max_new, sequence.n_generated());
  }

  AnswerEnd end(Clock::time_point now) const {
    const engine::Sequence& sequence = generation.sequence();
    const std::span<const int32_t> written = generation.tokens();
    const Clock::time_point first = first_token.value_or(now);
    return {.reason = generation.finish_reason(),
            .cancelled = stream->cancelled_,
            .error = generation.error(),
            .stop_string = std::string(generation.stop_string()),
            .n_prompt = sequence.n_prompt(),
            .n_shared = sequence.n_shared(),
            .seed = sequence.seed(),
            .tokens = {written.begin(), written.end()},
            .n_sampled = written.size() + (has_end_token ? 1 : 0),
            .n_drafted = sequence.n_drafted(),
            .n_draft_accepted = sequence.n_draft_accepted(),
            .queued = begun - stream->submitted_,
            .prompted = first - begun,
            .written = now - first,
            .pictures_prepared = pictures_prepared,
            .pictures_encoded = sequence.picture_time(),
            .guide =
                sequence.guide() != nullptr ? sequence.guide()->stats() : constraint::GuideStats()};
  }

  std::shared_ptr<RequestStream> stream;
  bool logprobs = false;
  int64_t max_new = -1;
  std::chrono::nanoseconds pictures_prepared{};
  engine::Generation generation;
  engine::HeldScores held_scores{};
  Clock::time_point begun = Clock::now();
  std::optional<Clock::time_point> first_token;
  bool has_end_token = false;
  bool gave_scores = false;
  size_t n_events = 0;     // events that were reported
  size_t n_prefilled = 0;  // evaluated tokens of the prompt
  bool asks = false;       // waits for a decision about memory; the reader was notified
};

EngineLoop::EngineLoop(std::unique_ptr<engine::Engine> engine, const LoopOptions& options)
    : options_(options), shared_(std::make_shared<SharedState>()), engine_(std::move(engine)) {
  shared_->memory = engine_->memory();
  shared_->n_readable = options_.max_unread / 2;
  shared_->stream_interval = options_.stream_interval;
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->notify();
  }
  thread_.join();
}

std::shared_ptr<constraint::Guide> EngineLoop::guide_for(
    const constraint::Constraint& constraint) const {
  constraint::check_start(constraint);
  auto guide = std::make_shared<constraint::Guide>(engine_->vocabulary(), constraint);
  guide->prepare();
  (void)guide->allowed();  // throws if the guide allows not even a first token
  return guide;
}

std::shared_ptr<RequestStream> EngineLoop::submit(AnswerRequest request) {
  const std::shared_ptr<RequestStream> stream(new RequestStream(shared_, std::move(request)));
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->broken) std::rethrow_exception(shared_->broken);
    shared_->waiting.push_back(stream);
    shared_->news = true;
  }
  shared_->work.notify_one();  // unlocked, so that the woken thread finds the mutex free
  return stream;
}

LoopState EngineLoop::state() const {
  const std::scoped_lock lock(shared_->mutex);
  Backlog backlog = shared_->backlog;
  for (const std::shared_ptr<RequestStream>& stream : shared_->waiting)
    add_untouched(stream->request_, backlog);
  return {.n_running = shared_->n_running,
          .n_waiting = shared_->waiting.size(),
          .backlog = backlog,
          .budget_version = shared_->budget_version,
          .memory = shared_->memory,
          .rates = shared_->meter.rates(Clock::now()),
          .failure = shared_->broken ? text_of(shared_->broken) : ""};
}

std::vector<kv::KnownText> EngineLoop::latest_prefixes(size_t n_max,
                                                       engine::AdapterFiles adapters) {
  std::future<std::vector<kv::KnownText>> texts;
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->stopping || shared_->broken) return {};
    texts = shared_->prefix_questions.emplace_back(PrefixQuestion{n_max, std::move(adapters), {}})
                .texts.get_future();
    shared_->notify();
  }
  return texts.get();
}

kv::TextKv EngineLoop::do_with_text(TextAction action, std::vector<int32_t> tokens,
                                    engine::AdapterFiles adapters, uint64_t salt) {
  std::future<kv::TextKv> kv;
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->stopping || shared_->broken) return {};
    kv = shared_->text_questions
             .emplace_back(TextQuestion{action, std::move(tokens), std::move(adapters), salt, {}})
             .kv.get_future();
    shared_->notify();
  }
  return kv.get();
}

void EngineLoop::set_memory_budget(const MemoryBudget& budget) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->budget = budget;
  shared_->notify();
}

bool EngineLoop::broken() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->broken != nullptr;
}

void EngineLoop::run() {
  while (wait_for_work()) {
    take_news();
    if (broken()) continue;  // a reader may still notify the loop
    try {
      step();
      end_embeds();
      end_finished();
      publish();
    } catch (...) {
      fail_all(std::current_exception());
      if (options_.on_broken) options_.on_broken();
    }
  }
  for (const std::unique_ptr<Run>& run : runs_) {
    engine_->finish(run->generation.sequence(), FinishReason::kStop);
    run->stream->cancel();
  }
  end_finished();
  if (!broken()) save_sessions();
  const std::scoped_lock lock(shared_->mutex);
  jobs_.insert(jobs_.end(), shared_->new_embeds.begin(), shared_->new_embeds.end());
  shared_->new_embeds.clear();
  for (PrefixQuestion& question : shared_->prefix_questions) question.texts.set_value({});
  shared_->prefix_questions.clear();
  std::ranges::move(shared_->text_questions, std::back_inserter(text_questions_));
  for (TextQuestion& question : text_questions_) question.kv.set_value({});
  text_questions_.clear();
  for (const std::shared_ptr<EmbedJob>& job : jobs_) {
    job->cancelled = true;
    end(*job);
  }
  jobs_.clear();
  for (const std::shared_ptr<RequestStream>& stream : shared_->waiting) {
    stream->ended_ = stream->end_.cancelled = true;
    stream->changed_.notify_one();
  }
  shared_->waiting.clear();
}

// Waits for work. Returns false if the loop must end.
bool EngineLoop::wait_for_work() {
  bool any_held = false;
  bool any_able = false;
  for (const std::unique_ptr<Run>& run : runs_) {
    const engine::Sequence& sequence = run->generation.sequence();
    any_held = any_held || sequence.held();
    any_able = any_able || (!sequence.held() && !sequence.waiting());
  }
  any_able = any_able || (engine_->embeds() && !engine_->embeds_waiting());
  // A step can help sequences that wait for memory: they get memory or end. This does not apply
  // while a sequence is held, or while the server decides about memory. If a text has ended, its
  // memory may be enough, and the server need not decide.
  const bool can_step = any_able || !text_questions_.empty() || std::exchange(has_freed_, false) ||
                        (!engine_->idle() && !any_held && !engine_->asking());
  const auto has_work = [&] { return can_step || shared_->news || shared_->stopping; };
  std::unique_lock lock(shared_->mutex);
  while (!has_work() && engine_->has_to_save()) {
    lock.unlock();
    engine_->save_one();
    lock.lock();
  }
  shared_->work.wait(lock, has_work);
  return !shared_->stopping;
}

// Saves the last sessions before the loop ends. The time is limited, because other runners wait for
// the memory.
void EngineLoop::save_sessions() {
  const Clock::time_point end = Clock::now() + kSaveTime;
  while (engine_->has_to_save() && Clock::now() < end) engine_->save_one();
}

// Answers questions about texts. Saves for a short time only, so that requests continue soon.
void EngineLoop::answer_text_questions() {
  if (text_questions_.empty()) return;
  const Clock::time_point end = Clock::now() + kSaveSlice;
  while (engine_->has_to_save() && Clock::now() < end) engine_->save_one();
  std::vector<TextQuestion> left;
  for (TextQuestion& question : text_questions_) {
    if (question.action == TextAction::kForget) {
      question.kv.set_value(
          engine_->forget_text(question.tokens, question.adapters, question.salt));
    } else if (engine_->has_to_save()) {
      left.push_back(std::move(question));
    } else {
      question.kv.set_value(
          engine_->text_on_disk(question.tokens, question.adapters, question.salt));
    }
  }
  text_questions_ = std::move(left);
}

// Processes everything that clients requested since the last pass.
void EngineLoop::take_news() {
  std::vector<const engine::Sequence*> cancelled;
  std::optional<MemoryBudget> budget;
  std::vector<PrefixQuestion> questions;
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->news = false;
    questions.swap(shared_->prefix_questions);
    std::ranges::move(shared_->text_questions, std::back_inserter(text_questions_));
    shared_->text_questions.clear();
    budget = std::exchange(shared_->budget, std::nullopt);
    for (const std::unique_ptr<Run>& run : runs_) {
      const engine::Sequence& sequence = run->generation.sequence();
      if (run->stream->cancelled_) cancelled.push_back(&sequence);
      engine_->hold(sequence, run->stream->n_unread_ >= options_.max_unread);
    }
    std::erase_if(shared_->waiting, [](const std::shared_ptr<RequestStream>& stream) {
      if (!stream->cancelled_) return false;
      stream->ended_ = stream->end_.cancelled = true;
      stream->changed_.notify_one();
      return true;
    });
  }
  if (budget) {
    engine_->set_memory_budget(budget->bytes, budget->ceiling);
    budget_version_ = budget->version;
  }
  for (PrefixQuestion& question : questions)
    question.texts.set_value(engine_->latest_prefixes(question.n_max, question.adapters));
  answer_text_questions();
  for (const engine::Sequence* sequence : cancelled)
    engine_->finish(*sequence, FinishReason::kStop);
  end_finished();
  take_requests();
  take_embeds();
}

// Starts waiting requests while the engine has a free place. From then on, they count as running.
void EngineLoop::take_requests() {
  std::vector<std::shared_ptr<RequestStream>> fresh;
  {
    const std::scoped_lock lock(shared_->mutex);
    while (!shared_->waiting.empty() && runs_.size() + fresh.size() < engine_->max_sequences()) {
      add_untouched(shared_->waiting.front()->request_, shared_->backlog);
      fresh.push_back(std::move(shared_->waiting.front()));
      shared_->waiting.pop_front();
      ++shared_->n_running;
    }
  }
  for (const std::shared_ptr<RequestStream>& stream : fresh) start(stream);
}

void EngineLoop::start(const std::shared_ptr<RequestStream>& stream) {
  try {
    runs_.push_back(std::make_unique<Run>(*engine_, stream, std::move(stream->request_)));
  } catch (...) {
    const std::scoped_lock lock(shared_->mutex);
    stream->error_ = std::current_exception();
    stream->ended_ = true;
    --shared_->n_running;
    stream->changed_.notify_one();
  }
}

// Runs one pass and gives its results to the readers. Readers wake up while the loop ends finished
// requests.
void EngineLoop::step() {
  const Clock::time_point begin = Clock::now();
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->meter.begin_pass(begin);
  }
  if (options_.before_pass) options_.before_pass();
  const std::vector<engine::Engine::Token> tokens = engine_->step();
  const Clock::time_point end = Clock::now();
  News news;
  const size_t n_prompt = take_prefill(end - begin, news);
  const auto is_decoded = [this](const engine::Engine::Token& token) {
    return run_of(*token.sequence).first_token.has_value();
  };
  const auto n_decoded = static_cast<size_t>(std::ranges::count_if(tokens, is_decoded));
  take_tokens(tokens, news);
  {
    const std::scoped_lock lock(shared_->mutex);
    for (auto& [stream, chunk] : news) stream->add(std::move(chunk));
    std::erase_if(news, [](const auto& one) { return !one.first->is_readable(); });
    shared_->meter.end_pass(end, n_prompt + engine_->n_embedded(), n_decoded);
  }
  notify(news);
}

// REQUIRES: the mutex is not held, because a reader that wakes up would wait for the mutex.
void EngineLoop::notify(const News& news) {
  for (const auto& [stream, chunk] : news) stream->changed_.notify_one();
}

// Records the prefill of a pass of duration `time`. Returns how many prompt tokens were evaluated.
size_t EngineLoop::take_prefill(std::chrono::nanoseconds time, News& news) {
  size_t sum = 0;
  for (const std::unique_ptr<Run>& run : runs_) {
    const size_t n = run->new_prefill();
    if (n == 0) continue;
    sum += n;
    Chunk chunk;
    chunk.prefill.push_back({run->n_prefilled, time});
    chunk.prompt = run->new_scores();
    news.emplace_back(run->stream, std::move(chunk));
  }
  return sum;
}

EngineLoop::Run& EngineLoop::run_of(const engine::Sequence& sequence) {
  const auto is_its = [&](const std::unique_ptr<Run>& run) {
    return &run->generation.sequence() == &sequence;
  };
  return **std::ranges::find_if(runs_, is_its);
}

void EngineLoop::take_tokens(const std::vector<engine::Engine::Token>& tokens, News& news) {
  for (const engine::Engine::Token& token : tokens) {
    Run& run = run_of(*token.sequence);
    if (run.generation.has_ended()) continue;  // ended by an earlier token of the same pass
    if (!run.first_token) run.first_token = Clock::now();
    run.has_end_token = token.is_end;
    Chunk chunk = run.new_events();
    chunk.text = run.generation.accept(token);
    chunk.marks.assign(run.generation.marks().begin(), run.generation.marks().end());
    if (run.logprobs && !token.is_end) run.held_scores.add(token.sampled);
    run.held_scores.take(run.generation.n_shown(), chunk.sampled);
    if (chunk.text.empty() && chunk.sampled.empty() && chunk.events.empty()) continue;
    news.emplace_back(run.stream, std::move(chunk));
  }
}

// Notifies readers of the end before it frees the memory of their sequences, because freeing takes
// time.
void EngineLoop::end_finished() {
  const Clock::time_point now = Clock::now();
  std::vector<std::unique_ptr<Run>> ended;
  News news;
  std::unique_lock lock(shared_->mutex);
  for (const std::unique_ptr<Run>& run : runs_) {
    if (!run->generation.finished()) continue;
    RequestStream& stream = *run->stream;
    Chunk chunk = run->new_events();
    chunk.text = run->generation.finish();
    run->held_scores.take(run->generation.n_shown(), chunk.sampled);
    if (!chunk.text.empty() || !chunk.sampled.empty() || !chunk.events.empty())
      stream.add(std::move(chunk));
    stream.end_ = run->end(now);
    stream.ended_ = true;
    --shared_->n_running;
    news.emplace_back(run->stream, Chunk());
  }
  for (std::unique_ptr<Run>& run : runs_)
    if (run->generation.finished()) ended.push_back(std::move(run));
  std::erase(runs_, nullptr);
  shared_->memory = engine_->memory();
  shared_->backlog = {};
  for (const std::unique_ptr<Run>& run : runs_) run->add_to(shared_->backlog);
  add_asking(news);
  lock.unlock();
  notify(news);
  if (ended.empty()) return;
  ended.clear();
  has_freed_ = true;
  engine_->trim();
  lock.lock();
  shared_->memory = engine_->memory();
}

// Adds a chunk with `asking`, so that the reader makes the server look at the wanted memory.
// REQUIRES: the mutex of the shared state is held.
void EngineLoop::add_asking(News& news) {
  for (const std::unique_ptr<Run>& run : runs_) {
    const bool asks = engine_->asking() && run->generation.sequence().waiting();
    if (std::exchange(run->asks, asks) || !asks) continue;
    Chunk chunk;
    chunk.asking = true;
    run->stream->add(std::move(chunk));
    news.emplace_back(run->stream, Chunk());
  }
}

// Publishes a budget as in effect: after a pass with it, waiting sequences have their memory.
void EngineLoop::publish() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->budget_version = budget_version_;
}

void EngineLoop::fail_all(const std::exception_ptr& error) {
  for (const std::unique_ptr<Run>& run : runs_)
    engine_->finish(run->generation.sequence(), FinishReason::kFailed);
  const std::scoped_lock lock(shared_->mutex);
  shared_->broken = error;
  shared_->n_running -= runs_.size();
  for (const std::unique_ptr<Run>& run : runs_) shared_->waiting.push_back(run->stream);
  for (const std::shared_ptr<RequestStream>& stream : shared_->waiting) {
    stream->error_ = error;
    stream->ended_ = true;
    stream->changed_.notify_one();
  }
  shared_->waiting.clear();
  runs_.clear();
  jobs_.insert(jobs_.end(), shared_->new_embeds.begin(), shared_->new_embeds.end());
  shared_->new_embeds.clear();
  for (const std::shared_ptr<EmbedJob>& job : jobs_) {
    job->error = error;
    end(*job);
  }
  jobs_.clear();
  for (TextQuestion& question : text_questions_) question.kv.set_value({});
  text_questions_.clear();
}

}  // namespace billow::runner
