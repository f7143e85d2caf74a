// The table of architectures: one row each, in registry.cpp. docs/adding-a-model.md says how to add
// one.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "arch/encoder.h"
#include "arch/model.h"

namespace billow::arch {

struct ArchDef {
  std::string_view name;  // general.architecture
  // One of the two; the other is null.
  std::unique_ptr<Model> (*load)(const gguf::File& file, const LoadOptions& options);
  std::unique_ptr<Encoder> (*load_encoder)(const gguf::File& file,
                                           const LoadOptions& options) = nullptr;
};

// The `load` of a family whose class is made from a file and options.
template <class Family>
std::unique_ptr<Model> load_as(const gguf::File& file, const LoadOptions& options) {
  return std::make_unique<Family>(file, options);
}

std::span<const ArchDef> architectures() noexcept;

// Defined in the files of their names.
extern const ArchDef kLlama;
extern const ArchDef kQwen2;
extern const ArchDef kGemma3;
extern const ArchDef kBert;
extern const ArchDef kNomicBert;

}  // namespace billow::arch
