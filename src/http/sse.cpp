#include "http/sse.h"

#include "base/error.h"

namespace billow::http {

std::string sse_event(std::string_view data, std::string_view event) {
  std::string text;
  if (!event.empty()) text.append("event: ").append(event).append("\n");
  for (;;) {
    const size_t end = data.find_first_of("\r\n");
    text.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return text += '\n';
}

void SseReader::feed(std::string_view piece, const OnEvent& on_event) {
  lines_.feed(piece, [&](std::string_view line) { take_line(line, on_event); });
}

void SseReader::take_line(std::string_view line, const OnEvent& on_event) {
  if (at_start_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) on_event(event_);
    event_.event.clear();
    event_.data.clear();
    has_data_ = false;
    return;
  }
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") {
    event_.event = value;
  } else if (name == "data") {
    if (event_.data.size() + (has_data_ ? 1 : 0) + value.size() > max_bytes_) {
      throw Error(ErrorCode::kTooLarge,
                  "an event of the stream has more than " + std::to_string(max_bytes_) + " bytes");
    }
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
  }
}

}  // namespace billow::http
