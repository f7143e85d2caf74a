// The part of the engine loop that embeds texts.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runner/engine_loop.h"
#include "runner/shared_state.h"

namespace billow::runner {

using Clock = std::chrono::steady_clock;

std::optional<Vectors> EngineLoop::embed(std::vector<std::vector<int32_t>> texts,
                                         std::stop_token stop, engine::AdapterFiles adapters,
                                         engine::TextSender sender) {
  const auto job = std::make_shared<EmbedJob>();
  job->texts = std::move(texts);
  job->adapters = std::move(adapters);
  job->sender = std::move(sender);
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->broken) std::rethrow_exception(shared_->broken);
    if (shared_->stopping) return std::nullopt;
    shared_->new_embeds.push_back(job);
    ++shared_->n_running;
    shared_->notify();
  }
  const std::stop_callback cancel(std::move(stop), [this, &job] {
    const std::scoped_lock lock(shared_->mutex);
    job->cancelled = true;
    shared_->notify();
  });
  std::unique_lock lock(shared_->mutex);
  job->changed.wait(lock, [&] { return job->ended; });
  if (job->error) std::rethrow_exception(job->error);
  if (job->cancelled) return std::nullopt;
  return std::move(job->vectors);
}

void EngineLoop::take_embeds() {
  std::vector<std::shared_ptr<EmbedJob>> fresh;
  {
    const std::scoped_lock lock(shared_->mutex);
    fresh.swap(shared_->new_embeds);
    std::erase_if(jobs_, [this](const std::shared_ptr<EmbedJob>& job) {
      if (job->cancelled) end(*job);
      return job->ended;
    });
  }
  for (const std::shared_ptr<EmbedJob>& job : fresh) start(job);
}

void EngineLoop::start(const std::shared_ptr<EmbedJob>& job) {
  job->begun = Clock::now();
  job->vectors.size = engine_->model().n_embd;
  std::exception_ptr error;
  try {
    for (std::vector<int32_t>& text : job->texts)
      job->embeddings.push_back(engine_->embed(std::move(text), job->adapters, job->sender));
  } catch (...) {
    error = std::current_exception();
  }
  const std::scoped_lock lock(shared_->mutex);
  job->error = error;
  if (error || job->cancelled || job->embeddings.empty())
    end(*job);
  else
    jobs_.push_back(job);
}

// REQUIRES: the mutex of the shared state is held.
void EngineLoop::end(EmbedJob& job) {
  for (const auto& embedding : job.embeddings) engine_->cancel(*embedding);
  job.embeddings.clear();
  has_freed_ = true;
  job.vectors.time = Clock::now() - job.begun;
  job.ended = true;
  --shared_->n_running;
  job.changed.notify_one();
}

void EngineLoop::end_embeds() {
  const std::scoped_lock lock(shared_->mutex);
  std::erase_if(jobs_, [this](const std::shared_ptr<EmbedJob>& job) {
    auto& embeddings = job->embeddings;
    for (; !embeddings.empty() && embeddings.front()->finished(); embeddings.pop_front()) {
      const engine::Embedding& done = *embeddings.front();
      if (!done.error().empty())
        job->error = std::make_exception_ptr(Error(ErrorCode::kOutOfMemory, done.error()));
      std::ranges::copy(done.vector(), std::back_inserter(job->vectors.values));
      ++job->vectors.n;
    }
    if (job->error || embeddings.empty()) end(*job);
    return job->ended;
  });
}

}  // namespace billow::runner
