// What names a request on its way through several programs: ids, and W3C's trace context. Pure but
// for the random bytes; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow::metrics {

// "[A-Za-z0-9._-]{1,128}"
bool is_request_id(std::string_view text) noexcept;
// 16 random bytes in hexadecimal digits.
std::string new_request_id();

// A header `traceparent` of W3C Trace Context: version-trace_id-parent_id-flags.
struct TraceParent {
  std::string trace_id;   // 32 hexadecimal digits, not all of them 0
  std::string parent_id;  // 16 of them
  bool sampled = false;
};
// nullopt if it is malformed. Versions to come may have more behind these fields.
std::optional<TraceParent> parse_traceparent(std::string_view text);

}  // namespace billow::metrics
