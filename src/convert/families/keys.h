// Metadata that families have alike. Plain functions; any thread.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "convert/language_family.h"

namespace billow::convert {

// What config.json says in any of the usual spellings: sizes, heads, norms, rotation, experts.
// Fields that are not there are left out. Throws Error (kUnsupported) for a rotation or a choice of
// experts that no GGUF file can have.
void standard_keys(const LanguageModel& model, KeyWriter& keys);
// The same and the size of the vocabulary.
void standard_keys_with_words(const LanguageModel& model, KeyWriter& keys);
// The same and how much of a head rotates, which is all.
void llama_keys(const LanguageModel& model, KeyWriter& keys);

// Only the rotation: its scaling, its base, and that of layers with a window.
void rope_keys(const LanguageModel& model, KeyWriter& keys);

void word_count(const LanguageModel& model, KeyWriter& keys);
void context_length(const ModelConfig& config, KeyWriter& keys);
void head_lengths(uint32_t length, KeyWriter& keys);
// How much of a head rotates: head_len() times "partial_rotary_factor".
void partial_rotation(const ModelConfig& config, double otherwise, KeyWriter& keys);
// The window, and which layers have it by "layer_types" where these are given.
void window_keys(const ModelConfig& config, KeyWriter& keys);
// Where one of the fields is there: as it is.
void count_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
void number_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
// The same; refuses what is not above 0.
void positive_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys);
void flag_if(const ModelConfig& config, std::string_view name, std::string_view key,
             KeyWriter& keys);

// A number for each layer: `value` where `layers` has the layer, else 0.
std::vector<uint32_t> where(const std::vector<bool>& layers, uint32_t value);

// LongRoPE's divisors as tensors, and the factor of scores that goes with them.
std::vector<ComputedTensor> long_rope_divisors(const LanguageModel& model, KeyWriter& keys);
// Llama 3.1's divisors of the frequencies of a head; empty where the rotation is of another type.
std::vector<float> llama3_divisors(const ModelConfig& config);

}  // namespace billow::convert
