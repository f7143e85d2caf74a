// Request ids and W3C's trace context, which identify a request across programs. Pure except for
// random bytes; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace billow::metrics {

// Returns whether `text` matches "[A-Za-z0-9._-]{1,128}".
bool is_request_id(std::string_view text) noexcept;
// Returns 16 random bytes as hexadecimal digits.
std::string new_request_id();

// Length of version-trace_id-parent_id-flags: 2 + 1 + 32 + 1 + 16 + 1 + 2.
inline constexpr size_t kTraceParentBytes = 55;

// The `traceparent` header of W3C Trace Context: version-trace_id-parent_id-flags.
struct TraceParent {
  std::string trace_id;   // 32 hexadecimal digits, not all of them 0
  std::string parent_id;  // 16 hexadecimal digits, not all of them 0
  bool sampled = false;
};
// Returns nullopt if the text is malformed. Future versions may have more fields after these.
std::optional<TraceParent> parse_traceparent(std::string_view text);

}  // namespace billow::metrics
