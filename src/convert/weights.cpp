#include "convert/weights.h"

#include <utility>

#include "base/error.h"

namespace billow::convert {
namespace {

std::string bare_name(std::string_view name) {
  for (const std::string_view prefix : {"bert.", "roberta."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  constexpr std::pair<std::string_view, std::string_view> kOldParts[] = {{".gamma", ".weight"},
                                                                         {".beta", ".bias"}};
  for (const auto& [old_part, part] : kOldParts) {
    if (!name.ends_with(old_part)) continue;
    return std::string(name.substr(0, name.size() - old_part.size())) + std::string(part);
  }
  return std::string(name);
}

}  // namespace

Weights::Weights(const Sources& sources) {
  for (const SourceFile& file : sources.weights()) {
    const MappedFile& mapped = files_.emplace_back(file.path);
    for (SafeTensor& tensor : parse_safetensors(mapped.bytes(), file.name)) {
      std::string name = bare_name(tensor.name);
      const auto [at, is_new] = tensors_.try_emplace(std::move(name), Entry{});
      if (!is_new) {
        throw Error(ErrorCode::kInvalidInput,
                    file.name + ": tensor '" + tensor.name + "' is there twice");
      }
      at->second.tensor = std::move(tensor);
    }
  }
}

const SafeTensor* Weights::take(std::string_view name) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) return nullptr;
  at->second.taken = true;
  return &at->second.tensor;
}

const SafeTensor* Weights::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second.tensor;
}

std::vector<std::string> Weights::left() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) {
    if (!entry.taken) names.push_back(name);
  }
  return names;
}

void Weights::release(const SafeTensor& tensor) const noexcept {
  for (const MappedFile& file : files_) file.release(tensor.data);
}

}  // namespace billow::convert
