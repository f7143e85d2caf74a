// A request's trace drawn for a terminal: a line for each span, its bar where its time was; and the
// list of traces. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace billow::metrics {

struct WaterfallOptions {
  size_t n_columns = 80;  // of the terminal; less than kMinColumns is taken for that many
  bool colour = false;
};
inline constexpr size_t kMinColumns = 40;
inline constexpr size_t kMaxColumns = 400;
inline constexpr size_t kMaxAlike = 3;  // spans of one name that have a line each

// Lines of UTF-8 that are no wider than the terminal, for a trace as Trace::to_json gives it. More
// than kMaxAlike spans of a name share a line ("prefill x 7"), which tells the sum of their times
// and of their tokens and bytes. Throws Error (kInvalidInput) for any other text.
std::string waterfall(std::string_view trace_json, const WaterfallOptions& options = {});

// A table of the traces that TraceStore::list gives, a line for each. Throws Error (kInvalidInput)
// for any other text.
std::string trace_table(std::string_view list_json);

// Three digits and a unit: "950 ns", "1.24 ms", "59.9 s", "2m05s", "3h07m".
std::string duration_text(int64_t nanoseconds);

}  // namespace billow::metrics
