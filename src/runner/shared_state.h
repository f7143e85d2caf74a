// State that the engine's thread shares with its clients. For engine_loop*.cpp only.
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

// Texts to embed, for one waiting thread. Until the engine takes the job, the shared state's mutex
// guards the job. Then the mutex guards only `cancelled` and the fields that the job's end sets.
struct EngineLoop::EmbedJob {
  std::vector<std::vector<int32_t>> texts;
  engine::AdapterFiles adapters;
  engine::TextSender sender;
  std::deque<std::shared_ptr<const engine::Embedding>> embeddings;  // not finished yet
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
  std::promise<std::vector<kv::KnownText>> texts;
};

struct TextQuestion {
  TextAction action = TextAction::kSave;
  std::vector<int32_t> tokens;
  engine::AdapterFiles adapters;
  uint64_t salt = 0;
  std::promise<kv::TextKv> kv;
};

// The mutex guards all members.
struct SharedState {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<std::shared_ptr<RequestStream>> waiting;
  std::vector<std::shared_ptr<EngineLoop::EmbedJob>> new_embeds;
  bool news = false;  // the loop must look at the shared state
  bool stopping = false;
  std::exception_ptr broken;
  std::optional<MemoryBudget> budget;  // a new budget for the next pass
  std::vector<PrefixQuestion> prefix_questions;
  std::vector<TextQuestion> text_questions;
  // Streams and embedding jobs that the engine has started and that have not ended.
  size_t n_running = 0;
  uint64_t budget_version = 0;
  engine::MemoryUse memory;
  Backlog backlog;  // of the running streams
  Meter meter{std::chrono::steady_clock::now()};
  size_t n_readable = 0;  // text with this many unread bytes wakes the reader
  std::chrono::milliseconds stream_interval{0};

  void notify() {
    news = true;
    work.notify_one();
  }
};

}  // namespace billow::runner
