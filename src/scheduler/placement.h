// Who gives way when a model needs memory or a place: a pure function of what the others hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/time.h"

namespace billow::scheduler {

// A loaded model, seen by one that needs room.
struct Holder {
  std::string_view key;
  Duration session{};
  uint64_t granted_bytes = 0;    // free when it is unloaded
  uint64_t idle_bytes = 0;       // part of them that it can do without while it stays loaded
  bool is_idle = false;          // nothing runs on it
  bool is_draining = false;      // was waited for already
  bool takes_the_place = false;  // it counts against the same number of loaded models
};

struct Room {
  struct Ask {
    size_t holder = 0;
    uint64_t bytes = 0;  // to give back, at most its idle bytes
    bool operator==(const Ask&) const = default;
  };
  std::vector<Ask> asks;
  std::vector<size_t> unloads;    // idle ones, in order
  std::vector<size_t> waits_for;  // busy ones: to be unloaded when they are idle
};

// What has to happen before `n_bytes` and `n_places` more are free. Idle memory is asked back
// before a model is unloaded; idle models go before busy ones, those of shorter sessions first,
// then by key. As many as needed, all of them if that is still too little.
Room make_room(std::span<const Holder> holders, uint64_t n_bytes, size_t n_places);

}  // namespace billow::scheduler
