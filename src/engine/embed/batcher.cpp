#include "engine/embed/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace billow::engine {

// A request. The batcher's mutex guards the members that change. The texts never change, and exist
// as long as a pass or the caller has the job.
struct EmbedBatcher::Job {
  uint64_t id = 0;
  EmbedRequest request;
  EmbedAnswers answers;
  std::vector<size_t> usable;  // texts that the model can evaluate
  size_t n_left = 0;           // texts without an answer
  size_t n_passes = 0;         // passes with texts of the job
  uint64_t last_pass = 0;      // id of the last of these passes
  std::atomic<bool> is_cancelled{false};
  Clock::time_point came;
  std::condition_variable done;
};

// A model with its thread and its pass.
struct EmbedBatcher::Worker {
  Worker(EmbedModel& its_model, size_t n_texts) : model(its_model), pass(n_texts) {
    taken.reserve(n_texts);
    jobs.reserve(n_texts);
  }
  EmbedModel& model;
  EmbedPass pass;
  std::vector<WaitingText> taken;
  std::vector<std::shared_ptr<Job>> jobs;  // [taken]
  size_t n_tokens = 0;                     // reserved in room_
  uint64_t id = 0;                         // id of the pass
  PassSizing sizing;                       // last decision
  PassSizing logged;                       // last decision in the log
  uint64_t budget_version = 0;
  MemoryUse memory;
  std::thread thread;
};

namespace {

void add_to(MemoryUse& sum, const MemoryUse& use) {
  sum.file = std::max(sum.file, use.file);
  sum.kv_block = use.kv_block;
  sum.kv_state = use.kv_state;
  for (const auto field :
       {&MemoryUse::packed, &MemoryUse::weights, &MemoryUse::adapters, &MemoryUse::adapters_cached,
        &MemoryUse::kv_reserved, &MemoryUse::kv_granted, &MemoryUse::kv_cached,
        &MemoryUse::kv_in_use, &MemoryUse::kv_backed, &MemoryUse::kv_max, &MemoryUse::kv_evicted,
        &MemoryUse::adapters_evicted, &MemoryUse::scratch, &MemoryUse::scratch_granted,
        &MemoryUse::budget, &MemoryUse::wanted})
    sum.*field += use.*field;
}

}  // namespace

EmbedBatcher::EmbedBatcher(std::vector<std::unique_ptr<EmbedModel>> models,
                           EmbedBatcherOptions options)
    : options_(std::move(options)),
      models_(std::move(models)),
      sizes_(resolve_sizes(options_.sizes, info().max_tokens)),
      room_(sizes_.context_size),
      ceiling_(sizes_.n_batch),
      context_size_(sizes_.context_size) {
  const size_t n = std::min(models_.size(), max_passes(sizes_));
  for (size_t i = 0; i < n; ++i) {
    Worker& worker =
        *workers_.emplace_back(std::make_unique<Worker>(*models_[i], sizes_.n_seq_max));
    worker.memory = worker.model.memory();
  }
  for (const auto& worker : workers_)
    worker->thread = std::thread([this, &worker = *worker] { serve(worker); });
  log::info(fmt::format("Batch configuration: {} ({} in parallel)", sizes_line(sizes_), n));
}

