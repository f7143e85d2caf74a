// The file of a projector: a file that has only the projector ("mmproj"), or the file of a model
// with the projector in it (embedded_projector.h). Immutable after opening; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/headed_file.h"
#include "gguf/file.h"
#include "vision/rule.h"

namespace billow::vision {

class ProjectorFile {
 public:
  // Opens and maps the file at `path`. Throws Error that names the file and the problem.
  static ProjectorFile open(const std::string& path);

  // The projector, with the keys "clip." and the names of tensors of a separate projector.
  const gguf::File& file() const noexcept { return view_ ? *view_ : origin_; }
  // The file on disk.
  const gguf::File& origin() const noexcept { return origin_; }
  // Returns whether the projector is a part of a model's file.
  bool is_embedded() const noexcept { return view_.has_value(); }
  // Returns the bytes that are mapped or made for the projector alone. The data of an embedded
  // projector is not included, because it is in the model's file.
  uint64_t n_own_bytes() const noexcept;
  // Like gguf::File::release(), for tensors of file().
  void release(std::span<const std::byte> bytes) const noexcept;

 private:
  explicit ProjectorFile(gguf::File origin) : origin_(std::move(origin)) {}

  gguf::File origin_;
  // The head of a projector and the tensors made for it; then the mapped file of the model.
  std::optional<HeadedFile> bytes_;
  uint64_t n_made_ = 0;
  std::optional<gguf::File> view_;
};

// Reads the rule of the projector in the file at `path`, from its header. Throws Error as rule_of()
// and embedded_projector() do.
Rule rule_at(const std::string& path);

}  // namespace billow::vision
