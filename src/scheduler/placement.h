// Decides which models free memory or are unloaded when another model needs room. A pure
// function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/time.h"

namespace billow::scheduler {

// A loaded model, from the view of the model that needs room.
struct Holder {
  std::string_view key;
  Duration session{};
  uint64_t granted_bytes = 0;  // freed by an unload
  uint64_t idle_bytes =
      0;                 // part of granted_bytes that the model does not need while it stays loaded
  bool is_idle = false;  // no request runs on it
  bool is_draining = false;      // another model already waits for it
  bool takes_the_place = false;  // both models count towards the same limit of loaded models
};

struct Room {
  struct Ask {
    size_t holder = 0;
    uint64_t bytes = 0;  // to free, at most its idle bytes
    bool operator==(const Ask&) const = default;
  };
  std::vector<Ask> asks;
  std::vector<size_t> unloads;    // idle models, in order
  std::vector<size_t> waits_for;  // busy models: unload them when they become idle
};

// Returns the steps that free n_bytes and n_places. Takes idle memory before it unloads a model.
// Unloads idle models before busy models, then draining models first, then shorter sessions, then
// by key. Takes as many steps as needed, or all if that is still too little.
Room make_room(std::span<const Holder> holders, uint64_t n_bytes, size_t n_places);

}  // namespace billow::scheduler