EmbedBatcher::~EmbedBatcher() {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    const auto jobs = jobs_;
    for (const auto& [id, job] : jobs) cancel(*job);
    idle_.wait(lock, [this] { return n_callers_ == 0; });
    stopping_ = true;
    work_.notify_all();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

std::optional<EmbedAnswers> EmbedBatcher::embed(EmbedRequest request, std::stop_token stop) {
  const auto job = std::make_shared<Job>();
  job->request = std::move(request);
  job->came = Clock::now();
  check(*job);
  submit(job);
  wait_for(*job, std::move(stop));
  job->answers.time = Clock::now() - job->came;
  log_packing(*job);
  // From here on, the batcher may end.
  const std::scoped_lock lock(mutex_);
  if (--n_callers_ == 0) idle_.notify_all();
  if (job->is_cancelled) return std::nullopt;
  return std::move(job->answers);
}

void EmbedBatcher::log_packing(const Job& job) const {
  size_t n_tokens = 0;
  for (const size_t i : job.usable) n_tokens += job.request.texts[i].tokens.size();
  log::debug(fmt::format("Packed {} sequences ({} total tokens) into {} batches (n_batch={})",
                         job.usable.size(), n_tokens, job.n_passes, sizes_.n_batch));
}

void EmbedBatcher::wait_for(Job& job, std::stop_token stop) {
  const std::stop_callback on_stop(std::move(stop), [&] {
    const std::scoped_lock lock(mutex_);
    if (job.n_left > 0 && !job.is_cancelled) cancel(job);
  });
  std::unique_lock lock(mutex_);
  job.done.wait(lock, [&] { return job.n_left == 0 || job.is_cancelled; });
}

// Gives each text that cannot be evaluated an error. The other texts become `usable`.
void EmbedBatcher::check(Job& job) {
  const std::vector<EmbedText>& texts = job.request.texts;
  if (texts.empty()) throw Error(ErrorCode::kInvalidInput, "there are no texts to embed");
  if (texts.size() > options_.max_waiting)
    throw Error(ErrorCode::kTooLarge,
                fmt::format("{} texts in one request, but at most {} may be queued; "
                            "send fewer at a time",
                            texts.size(), options_.max_waiting));
  job.answers.texts.resize(texts.size());
  const size_t limit = text_limit(sizes_, info().max_tokens);
  for (size_t i = 0; i < texts.size(); ++i) {
    EmbedAnswer& answer = job.answers.texts[i];
    try {
      answer.error = texts[i].tokens.size() > limit
                         ? fmt::format("the input has {} tokens, more than the limit of {}",
                                       texts[i].tokens.size(), limit)
                         : models_.front()->refusal(texts[i]);
      answer.status = answer.error.empty() ? 0 : 400;
    } catch (const std::exception& error) {
      answer.error = error.what();
      answer.status = EmbedPass::kFailedStatus;
    }
    if (answer.error.empty() && answer.status == 0) job.usable.push_back(i);
  }
}

void EmbedBatcher::submit(const std::shared_ptr<Job>& job) {
  const EmbedRequest& request = job->request;
  const size_t n = job->usable.size();
  std::unique_lock lock(mutex_);
  counts_.n_rejected_text += request.texts.size() - n;
  if (closed_) {
    counts_.n_rejected_closing += n;
    throw EmbedBusy("the model is about to be unloaded");
  }
  if (n > options_.max_waiting - std::min(options_.max_waiting, waiting_.count().n_texts)) {
    counts_.n_rejected_full += n;
    throw EmbedBusy(
        fmt::format("{} inputs are queued already; try again later", waiting_.count().n_texts));
  }
  counts_.n_accepted += n;
  job->n_left = n;
  job->id = ++n_jobs_;
  if (n > 0) jobs_.emplace(job->id, job);
  for (const size_t i : job->usable) {
    const size_t n_tokens = request.texts[i].tokens.size();
    counts_.text_tokens.observe(static_cast<double>(n_tokens));
    waiting_.push(request.client, request.is_bulk, {job->id, i, n_tokens});
  }
  ++n_callers_;
  wake();
  const EmbedLoad now = load();
  lock.unlock();
  log::debug(fmt::format("Pending tokens: {} in {} sequences, {} of them new; active batches: {}",
                         now.n_pending_tokens, now.n_pending_texts, n, now.n_running));
}

// The results of texts in a running pass are ignored. REQUIRES: the caller has the mutex. This is
// also true for finish(), wake(), take_pass(), count_passes(), settle(), note() and load().
void EmbedBatcher::cancel(Job& job) {
  counts_.n_dropped += waiting_.remove(job.request.client, job.request.is_bulk, job.id).n_texts;
  job.is_cancelled = true;
  finish(job);
  wake();  // another text is now the first in the queue, and may fit
  if (is_idle()) idle_.notify_all();
}

void EmbedBatcher::finish(Job& job) {
  if (job.n_passes > 0) --n_begun_;
  jobs_.erase(job.id);
  job.done.notify_all();
}

void EmbedBatcher::wake() {
  const size_t pending = waiting_.count().n_tokens;
  if (pending == 0) return;
  const size_t n = std::max<size_t>(1, passes_to_start(sizes_, pending, n_running_));
  for (size_t i = 0; i < std::min(n, workers_.size()); ++i) work_.notify_one();
}

void EmbedBatcher::serve(Worker& worker) {
  std::unique_lock lock(mutex_);
  while (wait_for_pass(worker, lock)) {
    lock.unlock();
    run_pass(worker);
    lock.lock();
  }
}

bool EmbedBatcher::wait_for_pass(Worker& worker, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (stopping_) return false;
    if (worker.budget_version != budget_version_)
      apply_budget(worker, lock);
    else if (take_pass(worker))
      return true;
    else if (worker.sizing != worker.logged)
      log_sizing(worker, lock);  // then look again: new texts may be queued
    else
      work_.wait(lock);
  }
}

