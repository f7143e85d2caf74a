#include "api/slots.h"

#include <algorithm>
#include <tuple>

#include "http/status.h"

namespace billow::api {
namespace {

// The part of a prompt that a slot's text must share, as one in this many.
constexpr size_t kSharedPart = 10;

size_t n_common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Slots::Use::~Use() {
  const std::scoped_lock lock(slots_.mutex_);
  size_t& n_requests = slots_.slots_of(key_)[id_].n_requests;
  if (n_requests > 0) --n_requests;  // 0: the slots were dropped meanwhile
}

std::vector<Slots::Slot>& Slots::slots_of(const std::string& key) {
  const auto at = std::ranges::find(models_, key, &Model::key);
  if (at != models_.end()) {
    models_.splice(models_.begin(), models_, at);
  } else {
    models_.push_front({key, std::vector<Slot>(n_slots_)});
    if (models_.size() > kMaxModels) models_.pop_back();
  }
  return models_.front().slots;
}

const Slots::Model* Slots::find(const std::string& key) const {
  const auto at = std::ranges::find(models_, key, &Model::key);
  return at == models_.end() ? nullptr : &*at;
}

void Slots::check(int64_t id) const {
  if (id >= 0 && std::cmp_less(id, n_slots_)) return;
  throw http::StatusError(400, "there is no slot " + std::to_string(id) +
                                   ": slots are numbered from 0 to " +
                                   std::to_string(n_slots_ - 1) + " (--parallel)");
}

Slots::Use Slots::begin(const std::string& key, std::optional<int64_t> wanted,
                        std::span<const int32_t> prompt) {
  if (wanted) check(*wanted);
  const std::scoped_lock lock(mutex_);
  std::vector<Slot>& slots = slots_of(key);
  auto id = static_cast<size_t>(wanted.value_or(0));
  if (!wanted) {
    // Free slots first, then long common prefixes, then unused and old ones.
    const auto rank = [&](const Slot& slot) {
      const size_t n_shared = n_common(slot.held.text.tokens, prompt);
      const bool is_alike = !slot.held.has_images && n_shared * kSharedPart >= prompt.size();
      return std::tuple(slot.n_requests > 0, ~(is_alike ? n_shared : 0), slot.last_use);
    };
    id = static_cast<size_t>(std::ranges::min_element(slots, {}, rank) - slots.begin());
  }
  ++slots[id].n_requests;
  slots[id].last_use = ++n_uses_;
  return {*this, key, id};
}

SlotText Slots::text(const std::string& key, size_t id) const {
  const std::scoped_lock lock(mutex_);
  const Model* model = find(key);
  return model == nullptr ? SlotText() : model->slots[id].held;
}

void Slots::set(const std::string& key, size_t id, SlotText text) {
  const std::scoped_lock lock(mutex_);
  Slot& slot = slots_of(key)[id];
  slot.held = std::move(text);
  slot.last_use = slot.held.text.tokens.empty() ? 0 : ++n_uses_;
}

std::vector<Slots::State> Slots::list(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  std::vector<State> states(n_slots_);
  const Model* model = find(key);
  for (size_t i = 0; model != nullptr && i < n_slots_; ++i)
    states[i] = {.is_busy = model->slots[i].n_requests > 0,
                 .n_tokens = model->slots[i].held.text.tokens.size()};
  return states;
}

}  // namespace billow::api
