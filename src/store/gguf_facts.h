// What a store needs to know of a GGUF file, read from its metadata. Plain data; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gguf/file.h"

namespace billow::store {

struct GgufFacts {
  std::string architecture;
  std::string kind;  // "model", "adapter", "mmproj": general.type, "model" where there is none
  std::string quantization;   // by general.file_type: "Q4_K_M", or "unknown"
  std::string chat_template;  // Jinja, or empty
  uint64_t n_parameters = 0;  // elements of all tensors
  uint64_t context_length = 0;
  uint64_t embedding_length = 0;
  bool has_pooling = false;  // an embedding model, or a reranker
  bool has_vision = false;
  bool has_audio = false;

  bool is_projector() const noexcept { return kind == "mmproj" || architecture == "clip"; }
};

// What is absent or of a wrong type stays empty.
GgufFacts facts_of(const gguf::File& file);

// The name of a general.file_type; "unknown" for a number that stands for nothing.
std::string_view file_type_name(uint64_t number) noexcept;

// How many parameters, for people: "134.52M", "1.2B", "7B".
std::string human_count(uint64_t n);

}  // namespace billow::store
