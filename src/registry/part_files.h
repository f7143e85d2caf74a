// The files of a download on its way, beside the blobs of a store and named as Ollama's programs
// name them: sha256-HEX-partial has the bytes, each at its place, and sha256-HEX-partial-N says how
// much of part N is there. Either program resumes what the other began. One thread at a time,
// but for write() and save(), which several threads may call for different parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "registry/parts.h"
#include "store/digest.h"

namespace billow::registry {

class PartFiles {
 public:
  // Opens the files of a blob of `n_bytes` in `folder`, or makes them: resumes where what is there
  // fits, else begins again. Waits while another program or PartFiles has them. Throws Error that
  // names the file, also where `stop` is set while it waits.
  PartFiles(const std::string& folder, const store::Digest& digest, uint64_t n_bytes,
            PartSizes sizes = {}, const std::stop_token& stop = {});
  ~PartFiles();
  PartFiles(const PartFiles&) = delete;
  PartFiles& operator=(const PartFiles&) = delete;

  const std::string& path() const noexcept { return path_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }

  // Writes bytes behind what is there of a part. The part's file follows after some MB. Throws
  // Error (kInvalidInput) for more bytes than the part has, kIo where the disk is full.
  void write(size_t index, std::span<const char> bytes);
  // Writes how much is there of a part: when its fetching pauses or ends.
  void save(size_t index);

  // Has the system begin to write these bytes to the disk, so that commit() waits less. Any thread.
  void begin_flush(uint64_t first, uint64_t end) const noexcept;

  // Begins again: with one part, where the server has no ranges, or as planned.
  void restart(bool in_one_part);

  // Puts the whole file in its place, and removes the files of parts. REQUIRES: all is there, and
  // the digest was checked.
  void commit(const std::string& blob_path);
  // Removes everything.
  void remove();

 private:
  std::vector<IndexedPart> found() const;
  void remove_part_files() const;
  void write_part(size_t index) const;

  const std::string folder_;
  const std::string path_;
  const std::string temporary_;  // with a part's number: its file before it has its name
  const uint64_t n_bytes_;
  const PartSizes sizes_;
  const int fd_;
  std::vector<Part> parts_;
  std::vector<uint64_t> saved_;  // of each part, what its file says
};

}  // namespace billow::registry
