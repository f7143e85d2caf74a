// The files of a model as it is published, by the names that its author gave them. The names are
// only looked up, never used as paths. Owns nothing but the list; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/json_document.h"

namespace billow::convert {

struct SourceFile {
  std::string name;  // relative: "config.json", "1_Pooling/config.json"
  std::string path;  // where its bytes lie
};

class Sources {
 public:
  explicit Sources(std::span<const SourceFile> files) : files_(files.begin(), files.end()) {}

  std::span<const SourceFile> files() const noexcept { return files_; }
  // Null where there is no such file.
  const SourceFile* find(std::string_view name) const;
  // nullopt where there is no such file. Throws Error for one of more than 256 MB.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<Document> document(std::string_view name) const;
  // The safetensors files that hold the model: those of the outermost folder, or, where an index is
  // there, those that it names. Throws Error where there are none or one of them is missing.
  std::vector<SourceFile> weights() const;

 private:
  std::vector<SourceFile> files_;
};

}  // namespace billow::convert
