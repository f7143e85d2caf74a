// Draws traces for a terminal: a line per span with a bar for its time, and a table of traces. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace billow::metrics {

struct WaterfallOptions {
  size_t n_columns = 80;  // width of the terminal; at least kMinColumns is used
  bool colour = false;
};
inline constexpr size_t kMinColumns = 40;
inline constexpr size_t kMaxColumns = 400;
inline constexpr size_t kMaxAlike = 3;  // max spans of one name that get a line each

// Draws a trace from the JSON of Trace::to_json. Returns lines of UTF-8 that fit the terminal. If
// more than kMaxAlike spans have the same name, they share a line ("prefill x 7") with the
// sums of their times, tokens and bytes. Throws Error (kInvalidInput) for any other text.
std::string waterfall(std::string_view trace_json, const WaterfallOptions& options = {});

// Draws a table with a line per trace from the JSON of TraceStore::list. Throws Error
// (kInvalidInput) for any other text.
std::string trace_table(std::string_view list_json);

// Formats a duration with three digits and a unit: "950 ns", "1.24 ms", "59.9 s", "2m05s", "3h07m".
std::string duration_text(int64_t nanoseconds);

}  // namespace billow::metrics
