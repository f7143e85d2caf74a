#include "convert/sources.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"

namespace billow::convert {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{256} << 20;
constexpr std::string_view kIndex = "model.safetensors.index.json";

}  // namespace

const SourceFile* Sources::find(std::string_view name) const {
  const auto at = std::ranges::find(files_, name, &SourceFile::name);
  return at == files_.end() ? nullptr : &*at;
}

std::optional<std::string> Sources::text(std::string_view name) const {
  const SourceFile* file = find(name);
  if (file == nullptr) return std::nullopt;
  const RegularFile opened(file->path);
  if (opened.size_bytes() > kMaxTextBytes) {
    throw Error(ErrorCode::kTooLarge, file->name + ": more than 256 MB of text");
  }
  std::string bytes(opened.size_bytes(), '\0');
  bytes.resize(opened.read_at(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::optional<Document> Sources::document(std::string_view name) const {
  const auto content = text(name);
  if (!content) return std::nullopt;
  return parse_document(*content, std::string(name));
}

std::vector<SourceFile> Sources::weights() const {
  std::vector<SourceFile> all;
  if (const auto index = document(kIndex)) {
    const DocumentFields fields(*index, std::string(kIndex));
    const Document* map = fields.find("weight_map");
    if (map == nullptr || !map->is_object()) fields.refuse("weight_map", "must be an object");
    std::set<std::string> names;
    for (const Document& value : *map) {
      if (!value.is_string()) fields.refuse("weight_map", "must name files");
      names.insert(value.get<std::string>());
    }
    for (const std::string& name : names) {
      const SourceFile* file = find(name);
      if (file == nullptr) {
        throw Error(ErrorCode::kInvalidInput,
                    std::string(kIndex) + ": its file '" + name + "' is missing; send it too");
      }
      all.push_back(*file);
    }
  } else {
    std::ranges::copy_if(files_, std::back_inserter(all), [](const SourceFile& file) {
      return file.name.ends_with(".safetensors") && file.name.find('/') == std::string::npos;
    });
  }
  if (all.empty()) throw Error(ErrorCode::kInvalidInput, "there are no safetensors files");
  return all;
}

}  // namespace billow::convert
