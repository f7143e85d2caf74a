// The names of the types of keys and values in options, like those of llama.cpp and Ollama.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/kv_block.h"

namespace billow::kernels {

struct KvTypeName {
  std::string_view name;
  KvType type;
};

inline constexpr KvTypeName kKvTypeNames[] = {{"f16", KvType::kInt16},
                                              {"q8_0", KvType::kQ8_0},
                                              {"q4_0", KvType::kQ4_0},
                                              {"f32", KvType::kF32}};

// Returns "" for a value that is not a KvType.
constexpr std::string_view name_of(KvType type) {
  for (const KvTypeName& row : kKvTypeNames)
    if (row.type == type) return row.name;
  return "";
}

constexpr std::optional<KvType> find_kv_type(std::string_view name) {
  for (const KvTypeName& row : kKvTypeNames)
    if (row.name == name) return row.type;
  return std::nullopt;
}

}  // namespace billow::kernels
