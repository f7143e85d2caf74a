// Metadata keys that families share. Plain functions, thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "convert/language_family.h"

namespace billow::convert {

// Writes what config.json contains in any of the usual spellings: sizes, heads, norms, rotation,
// experts. Skips missing fields. Throws Error (kUnsupported) for a rotation or an expert selection
// that GGUF cannot express.
void standard_keys(const LanguageModel& model, KeyWriter& keys);
// Writes standard_keys() and the vocabulary size.
void standard_keys_with_words(const LanguageModel& model, KeyWriter& keys);
// Writes standard_keys_with_words() and the rotated part of a head, which is the whole head.
void llama_keys(const LanguageModel& model, KeyWriter& keys);

// Writes only the rotation: its scaling, its base, and the base of layers with a window.
void rope_keys(const LanguageModel& model, KeyWriter& keys);

void word_count(const LanguageModel& model, KeyWriter& keys);
void context_length(const ModelConfig& config, KeyWriter& keys);
void head_lengths(uint32_t length, KeyWriter& keys);
// Writes how much of a head rotates: head_len() times "partial_rotary_factor".
void partial_rotation(const ModelConfig& config, double otherwise, KeyWriter& keys);
// Writes the window. If "layer_types" exists, also writes which layers have the window.
void window_keys(const ModelConfig& config, KeyWriter& keys);
// Copies a field to a key. Does nothing if no spelling of the field exists.
void count_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
void number_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
// Like number_if(), but throws Error for a value that is not above 0.
void positive_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
void flag_if(const ModelConfig& config, std::string_view name, std::string_view key,
             KeyWriter& keys);

// Returns one number per layer: `value` for each layer in `layers`, 0 for the others.
std::vector<uint32_t> where(const std::vector<bool>& layers, uint32_t value);

// Returns LongRoPE's divisors as tensors, and writes the factor of the attention scores.
std::vector<ComputedTensor> long_rope_divisors(const LanguageModel& model, KeyWriter& keys);
// Returns Llama 3.1's divisors of a head's frequencies. Returns an empty list for other rotations.
std::vector<float> llama3_divisors(const ModelConfig& config);

}  // namespace billow::convert
