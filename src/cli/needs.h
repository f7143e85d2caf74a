// Finds what a model file needs that Billow lacks, and which other programs run the file. No state
// except the file. No other thread may read the file at the same time.
#pragma once

#include <string>
#include <vector>

#include "gguf/file.h"

namespace billow::cli {

// The tensors of one weight format.
struct TensorGroup {
  std::string type;
  std::vector<std::string> names;  // in file order
};

struct FileNeeds {
  bool runs = false;                     // the model can be loaded if memory suffices
  std::string reason;                    // the error of loading, without the path
  std::string architecture;              // empty: the file does not name it
  bool knows_architecture = false;       // whether Billow supports the architecture
  std::vector<TensorGroup> unsupported;  // weight formats that Billow does not support
  std::vector<std::string> unread;       // if runs: tensors that the model does not use
  // If a tensor is missing: missing tensors among those that all models have, and among those that
  // other blocks of this model have.
  std::vector<std::string> missing;
  std::string vocabulary;         // why the vocabulary cannot be read; empty: no error
  std::vector<std::string> ways;  // ways to use the file with other programs, one sentence each

  // Returns whether there is nothing to report.
  bool none() const noexcept { return runs && unread.empty(); }
};

// Returns the needs of a file. Never throws Error: an error of loading becomes part of the result.
FileNeeds needs_of(const gguf::File& file);

}  // namespace billow::cli