// Moves texts from waiting to active under one lock, so that each token is counted exactly once.
bool EmbedBatcher::take_pass(Worker& worker) {
  EmbedSizes sizes = sizes_;
  sizes.context_size = context_size_;
  const size_t used = room_.used();
  worker.sizing = size_pass(sizes, waiting_.count().n_tokens, used);
  const size_t tokens = std::min(worker.sizing.tokens, ceiling_.tokens());
  if (tokens == 0) return false;
  worker.taken.clear();
  waiting_.take(tokens, context_size_ - used, worker.taken);
  if (worker.taken.empty()) return false;  // the first text does not fit yet
  worker.pass.clear();
  worker.jobs.clear();
  Clock::time_point oldest = Clock::time_point::max();
  for (const WaitingText& text : worker.taken) {
    const std::shared_ptr<Job>& job = worker.jobs.emplace_back(jobs_.at(text.job));
    worker.pass.add(job->request.texts[text.index]);
    oldest = std::min(oldest, job->came);
  }
  count_passes(worker.jobs);
  worker.id = ++n_taken_;
  worker.n_tokens = worker.pass.n_tokens();
  BILLOW_CHECK(room_.reserve(worker.n_tokens));
  ++n_running_;
  n_active_texts_ += worker.taken.size();
  counts_.queue_wait_seconds.observe(std::chrono::duration<double>(Clock::now() - oldest).count());
  if (waiting_.count().n_texts > 0) work_.notify_one();
  return true;
}

// Counts one more pass for each job that has texts in it. Texts of one job may be apart in `jobs`.
void EmbedBatcher::count_passes(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const std::shared_ptr<Job>& job : jobs) {
    if (job->last_pass == n_taken_ + 1) continue;
    job->last_pass = n_taken_ + 1;
    if (job->n_passes++ == 0) ++n_begun_;
  }
}

// Writes a line without the mutex, because writing may take long.
void EmbedBatcher::log_sizing(Worker& worker, std::unique_lock<std::mutex>& lock) const {
  worker.logged = worker.sizing;
  lock.unlock();
  log::debug("Batch sizing: " + sizing_line(worker.logged, sizes_));
  lock.lock();
}

void EmbedBatcher::log_begin(Worker& worker) const {
  worker.logged = worker.sizing;
  log::debug("Batch sizing: " + sizing_line(worker.sizing, sizes_));
  log::debug(fmt::format("Batch {} starts: {} sequences, {} tokens", worker.id, worker.taken.size(),
                         worker.n_tokens));
}

void EmbedBatcher::run_pass(Worker& worker) {
  const Clock::time_point begin = Clock::now();
  log_begin(worker);
  if (options_.on_pass_begin) options_.on_pass_begin();
  const PassEvents events = {
      .on_begin =
          [&](size_t n_tokens) {
            const std::scoped_lock lock(mutex_);
            ++counts_.n_passes;
            const auto tokens = static_cast<double>(n_tokens);
            counts_.pass_tokens.observe(tokens);
            counts_.utilization_percent.observe(
                std::min(100.0, 100.0 * tokens / static_cast<double>(sizes_.n_batch)));
          },
      .on_retry =
          [&](size_t n_tokens) {
            const std::scoped_lock lock(mutex_);
            ++counts_.n_retries;
            counts_.retry_tokens.observe(static_cast<double>(n_tokens));
          },
      .is_wanted = [&](size_t i) { return !worker.jobs[i]->is_cancelled.load(); }};
  const PassEnd end = worker.pass.run(worker.model, options_.max_attempts, events);
  const std::chrono::duration<double> taken = Clock::now() - begin;
  if (options_.on_pass_end) options_.on_pass_end({worker.taken.size(), worker.n_tokens, taken});
  const MemoryUse memory = worker.model.memory();
  std::unique_lock lock(mutex_);
  worker.memory = memory;
  counts_.pass_seconds.observe(taken.count());
  const size_t n_texts = worker.taken.size();
  settle(worker, end);
  const EmbedLoad now = load();
  lock.unlock();
  log::debug(
      fmt::format("Batch {} ended: {} sequences, {} tokens in {:.1f} ms; active batches: {} "
                  "({} tokens)",
                  worker.id, n_texts, worker.n_tokens, taken.count() * 1e3, now.n_running,
                  now.n_active_tokens));
}

