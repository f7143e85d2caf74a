// What the program counts and measures, in Prometheus' text form. The names are an interface and
// never change. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace billow::metrics {

// What is true at the moment of a scrape, asked of those who know it.
struct Load {
  size_t n_waiting = 0;  // requests not yet in a batch, in all queues
  size_t n_running = 0;
  double backlog_seconds = 0.0;
  double busy_ratio = 0.0;  // of the last 10 s
  double kv_used_ratio = 0.0;
  double kv_parked_ratio = 0.0;
  size_t n_kv_blocks = 0;  // that the budget has room for
  size_t embed_pending_tokens = 0;
  bool ready = false;
  bool draining = false;
  struct ModelLoad {
    std::string name;
    bool is_loaded = false;  // else it is being loaded, or waited for
    size_t n_running = 0;
    size_t n_waiting = 0;
    uint64_t held_bytes = 0;
  };
  std::vector<ModelLoad> models;
};

class Metrics {
 public:
  // `isa`: the kernel table that runners use, as far as it is known.
  Metrics(const std::string& version, const std::string& isa);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  using Duration = std::chrono::nanoseconds;
  void request(std::string_view model, std::string_view route, int status, Duration duration);
  void first_token(std::string_view model, std::string_view route, Duration duration);
  void queued(std::string_view model, std::string_view route, Duration duration);
  void tokens(std::string_view model, size_t n_prompt, size_t n_cached, size_t n_generated);
  void model_load(std::string_view model, std::string_view reason);

  // Everything; and the short form of at most 20 lines without labels of models, for those who
  // choose among hosts many times a second. `vllm_names`: also under the names that vLLM has.
  std::string text(const Load& load, bool vllm_names) const;
  std::string load_text(const Load& load, bool vllm_names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace billow::metrics
