// Which hidden states of a text make its vector, and what a model's file says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/file.h"

namespace billow::engine {

enum class Pooling : uint8_t {
  kNone,   // no pooling: a vector for each token
  kMean,   // the mean of all
  kFirst,  // that of the first token
  kLast,   // that of the last one
  kRank,   // a score, by the model's classifier
  kMax,    // the greatest value of each component
};
std::string_view pooling_name(Pooling pooling) noexcept;  // "none", "mean", "cls", "last", ...
std::optional<Pooling> find_pooling(std::string_view name) noexcept;

// By <architecture>.pooling_type, numbered as in llama.cpp. A file without it is no embedding
// model; what Ollama gives for such a one is the last token's hidden state. Throws Error
// (kUnsupported) for another number.
Pooling pooling_of(const gguf::File& file);

// What the file says: a name of pooling_name(), or another number as text. Empty: it is no
// embedding model.
std::string stated_pooling(const gguf::File& file);

}  // namespace billow::engine
