// Makes a quantised GGUF file from another GGUF file, as llama-quantize does: the same types, the
// same bytes. plan() checks everything except the numbers of the tensors before the first write.
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
  // The caller need not set has_importance: `importance` decides it.
  MixtureOptions mixture;
  const Importance* importance = nullptr;  // null: none; must outlive the plan
  std::string importance_file;             // its path, for the metadata of the new file
};

// The decisions for a file, and the sizes of the source and the result.
struct Plan {
  std::vector<Decision> decisions;  // the tensors in the order of the new file
  uint64_t source_bytes = 0;        // of all tensors' data
  uint64_t target_bytes = 0;
};

// Plans the new file. Throws Error with a one-line message if the file cannot be made.
Plan plan(const gguf::File& file, const Options& options);

// Callbacks for progress. Each may be empty. All run on the thread that calls quantize(). An
// exception from a callback ends the work.
struct Listener {
  std::function<void(size_t index, const Decision& decision)> tensor;  // a tensor begins
  // Reports how many bytes of the source tensors are done.
  std::function<void(uint64_t n_done, uint64_t n_total)> progress;
};

// Passes the new file to `sink`, piece by piece. The bytes are the same for any number of threads.
// Memory use is a few megabytes per thread, or one row if a row is larger. REQUIRES: the plan is
// for this file and these options; n_threads >= 1. Throws Error if a tensor has numbers that are
// not finite, too large for its type, or infinite with its importance.
void quantize(const gguf::File& file, const Plan& plan, const Options& options, int n_threads,
              const Listener& listener, const gguf::Writer::Sink& sink);

}  // namespace billow::quantize
