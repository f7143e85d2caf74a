// The slots of llama-server: a number from 0 on that a client gives to a conversation. A slot is
// the latest text of its requests, as tokens. It has no memory of its own: the KV of all texts is
// in the prefix cache of the model's runner. Each runner has its own slots. A slot is independent
// of the runner's life: it keeps its text after the model was unloaded. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/runner.h"

namespace billow::api {

struct SlotText {
  scheduler::CachedText text{};
  bool has_images = false;  // the tokens are only a part of the text
};

class Slots {
 public:
  // Models and salts with slots; the least recently used ones lose theirs.
  static constexpr size_t kMaxModels = 64;

  // `n_slots` is the number of slots of each runner.
  explicit Slots(size_t n_slots) : n_slots_(n_slots) {}

  size_t size() const noexcept { return n_slots_; }

  // The use of a slot by one request, until the destructor runs.
  class Use {
   public:
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    size_t id() const noexcept { return id_; }
    void set(SlotText text) { slots_.set(key_, id_, std::move(text)); }

   private:
    friend class Slots;
    Use(Slots& slots, std::string key, size_t id) : slots_(slots), key_(std::move(key)), id_(id) {}
    Slots& slots_;
    const std::string key_;
    const size_t id_;
  };

  // Begins a request with `prompt`. Without a wanted slot, takes a slot without a request if there
  // is one: the slot whose text has the longest common prefix with the prompt, if that is at least
  // a tenth of the prompt. Otherwise an empty slot, or the least recently used one. A wanted slot
  // may have other requests: then the last one to end decides about the text. Throws
  // http::StatusError (400) if the wanted slot does not exist. `key`: slot_key().
  Use begin(const std::string& key, std::optional<int64_t> wanted, std::span<const int32_t> prompt);

  // Throws http::StatusError (400) if there is no such slot.
  void check(int64_t id) const;
  SlotText text(const std::string& key, size_t id) const;  // empty if the slot was never used
  void set(const std::string& key, size_t id, SlotText text);

  struct State {
    bool is_busy = false;
    size_t n_tokens = 0;
  };
  std::vector<State> list(const std::string& key) const;  // [size()]

 private:
  struct Slot {
    SlotText held;
    size_t n_requests = 0;
    uint64_t last_use = 0;  // 0: never used
  };
  struct Model {
    std::string key;
    std::vector<Slot> slots;
  };
  // REQUIRES: `mutex_` is held.
  std::vector<Slot>& slots_of(const std::string& key);
  const Model* find(const std::string& key) const;

  const size_t n_slots_;
  mutable std::mutex mutex_;
  std::list<Model> models_;  // most recently used first
  uint64_t n_uses_ = 0;
};

}  // namespace billow::api
