// Memory figures of this process, for tests.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace billow::kv {

// Returns the bytes of a line of /proc/self/status, like "VmRSS" or "RssAnon"; 0 if there is no
// such line.
inline size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoul(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// True if memory counts as resident from its first write until it is freed.
#if defined(__SANITIZE_THREAD__)  // GCC defines this
inline constexpr bool kMemoryIsOurs = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)  // Clang has this
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif
#else
inline constexpr bool kMemoryIsOurs = true;
#endif
inline constexpr const char* kWhyNotOurs =
    "the thread sanitizer needs additional memory for every write";

}  // namespace billow::kv
