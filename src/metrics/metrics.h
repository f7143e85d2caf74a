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

#include "base/figure.h"

namespace billow::metrics {

// The content type of the texts below.
inline constexpr std::string_view kTextType = "text/plain; version=0.0.4; charset=utf-8";

// Values that a label may have; whatever comes when there are so many is "other".
inline constexpr size_t kMaxLabelValues = 256;

// What is true at the moment of a scrape, asked of those who know it.
struct Load {
  size_t n_waiting = 0;  // requests not yet in a batch, in all queues
  size_t n_running = 0;
  double backlog_seconds = 0.0;
  double busy_ratio = 0.0;  // of the last 10 s
  double kv_used_ratio = 0.0;
  double kv_cached_ratio = 0.0;
  size_t n_kv_blocks = 0;  // that the budget has room for
  size_t embed_pending_tokens = 0;
  bool ready = false;
  bool draining = false;
  size_t n_max_models = 0;  // that may be loaded at once; 0: as many as memory holds
  struct ModelLoad {
    std::string name;
    std::vector<std::string> aliases{};  // other names that a client may send
    bool is_loaded = false;              // else it is being loaded, or waited for
    size_t n_running = 0;
    size_t n_waiting = 0;
    uint64_t held_bytes = 0;
    std::vector<Figure> figures{};  // that its runner counts
  };
  std::vector<ModelLoad> models{};
};

// `model` is the name, as shown, of a model that exists; empty for a request that names none or one
// that does not: what clients make up must not become a series. `route` is the pattern of a route,
// never a path, and empty where none matched.
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
  // A request's texts, or its conversation, have become tokens.
  void tokenized(std::string_view model, Duration duration);
  struct Tokens {
    size_t n_prompt = 0;
    size_t n_cached = 0;  // of the prompt: found evaluated
    size_t n_generated = 0;
    size_t n_drafted = 0;         // guessed and evaluated before they were chosen
    size_t n_draft_accepted = 0;  // of them, those that the answer has
  };
  void tokens(std::string_view model, const Tokens& tokens);
  // Tokens of all models so far.
  Tokens totals() const;
  void model_load(std::string_view model, std::string_view reason);

  // Everything. What the load tells by model has the label `model`, and what belongs to none of
  // them is model="": sums are totals.
  std::string text(const Load& load, bool vllm_names) const;
  // At most 20 series, totals without labels of models, for those who choose among hosts many times
  // a second; each with its TYPE, as a gauge without one is read as 0. `vllm_names`: also under the
  // names that vLLM has.
  std::string load_text(const Load& load, bool vllm_names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace billow::metrics
