// The files of a running download, next to the blobs of a store. Their names and contents are those
// of Ollama's programs: sha256-HEX-partial has the bytes at their places, and sha256-HEX-partial-N
// records how much of part N is stored. Either program can resume the other's download. Not
// thread-safe, except that several threads may call write() and save() for different parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "registry/parts.h"
#include "store/digest.h"

namespace billow::registry {

// Locks an open file against other programs, without waiting. Returns 0 or an errno value.
using LockFile = std::function<int(int fd)>;
int lock_file(int fd) noexcept;

class PartFiles {
 public:
  // Opens or creates the files of a blob of `n_bytes` in `folder`. Resumes if the existing files
  // match, otherwise starts over. Waits while another program or PartFiles has the files locked.
  // If the file system has no locks, goes on without a lock and logs a warning once. Throws Error
  // that names the file, also if `stop` is set during the wait. Then no files without bytes stay.
  PartFiles(const std::string& folder, const store::Digest& digest, uint64_t n_bytes,
            PartSizes sizes = {}, const std::stop_token& stop = {},
            const LockFile& lock = lock_file);
  ~PartFiles();
  PartFiles(const PartFiles&) = delete;
  PartFiles& operator=(const PartFiles&) = delete;

  const std::string& path() const noexcept { return path_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }

  // Appends bytes to a part. The part's record file is updated after some MB. Throws Error
  // (kInvalidInput) if the part has no room for the bytes, kIo if the disk is full.
  void write(size_t index, std::span<const char> bytes);
  // Updates the record file of a part. Called when the download of the part pauses or ends.
  void save(size_t index);

  // Starts writing bytes first .. end - 1 to the disk, so that commit() waits less. Thread-safe.
  void begin_flush(uint64_t first, uint64_t end) const noexcept;

  // Starts over: with one part (for a server without ranges), or with the planned parts. Frees the
  // disk space of the old bytes.
  void restart(bool in_one_part);

  // Moves the complete file to `blob_path` and removes the record files. REQUIRES: all bytes are
  // stored and the digest was checked.
  void commit(const std::string& blob_path);
  // Removes all files of the download.
  void remove();

 private:
  std::vector<IndexedPart> found() const;
  // Removes the files whose paths start with `prefix`.
  void remove_files(const std::string& prefix) const;
  void write_part(size_t index) const;

  const std::string folder_;
  const std::string path_;
  const std::string
      temporary_;  // path prefix of a record file before its rename; the part's number follows
  const uint64_t n_bytes_;
  const PartSizes sizes_;
  const int fd_;
  std::vector<Part> parts_;
  std::vector<uint64_t> saved_;  // completed bytes in each part's record file
};

}  // namespace billow::registry
