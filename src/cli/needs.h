// What a model's file needs that Billow lacks, and what runs the file all the same. Pure but for
// reading the file; one thread alone may read the file meanwhile.
#pragma once

#include <string>
#include <vector>

#include "gguf/file.h"

namespace billow::cli {

// Tensors of one weight format.
struct TensorGroup {
  std::string type;
  std::vector<std::string> names;  // in the order of the file
};

struct FileNeeds {
  bool runs = false;                     // it can be loaded, memory permitting
  std::string reason;                    // why not, as loading says it, without the path
  std::string architecture;              // of the file; empty: the file does not say
  bool knows_architecture = false;       // whether Billow has it
  std::vector<TensorGroup> unsupported;  // weight formats that Billow does not compute with
  std::vector<std::string> unread;       // of a file that runs: tensors that the model does not use
  // Where a tensor is missing: those that all models have, and those that other blocks of this one
  // have.
  std::vector<std::string> missing;
  std::string vocabulary;         // why the vocabulary cannot be read; empty: it can
  std::vector<std::string> ways;  // to run the file all the same, a sentence each

  // Whether there is nothing to tell.
  bool none() const noexcept { return runs && unread.empty(); }
};

// Never throws Error: whatever loading refuses is part of the answer.
FileNeeds needs_of(const gguf::File& file);

}  // namespace billow::cli
