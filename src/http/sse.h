// Writes and reads server-sent events as the HTML standard defines them. The reader takes the
// stream in pieces. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "http/lines.h"

namespace billow::http {

// Returns one event, "event: NAME\ndata: ...\n\n". If `event` is empty, leaves out the first line.
// Each line of `data` gets its own "data:" line.
std::string sse_event(std::string_view data, std::string_view event = {});

struct SseEvent {
  std::string event;  // "" if the stream gives no name
  std::string data;   // the data lines, joined by "\n"
  std::string id;     // the latest id of the stream
};

class SseReader {
 public:
  using OnEvent = std::function<void(const SseEvent& event)>;

  // Lines or data of more than `max_bytes` bytes are an error.
  explicit SseReader(size_t max_bytes)
      : max_bytes_(max_bytes), lines_(max_bytes, LineSplitter::Ends::kAnyOfTheWeb) {}

  // Takes the next piece of the stream and calls on_event for each complete event. An event that is
  // incomplete at the end of the stream is dropped, as the standard requires. Throws Error
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
