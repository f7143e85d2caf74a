// Models split over several files, PREFIX-00001-of-00003.gguf and so on: the names, and the keys by
// which each file says which part of what it is. Pure functions; any thread.
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

// The path of file `number`, counted from 0, of a split.
std::string split_path(const std::string& prefix, uint64_t number, uint64_t count);

// The split keys of a file; throws Error when they are malformed.
SplitKeys read_split_keys(const Shard& shard, const std::string& path);

// The paths of the second and later files of the split whose first file is at `path`; empty when it
// is not split. Throws Error when `path` is another file of the split, or not named as a split is.
std::vector<std::string> sibling_paths(const SplitKeys& keys, const std::string& path);

}  // namespace billow::gguf
