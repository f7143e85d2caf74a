// The files of downloads that have not ended, in the folder of blobs. registry/part_files.h writes
// these files. Their names are those of Ollama's programs, which can resume the downloads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/digest.h"
#include "store/folder.h"

namespace billow::store {

// Follow the file name of the blob.
inline constexpr std::string_view kPartialSuffix = "-partial";   // the bytes at their places
inline constexpr std::string_view kRecordSuffix = "-partial-";   // and N: the state of part N
inline constexpr std::string_view kWritingSuffix = "-writing-";  // and N: that, before its rename

struct PartialDownload {
  Digest digest;
  std::string bytes_path;           // the file with the bytes, which its writer locks
  std::vector<std::string> others;  // paths of all other files
  bool has_bytes = false;           // whether the file with the bytes exists
  Time modified;                    // of the newest file
  uint64_t n_bytes = 0;             // that the files use on the disk
};

// Returns all of a folder, sorted by digest. Returns none if the folder cannot be read.
std::vector<PartialDownload> partial_downloads(const std::string& folder);

}  // namespace billow::store
