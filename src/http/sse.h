// Server-sent events, as the HTML standard defines their stream: written, and read piece by piece.
// One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "http/lines.h"

namespace billow::http {

// One event of the stream: "event: NAME\ndata: ...\n\n", without the first line where `event` is
// empty. Each line of `data` gets a line of its own.
std::string sse_event(std::string_view data, std::string_view event = {});

struct SseEvent {
  std::string event;  // "" where the stream names none
  std::string data;   // its lines joined by "\n"
  std::string id;     // the last one that the stream named
};

class SseReader {
 public:
  using OnEvent = std::function<void(const SseEvent& event)>;

  // Events whose lines or data have more than `max_bytes` bytes are refused.
  explicit SseReader(size_t max_bytes)
      : max_bytes_(max_bytes), lines_(max_bytes, LineSplitter::Ends::kAnyOfTheWeb) {}

  // Takes the next piece of the stream and calls on_event with each event that is complete now. An
  // event that the stream breaks off is dropped, as the standard wants it. Throws Error
  // (kTooLarge).
  void feed(std::string_view piece, const OnEvent& on_event);

 private:
  void take_line(std::string_view line, const OnEvent& on_event);

  size_t max_bytes_;
  LineSplitter lines_;
  SseEvent event_;
  bool has_data_ = false;
  bool at_start_ = true;
};

}  // namespace billow::http
