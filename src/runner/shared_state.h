// What the engine's thread shares with those that want something of it. For engine_loop*.cpp alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "runner/engine_loop.h"
#include "runner/memory_budget.h"
#include "runner/meter.h"

namespace billow::runner {

// Texts to embed, for one thread that waits. The mutex of the shared state guards the job until the
// engine has taken it. From then on the mutex guards what the job's end tells.
struct EngineLoop::EmbedJob {
  std::vector<std::vector<int32_t>> texts;
  engine::AdapterFiles adapters;
  std::deque<std::shared_ptr<const engine::Embedding>> embeddings;  // that have not ended
  std::chrono::steady_clock::time_point begun;
  Vectors vectors;
  std::exception_ptr error;
  std::condition_variable changed;
  bool cancelled = false;
  bool ended = false;
};

struct PrefixQuestion {
  size_t n_max = 0;
  engine::AdapterFiles adapters;
  std::promise<std::vector<std::vector<int32_t>>> texts;
};

// The mutex guards all of it.
struct SharedState {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<std::shared_ptr<RequestStream>> waiting;
  std::vector<std::shared_ptr<EngineLoop::EmbedJob>> new_embeds;
  bool news = false;  // the loop has something to look at
  bool stopping = false;
  std::exception_ptr broken;
  std::optional<MemoryBudget> budget;  // to be set
  std::vector<PrefixQuestion> prefix_questions;
  // Answers and jobs to embed that the engine has taken and that have not ended.
  size_t n_running = 0;
  uint64_t budget_version = 0;
  engine::MemoryUse memory;
  Backlog backlog;  // of the answers among them
  Meter meter{std::chrono::steady_clock::now()};
  size_t n_readable = 0;  // unread bytes from which text does not wait for more
  std::chrono::milliseconds stream_interval{0};

  void notify() {
    news = true;
    work.notify_one();
  }
};

}  // namespace billow::runner
