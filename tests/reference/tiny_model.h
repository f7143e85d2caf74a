// Makes small random models of each architecture as GGUF files with a tokenizer, in about ten
// milliseconds. The same options and seed give the same bytes on every machine. The scale of
// weights makes attention uneven, lets every tensor affect the logits, and spreads the logits over
// a few units. Tests therefore see an error anywhere in a forward pass. Pure functions.
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
  uint32_t window = 16;                  // gemma3: number of tokens that local layers see
  uint32_t window_period = 2;            // gemma3: every n-th layer is global
  float attention_softcap = 0;           // gemma3: of attention scores; llama.cpp ignores it
  float final_softcap = 0;               // gemma3: of logits; 0: none
  std::optional<uint32_t> pooling = {};  // the pooling_type key
  uint64_t seed = 1;

  friend bool operator==(const TinyModelOptions&, const TinyModelOptions&) = default;
};

// Returns the bytes of a GGUF file. Keeps the latest files, because tests often make the same model
// several times; any thread. If rows of a matrix are not a whole number of groups of its
// type, uses Q8_0, or F32 if Q8_0 does not fit either. REQUIRES: n_head_kv divides n_head, head_dim
// is even.
std::vector<std::byte> make_tiny_model(const TinyModelOptions& options = {});

// Writes the model to a file. Throws Error if the file cannot be written.
void write_tiny_model(const TinyModelOptions& options, const std::string& path);

struct TinyVariant {
  std::string name;  // usable as a file name
  TinyModelOptions options;
};

// Returns F32 models that together cover every feature of the architectures.
std::vector<TinyVariant> tiny_variants();

}  // namespace billow::reference
