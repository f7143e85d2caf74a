#include "metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace billow::metrics {
namespace {

std::string content(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Parses the number after `n` fields, each followed by a blank.
std::optional<uint64_t> field(std::string_view text, size_t n) {
  for (; n > 0; --n) {
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    text.remove_prefix(blank + 1);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> resident_bytes() {
  const std::optional<uint64_t> pages = field(content("/proc/self/statm"), 1);
  if (!pages) return std::nullopt;
  return *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<size_t> open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  size_t n = 0;
  for (auto file = begin(files); !error && file != end(files); file.increment(error)) ++n;
  return n - 1;  // without the descriptor of the folder itself
}

// The start time never changes, so that it is read only once.
std::optional<double> start_seconds() {
  const std::string stat = content("/proc/self/stat");
  const size_t name_end = stat.rfind(") ");  // the name may contain any characters
  const std::string system = content("/proc/stat");
  const size_t boot = system.find("\nbtime ");
  if (name_end == std::string::npos || boot == std::string::npos) return std::nullopt;
  constexpr size_t kFieldsBefore = 19;  // fields between the name and the start time
  const auto ticks = field(std::string_view(stat).substr(name_end + 2), kFieldsBefore);
  const auto boot_seconds = field(std::string_view(system).substr(boot + 1), 1);
  if (!ticks || !boot_seconds) return std::nullopt;
  return static_cast<double>(*boot_seconds) +
         static_cast<double>(*ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

ProcessFigures process_figures() {
  static const std::optional<double> start = start_seconds();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {resident_bytes(), open_files(), start,
          seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)};
}

}  // namespace billow::metrics
