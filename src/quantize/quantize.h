// Makes a quantised GGUF file of another one, as llama-quantize does: the same types, the same
// bytes. Everything that can be refused is refused before the first byte is written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "quantize/importance.h"
#include "quantize/mixture.h"

namespace billow::quantize {

struct Options {
  // has_importance need not be set: it follows from the next.
  MixtureOptions mixture;
  const Importance* importance = nullptr;  // null: none; lives as long as the plan
  std::string importance_file;             // where it is from, for the new file's metadata
};

// What is to be done, and how large the result is.
struct Plan {
  std::vector<Decision> decisions;  // the tensors of the new file, in order
  uint64_t source_bytes = 0;        // of all tensors' data
  uint64_t target_bytes = 0;
};

// Throws Error in one line where the file cannot be made.
Plan plan(const gguf::File& file, const Options& options);

// What happens; each may be empty, and all run on the thread that calls quantize(). What one throws
// ends the work.
struct Listener {
  std::function<void(size_t index, const Decision& decision)> tensor;  // it begins
  // Bytes of the sources.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress;
};

// Hands the new file to `sink`, piece after piece; the bytes are the same for any number of
// threads. Memory is bounded by a few megabytes a thread, or by a row. REQUIRES: the plan is of
// this file and these options; n_threads >= 1. Throws Error where a tensor has numbers that are not
// finite, or too large for its type.
void quantize(const gguf::File& file, const Plan& plan, const Options& options, int n_threads,
              const Listener& listener, const gguf::Writer::Sink& sink);

}  // namespace billow::quantize
