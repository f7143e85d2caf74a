#include "arch/registry.h"

#include <string>

#include "base/error.h"

namespace billow::arch {

std::span<const ArchDef> architectures() noexcept {
  static const ArchDef kRows[] = {kGemma3, kLlama, kQwen2};
  return kRows;
}

std::unique_ptr<Model> load_model(const gguf::File& file, const LoadOptions& options) {
  const std::string_view name = file.require_string("general.architecture");
  std::string known;
  for (const ArchDef& def : architectures()) {
    if (def.name == name) return def.load(file, options);
    known += (known.empty() ? "" : ", ") + std::string(def.name);
  }
  throw Error(ErrorCode::kUnsupported, file.path() + ": architecture '" + std::string(name) +
                                           "' is not supported; supported are " + known);
}

}  // namespace billow::arch
