// What the system says of this process's memory, for tests.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace billow::kv {

// Bytes of a line of /proc/self/status, like "VmRSS" or "RssAnon"; 0 where it is not there.
inline size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoul(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// Memory counts as resident when it is written, and no longer when it is given back.
#if defined(__SANITIZE_THREAD__)  // GCC says so
inline constexpr bool kMemoryIsOurs = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)  // and so does Clang
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif
#else
inline constexpr bool kMemoryIsOurs = true;
#endif
inline constexpr const char* kWhyNotOurs =
    "the thread sanitizer keeps memory of its own for what was written";

}  // namespace billow::kv
