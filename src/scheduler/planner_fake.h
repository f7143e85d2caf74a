// For tests of the planner: reports events in one-line calls and returns the actions as texts. A
// model has 100 bytes of weights and 1 byte per position, unless a test sets other values.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "scheduler/planner.h"

namespace billow::scheduler {

using Words = std::vector<std::string>;

struct Asked {
  size_t n_context = 10;
  std::optional<Duration> keep_alive = std::nullopt;
  bool is_embedding = false;
  uint64_t weight_bytes = 100;
  uint64_t scratch_bytes = 0;
  std::string label{};
  uint64_t digest = 0;
  std::string tenant{};
  uint64_t work = 1;
  uint32_t weight = 1;
  bool is_bulk = false;
};

class Fake {
 public:
  explicit Fake(const Options& options) : planner(options) {}

  Words arrive(RequestId id, const std::string& key, const Asked& asked = {}) {
    Request request = {.id = id,
                       .key = key,
                       .name = "name-" + key,
                       .is_embedding = asked.is_embedding,
                       .cost = {asked.weight_bytes, asked.scratch_bytes, asked.n_context},
                       .keep_alive = asked.keep_alive,
                       .label = asked.label,
                       .digest = asked.digest,
                       .tenant = asked.tenant,
                       .work = asked.work,
                       .weight = asked.weight,
                       .is_bulk = asked.is_bulk};
    return words(planner.request_arrived(request, now));
  }
  Words cancel(RequestId id, std::optional<uint64_t> n_tokens = {}) {
    return words(planner.request_cancelled(id, now, n_tokens));
  }
  Words finish(RequestId id, std::optional<uint64_t> n_tokens = {}) {
    return words(planner.request_finished(id, now, n_tokens));
  }
  Words loaded(const std::string& key, uint64_t held_bytes = 100) {
    return words(planner.load_finished(key, held_bytes, now));
  }
  Words progress(const std::string& key, uint64_t n) {
    return words(planner.load_progressed(key, n, now));
  }
  Words load_failed(const std::string& key, const LoadFailure& failure) {
    return words(planner.load_failed(key, failure, now));
  }
  Words gone(const std::string& key, std::vector<RequestId> streamed = {}, bool by_signal = false) {
    return words(planner.runner_gone(key, {"signal 9", by_signal}, streamed, now));
  }
  // Reports with the version of the runner's latest budget.
  Words report(const std::string& key, uint64_t held, uint64_t cached, uint64_t wanted = 0,
               bool is_asking = false) {
    return words(
        planner.memory_changed(key, {version_of(key), held, cached, wanted, is_asking}, now));
  }
  Words keep_alive(const std::string& key, Duration duration) {
    return words(planner.keep_alive_changed(key, duration, now));
  }
  Words stop(const std::string& key) { return words(planner.stop(key, now)); }
  Words drain() { return words(planner.drain(now)); }
  Words after(Duration duration) {
    now += duration;
    return words(planner.time_passed(now));
  }
  // Loads a model without requests: ready and idle.
  void have(RequestId id, const std::string& key, const Asked& asked = {}) {
    arrive(id, key, asked);
    loaded(key, asked.weight_bytes);
    finish(id);
  }

  size_t n_loads(const std::string& key) const {
    size_t n = 0;
    for (const Action& action : log)
      n += action.kind == ActionKind::kStartLoad && action.key == key;
    return n;
  }
  size_t n_of(ActionKind kind) const {
    size_t n = 0;
    for (const Action& action : log) n += action.kind == kind;
    return n;
  }
  uint64_t version_of(const std::string& key) const {
    uint64_t version = 0;
    for (const Action& action : log)
      if (action.key == key && action.version != 0) version = action.version;
    return version;
  }
  // Returns the model with this key. Its phase is kAbsent if it has no runner.
  ModelSnapshot model(const std::string& key) const {
    for (const ModelSnapshot& model : planner.snapshot().models)
      if (model.key == key) return model;
    return {};
  }

  Planner planner;
  Time now{};
  Actions log;  // all actions so far

 private:
  Words words(const Actions& actions) {
    Words texts;
    for (const Action& action : actions) {
      log.push_back(action);
      texts.push_back(text_of(action));
    }
    return texts;
  }
  static std::string text_of(const Action& action) {
    const std::string id = std::to_string(action.request);
    const std::string bytes = std::to_string(action.bytes);
    const std::string response = id + " " + std::to_string(action.status) + " " + action.text;
    switch (action.kind) {
      case ActionKind::kStartLoad:
        return "load " + action.key + " " + bytes;
      case ActionKind::kAssign:
        return "assign " + id + " " + action.key;
      case ActionKind::kRefuse:
        return "refuse " + response;
      case ActionKind::kFail:
        return "fail " + response;
      case ActionKind::kRetry:
        return "retry " + id;
      case ActionKind::kSetBudget:
        return "budget " + action.key + " " + bytes +
               (action.ceiling == Budget::kNoCeiling
                    ? ""
                    : ", no more than " + std::to_string(action.ceiling));
      case ActionKind::kUnload:
        return "unload " + action.key;
    }
    return {};
  }
};

}  // namespace billow::scheduler
