// Parses any bytes as the output of a model. The first byte selects the format. The second byte
// selects the start and the options, and the third byte the length of the pieces. The rest is the
// answer. The events do not depend on the pieces. Calls do not overlap, and each has its own
// number, also after a call without an end. If calls are whole, their arguments are JSON objects.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "output/parser.h"

namespace {

using namespace billow;
using output::Event;
using output::EventKind;

std::vector<output::Tool> tools() {
  return {{"run", R"({"properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}})"},
          {"ping", ""}};
}

// Returns the events. Joins adjacent events of the same kind.
std::vector<Event> events_of(const output::Format& format, const output::Start& start,
                             const output::Options& options, std::string_view text, size_t n_piece,
                             output::FinishReason reason) {
  output::Parser parser(format, start, tools(), options);
  std::vector<Event> events;
  for (size_t at = 0; at < text.size(); at += n_piece)
    parser.add(text.substr(at, n_piece), {}, events);
  parser.finish(reason, events);
  std::vector<Event> joined;
  for (Event& event : events) {
    const bool joins = !joined.empty() && joined.back().kind == event.kind &&
                       event.kind != EventKind::kCallBegin && event.kind != EventKind::kCallEnd;
    if (joins)
      joined.back().text += event.text;
    else
      joined.push_back(std::move(event));
  }
  return joined;
}

void check_calls(const std::vector<Event>& events, bool is_whole) {
  size_t n_calls = 0;
  bool is_open = false;
  std::string arguments;
  for (const Event& event : events) {
    if (event.kind == EventKind::kCallBegin) {
      if (is_open) ++n_calls;  // the last call has no end
      BILLOW_CHECK(event.call == n_calls && !event.text.empty());
      is_open = true;
      arguments.clear();
    }
    if (event.kind == EventKind::kCallArguments) {
      BILLOW_CHECK(is_open && event.call == n_calls);
      arguments += event.text;
    }
    if (event.kind == EventKind::kCallEnd) {
      BILLOW_CHECK(is_open && event.call == n_calls++);
      BILLOW_CHECK(!is_whole || Json::parse(arguments, nullptr, false).is_object());
      is_open = false;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto formats = output::all_formats();
  const output::Format& format = formats[data[0] % formats.size()];
  const output::Start start{static_cast<output::StartState>(data[1] % 4), {}};
  const output::Options options{.whole_calls = (data[1] & 4U) != 0, .thinks = (data[1] & 8U) == 0};
  const auto reason =
      (data[1] & 16U) == 0 ? output::FinishReason::kStop : output::FinishReason::kLength;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto events = [&](size_t n) { return events_of(format, start, options, text, n, reason); };
  const std::vector<Event> wanted = events(text.size() + 1);
  BILLOW_CHECK(events(size_t{data[2]} % 32 + 1) == wanted);
  check_calls(wanted, options.whole_calls);
  return 0;
}
