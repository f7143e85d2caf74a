// The facts of a GGUF file that a store needs, from its metadata. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gguf/file.h"

namespace billow::store {

struct GgufFacts {
  std::string architecture;
  std::string kind;           // general.type: "model", "adapter", "mmproj"; "model" if missing
  std::string quantization;   // from general.file_type: "Q4_K_M", or "unknown"
  std::string chat_template;  // Jinja, or empty
  uint64_t n_parameters = 0;  // number of elements of all tensors
  uint64_t context_length = 0;
  uint64_t embedding_length = 0;
  bool has_pooling = false;  // embedding model or reranker
  bool has_vision = false;
  bool has_audio = false;

  bool is_projector() const noexcept { return kind == "mmproj" || architecture == "clip"; }
};

// Returns the facts of a file. Fields that are missing or of the wrong type stay empty.
GgufFacts facts_of(const gguf::File& file);

// Returns the name of a general.file_type; "unknown" for unassigned numbers.
std::string_view file_type_name(uint64_t number) noexcept;

// Returns a readable count: "134.52M", "1.2B", "7B".
std::string human_count(uint64_t n);

// Returns whether the file begins like a GGUF file. Throws Error if the file cannot be read.
bool begins_as_gguf(const std::string& path);

}  // namespace billow::store
