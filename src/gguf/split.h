// Models that are split into several files: PREFIX-00001-of-00003.gguf and so on. Computes
// their names, and reads the keys that say which part a file is. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/shard.h"

namespace billow::gguf {

struct SplitKeys {
  uint64_t number = 0;                // counted from 0
  uint64_t count = 1;                 // 1: not split
  std::optional<uint64_t> n_tensors;  // of all files together
};

// Returns the path of file `number`, counted from 0, of a split.
std::string split_path(const std::string& prefix, uint64_t number, uint64_t count);

// Returns the split keys of a file. Throws Error if they are malformed.
SplitKeys read_split_keys(const Shard& shard, const std::string& path);

// Returns the paths of the second and later files of a split whose first file is `path`. Empty if
// the model is not split. Throws Error if `path` is another file of the split, or if its name is
// not that of a split's file.
std::vector<std::string> sibling_paths(const SplitKeys& keys, const std::string& path);

}  // namespace billow::gguf
