// Makes small random encoders as GGUF files with a tokenizer. See tiny_model.h for their
// properties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/type.h"

namespace billow::reference {

struct TinyEncoderOptions {
  std::string architecture = "bert";     // bert or nomic-bert
  quant::Type type = quant::Type::kF32;  // of all matrices; vectors and positions are F32
  uint32_t n_layers = 3;
  uint32_t n_embd = 128;
  uint32_t n_ff = 256;
  uint32_t n_head = 4;
  uint32_t n_context = 128;  // the longest text
  uint32_t n_types = 2;      // segments in token_types; 0: no such tensor
  bool fused = false;        // a joint matrix for q, k and v; nomic-bert always has it
  uint32_t n_labels = 0;     // outputs of the classifier; 0: none
  bool dense = true;         // whether the classifier has a dense layer before its outputs
  std::optional<uint32_t> pooling = 1;  // the pooling_type key
  uint64_t seed = 1;
};

// Returns the bytes of a GGUF file. REQUIRES: n_head divides n_embd, and 8 divides n_embd / n_head.
std::vector<std::byte> make_tiny_encoder(const TinyEncoderOptions& options = {});

// Writes the model to a file. Throws Error if the file cannot be written.
void write_tiny_encoder(const TinyEncoderOptions& options, const std::string& path);

struct TinyEncoderVariant {
  std::string name;  // usable as a file name
  TinyEncoderOptions options;
};

// Returns F32 models that together cover every feature of encoders.
std::vector<TinyEncoderVariant> tiny_encoder_variants();

}  // namespace billow::reference