void EmbedBatcher::settle(Worker& worker, const PassEnd& end) {
  counts_.n_nan_outputs += worker.pass.n_nan();
  for (size_t i = 0; i < worker.taken.size(); ++i) {
    Job& job = *worker.jobs[i];
    EmbedAnswer answer = worker.pass.take_answer(i);
    if (!answer.values.empty()) ++counts_.n_vectors;
    if (answer.status == EmbedPass::kNoMemoryStatus) ++counts_.n_failed_memory;
    if (answer.status == EmbedPass::kFailedStatus) ++counts_.n_failed_model;
    if (job.is_cancelled) continue;
    job.answers.texts[worker.taken[i].index] = std::move(answer);
    if (--job.n_left > 0) continue;
    finish(job);
  }
  n_finished_ += worker.taken.size();
  n_active_texts_ -= worker.taken.size();
  worker.jobs.clear();
  room_.release(worker.n_tokens);
  --n_running_;
  note(end);
  wake();
  if (is_idle()) idle_.notify_all();
}

void EmbedBatcher::note(const PassEnd& end) {
  if (end.was_retried) ceiling_.retried(end.n_good_tokens);
  if (!end.lacked_memory && end.failure.empty()) ceiling_.clean();
  n_failures_ = end.failure.empty() ? 0 : n_failures_ + 1;
  if (!end.failure.empty()) failure_ = end.failure;
  if (n_failures_ == kFailuresToTell) log::warn("embedding: " + failure_);
}

void EmbedBatcher::apply_budget(Worker& worker, std::unique_lock<std::mutex>& lock) {
  const uint64_t budget = budget_;
  const uint64_t version = budget_version_;
  lock.unlock();
  worker.model.set_memory_budget(budget);
  const MemoryUse memory = worker.model.memory();
  lock.lock();
  worker.memory = memory;
  worker.budget_version = version;
}

void EmbedBatcher::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
}

bool EmbedBatcher::wait_until_idle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, limit, [this] { return is_idle(); });
}

void EmbedBatcher::set_context_size(size_t n) {
  const size_t min = std::max(sizes_.n_batch, text_limit(sizes_, info().max_tokens));
  if (n < min)
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("context_size {} is below the max tokens of a pass: {}", n, min));
  const std::scoped_lock lock(mutex_);
  context_size_ = n;
  room_.set_max(n);
  work_.notify_all();
}

void EmbedBatcher::set_memory_budget(uint64_t bytes, uint64_t version) {
  const std::scoped_lock lock(mutex_);
  budget_ = bytes;
  budget_version_ = version;
  work_.notify_all();
}

EmbedLoad EmbedBatcher::load() const {
  return {.n_pending_texts = waiting_.count().n_texts,
          .n_pending_tokens = waiting_.count().n_tokens,
          .n_active_tokens = room_.used(),
          .n_running = n_running_,
          .n_requests_running = n_begun_,
          .n_requests_waiting = jobs_.size() - n_begun_,
          .n_max_passes = workers_.size()};
}

EmbedState EmbedBatcher::state() const {
  const std::scoped_lock lock(mutex_);
  EmbedState state = {.load = load(),
                      .counts = counts_,
                      .n_active_texts = n_active_texts_,
                      .n_finished = n_finished_,
                      .budget_version = budget_version_};
  if (n_failures_ >= kFailuresToTell) state.degraded = failure_;
  for (const auto& worker : workers_) {
    add_to(state.memory, worker->memory);
    state.budget_version = std::min(state.budget_version, worker->budget_version);
  }
  return state;
}

}  // namespace billow::engine
