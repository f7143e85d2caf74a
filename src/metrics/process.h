// Metrics of this process, as reported by the system. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace billow::metrics {

// A field is nullopt if the system does not report it.
struct ProcessFigures {
  std::optional<uint64_t> resident_bytes;
  std::optional<size_t> n_open_files;
  std::optional<double> start_seconds;  // since 1970
  double cpu_seconds = 0.0;             // of all threads
};

ProcessFigures process_figures();

}  // namespace billow::metrics
