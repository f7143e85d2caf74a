// What config.json says about a language model: which family it is of and how large its parts are.
// Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/sources.h"

namespace billow::convert {

// One class of Hugging Face's library that can be converted: decoders with a norm before each
// sub-layer, rotated heads and a gated feed-forward part.
struct LanguageFamily {
  std::string_view name;          // as config.json has it in "architectures"
  std::string_view architecture;  // general.architecture
  bool pairs_heads;               // GGUF has the rows of Q and K in pairs: see PlannedTensor
  bool has_qkv_bias;
  bool norms_heads;  // Q and K have norms of their own, over each head
};

// How the rotation goes beyond the context of the training.
struct RopeScaling {
  std::string_view type;  // "linear", "yarn"; empty: none, or by the divisors below
  double factor = 1;
  uint32_t original_context = 0;
};

struct LanguageConfig {
  const LanguageFamily* family = nullptr;
  uint32_t n_embd = 0;
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_len = 0;
  uint32_t n_feed_forward = 0;
  uint32_t n_context = 0;
  double norm_epsilon = 0;
  double rope_base = 0;
  RopeScaling rope{};
  std::vector<float> rope_divisors{};  // of each pair of a head; empty: none (Llama 3.1's rule)
  bool ties_output = false;            // the output is the table of tokens
  std::optional<uint32_t> window{};    // that the model was trained with and that GGUF has not
};

// All that can be converted, in the order in which messages list them.
std::span<const LanguageFamily> language_families() noexcept;

// The family of config.json's class; null where it is none of these. Throws Error where the class
// is missing.
const LanguageFamily* find_language_family(const Sources& sources);

// Throws Error that names the field of config.json for a model that cannot be converted,
// kUnsupported where it is only not known here. REQUIRES: `family` is that of the sources.
LanguageConfig read_language_config(const Sources& sources, const LanguageFamily& family);

}  // namespace billow::convert
