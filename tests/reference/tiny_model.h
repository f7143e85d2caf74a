// Makes small random models of each architecture as GGUF, complete with a tokenizer, in some ten
// milliseconds. The same options and seed give the same bytes everywhere. Weights are scaled so
// that attention is uneven, every tensor moves the logits, and the logits spread over a few units:
// an error anywhere in a forward pass shows. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/type.h"

namespace billow::reference {

enum class TinyVocabulary {
  kByArchitecture,  // llama and qwen2: byte-level BPE of 300 tokens; gemma3: SentencePiece of 326
  kLlama2,          // SentencePiece of 323 tokens
};

enum class TinyRopeScaling {
  kNone,
  kLinear,    // factor 2
  kLlama3,    // the tensor rope_freqs of Llama 3.1, for an original context of 64
  kYarn,      // factor 4, original context 64
  kLongRope,  // long and short factors, original context 64
};

struct TinyModelOptions {
  std::string architecture = "llama";              // llama, qwen2 or gemma3
  quant::Type type = quant::Type::kF32;            // of all matrices; vectors are F32
  std::optional<quant::Type> embedding_type = {};  // of token_embd; absent: `type`
  std::optional<quant::Type> output_type = {};     // of output; absent: `type`
  uint32_t n_layers = 3;
  uint32_t n_embd = 256;
  uint32_t n_ff = 512;
  uint32_t n_head = 4;
  uint32_t n_head_kv = 2;
  uint32_t head_dim = 64;
  uint32_t n_context = 2048;  // the context_length key
  bool tied = false;          // no output tensor; gemma3 never has one
  TinyRopeScaling rope_scaling = TinyRopeScaling::kNone;
  TinyVocabulary vocabulary = TinyVocabulary::kByArchitecture;
  uint32_t window = 16;                  // gemma3: tokens that local layers see
  uint32_t window_period = 2;            // gemma3: every layer of this ordinal is global
  float attention_softcap = 0;           // gemma3: of attention scores; llama.cpp ignores it
  float final_softcap = 0;               // gemma3: of logits; 0: none
  std::optional<uint32_t> pooling = {};  // the pooling_type key
  uint64_t seed = 1;
};

// The bytes of a GGUF file. A matrix whose rows are no whole number of groups of its type gets
// Q8_0, or F32 where that does not fit either. REQUIRES: n_head_kv divides n_head, head_dim is
// even.
std::vector<std::byte> make_tiny_model(const TinyModelOptions& options = {});

// The same into a file. Throws Error when it cannot be written.
void write_tiny_model(const TinyModelOptions& options, const std::string& path);

struct TinyVariant {
  std::string name;  // usable as a file name
  TinyModelOptions options;
};

// F32 models that between them use everything that an architecture may have.
std::vector<TinyVariant> tiny_variants();

}  // namespace billow::reference
