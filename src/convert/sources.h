// The files of a published model, by the names that its author chose. The names are only looked up,
// never used as paths. Owns only the list. Thread-safe.
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
  std::string path;  // location of the bytes
};

class Sources {
 public:
  explicit Sources(std::span<const SourceFile> files) : files_(files.begin(), files.end()) {}

  std::span<const SourceFile> files() const noexcept { return files_; }
  // Returns null if there is no such file.
  const SourceFile* find(std::string_view name) const;
  // Returns nullopt if there is no such file. Throws Error for a file of more than 256 MB.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<Document> document(std::string_view name) const;
  // Returns the safetensors files of the model. If an index exists, these are the files that it
  // names, else those of the outermost folder. Throws Error if there is no file or if a file is
  // missing.
  std::vector<SourceFile> weights() const;

 private:
  std::vector<SourceFile> files_;
};

}  // namespace billow::convert
