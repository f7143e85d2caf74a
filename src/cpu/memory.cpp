#include "cpu/memory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>

#include "cpu/cgroup.h"

namespace billow::cpu {
namespace {

constexpr size_t kNoLimit = SIZE_MAX;

// Returns the number at the beginning of `text`.
size_t number_at(std::string_view text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : kNoLimit;
}

}  // namespace

size_t memory_of_meminfo(const std::string& meminfo, std::string_view name) {
  const std::string key = std::string(name).append(":");
  const size_t at = meminfo.find(key);
  if (at == std::string::npos) return kNoLimit;
  const size_t digits = meminfo.find_first_not_of(' ', at + key.size());
  if (digits == std::string::npos) return kNoLimit;
  const size_t n_kib = number_at(std::string_view(meminfo).substr(digits));
  return n_kib > kNoLimit / 1024 ? kNoLimit : n_kib * 1024;
}

size_t memory_of_limit(const std::string& line) { return number_at(line); }

size_t usable_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  const std::string meminfo{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  size_t n = memory_of_meminfo(meminfo, "MemTotal");
  if (first_line(root + "/proc/sys/vm/overcommit_memory") == "2")
    n = std::min(n, memory_of_meminfo(meminfo, "CommitLimit"));
  for (const std::string& line : group_lines(root, "", "memory.max"))
    n = std::min(n, memory_of_limit(line));
  for (const std::string& line : group_lines(root, "memory", "memory.limit_in_bytes"))
    n = std::min(n, memory_of_limit(line));
  return n;
}

}  // namespace billow::cpu
