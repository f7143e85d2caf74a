// The files of a model that is split: NAME-00001-of-00003.gguf and so on. Pure functions;
// thread-safe.
#pragma once

#include <string_view>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::store {

// Returns whether the file has the name of a file of a split.
bool is_part_of_split(std::string_view path);
// Returns NAME of NAME-00001-of-00003.gguf. REQUIRES: is_part_of_split(path).
std::string_view split_prefix(std::string_view path);
// Returns a writer of a split model as one file, without the keys about its parts. REQUIRES:
// `split` outlives the writer, which reads the tensors while it writes.
gguf::Writer joined_split(const gguf::File& split);

}  // namespace billow::store
