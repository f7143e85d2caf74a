// Saved slots: files in one folder, each with the tokens of a text and the model that they belong
// to. The KV of the text is not in the file: the runner has it in its own files
// (kv/prefix_file.h), or computes it again. A file appears whole or not at all, and has a checksum.
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace billow::api {

struct SlotFilesOptions {
  std::string folder{};    // empty: slots cannot be saved
  uint64_t max_bytes = 0;  // of all files together
};

class SlotFiles {
 public:
  static constexpr size_t kMaxName = 200;  // bytes

  explicit SlotFiles(SlotFilesOptions options) : options_(std::move(options)) {}

  // All functions throw http::StatusError: 501 without a folder, and 400 if `name` is not a plain
  // file name. They throw Error if the system fails.

  void check(const std::string& name) const { (void)path_of(name); }

  // Writes or replaces a file. Returns its bytes. `model` identifies the weights. Throws 400 if the
  // files would need more than the limit.
  uint64_t save(const std::string& name, const std::string& model,
                const std::vector<int32_t>& tokens);

  struct Saved {
    std::vector<int32_t> tokens;
    uint64_t n_bytes = 0;  // of the file
  };
  // Throws 400 if there is no such file, or if it is damaged or belongs to another model.
  Saved load(const std::string& name, const std::string& model) const;

 private:
  std::string path_of(const std::string& name) const;

  const SlotFilesOptions options_;
  std::mutex mutex_;  // one save at a time
};

}  // namespace billow::api
