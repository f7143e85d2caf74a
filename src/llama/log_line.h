// Parses lines of llama-server's log. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::llama {

enum class LogLevel : uint8_t { kDebug, kWarning, kError };

struct LogLine {
  LogLevel level = LogLevel::kDebug;
  std::string text;  // without time and level
};

// Parses a line. "0.00.004.113 E load_model: failed" is an error with the text "load_model:
// failed".
LogLine parse_log_line(std::string_view line);

enum class BufferKind : uint8_t { kNone, kWeights, kKv, kScratch };

// A line such as "llama_kv_cache: CPU KV buffer size = 45.00 MiB". kNone: another kind of line.
struct BufferLine {
  BufferKind kind = BufferKind::kNone;
  std::string device;  // "CPU", "CPU_Mapped", "CUDA0"
  uint64_t bytes = 0;
};
BufferLine parse_buffer_line(std::string_view text);

}  // namespace billow::llama
