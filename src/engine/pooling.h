// Pooling: how hidden states of a text become its vector, and what a model's file states about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/file.h"

namespace billow::engine {

enum class Pooling : uint8_t {
  kNone,   // no pooling: a vector for each token
  kMean,   // mean of all tokens
  kFirst,  // the first token
  kLast,   // the last token
  kRank,   // a score from the model's classifier
  kMax,    // max of each component
};
std::string_view pooling_name(Pooling pooling) noexcept;  // "none", "mean", "cls", "last", ...
std::optional<Pooling> find_pooling(std::string_view name) noexcept;

// Returns the pooling of <architecture>.pooling_type, numbered as in llama.cpp. A file without this
// key is no embedding model; then returns kLast, like Ollama, which uses the last token's hidden
// state. Throws Error (kUnsupported) for another number.
Pooling pooling_of(const gguf::File& file);

// Returns what the file states: a name of pooling_name(), or an unknown number as text. Empty: no
// embedding model.
std::string stated_pooling(const gguf::File& file);

}  // namespace billow::engine
