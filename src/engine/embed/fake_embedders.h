// A batcher over fake models for tests, and waiting functions for its tests.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "engine/embed/batcher.h"
#include "engine/embed/fake_model.h"

namespace billow::engine {

struct FakeEmbedders {
  explicit FakeEmbedders(EmbedBatcherOptions options, size_t n_models = 1,
                         size_t max_tokens = 8192) {
    std::vector<std::unique_ptr<EmbedModel>> models;
    for (size_t i = 0; i < n_models; ++i)
      models.push_back(std::make_unique<FakeEmbedModel>(world, max_tokens));
    batcher = std::make_unique<EmbedBatcher>(std::move(models), std::move(options));
  }

  // Waits until n texts are queued.
  void wait_for_pending(size_t n) const {
    for (int i = 0; i < 60'000 && batcher->state().load.n_pending_texts != n; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (batcher->state().load.n_pending_texts != n)
      throw std::runtime_error("the expected number of texts is not queued");
  }
  // MT-4, P-6: waits until the batcher is idle. Returns whether all counters of current work are 0
  // and no text was lost.
  bool is_clean() const {
    if (!batcher->wait_until_idle(std::chrono::milliseconds(60'000))) return false;
    const EmbedState state = batcher->state();
    const EmbedLoad& load = state.load;
    const size_t n_left = load.n_pending_texts + load.n_pending_tokens + load.n_active_tokens +
                          load.n_running + load.n_requests_running + load.n_requests_waiting +
                          state.n_active_texts;
    return n_left == 0 && state.counts.n_accepted == state.n_finished + state.counts.n_dropped;
  }

  std::shared_ptr<FakeWorld> world = std::make_shared<FakeWorld>();
  std::unique_ptr<EmbedBatcher> batcher;
};

}  // namespace billow::engine
